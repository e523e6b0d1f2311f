// Package postgres keeps a store in one table of a PostgreSQL database, shared
// by any number of processes and machines.
//
// # Model
//
// Every write is one statement, committed by itself, whose condition is in the
// statement: INSERT … ON CONFLICT DO NOTHING, UPDATE … WHERE version = …,
// DELETE … WHERE version = …. There is no transaction to hold open and no read
// whose answer could be stale. A batch is one transaction at READ COMMITTED; it
// touches its keys in key order, so that two batches do not deadlock.
//
// # Lost answers
//
// When the connection breaks or the context ends after a statement was sent,
// the server may have committed it, or may still do so. That is
// *backend.UnknownOutcomeError, not a failure; the store in front reads the
// nonce back. An error that the server itself reported means that nothing was
// written, except for those that it sends when it ends a connection (class 08,
// 57P01, 57P02, 40003), which say nothing about the commit.
//
// # Limits
//
// The address must lead to the primary: a replica answers reads late. Writes
// last as long as the server's settings let them; with synchronous_commit or
// fsync off, Capabilities().Durable is false.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// Options are for Open. The zero value is useful.
type Options struct {
	// Table is the table's name, with or without a schema; empty means
	// holdfast_kv. It is created if it is absent.
	Table string
}

// defaultMaxConns is used when the address has no pool_max_conns.
const defaultMaxConns = 16

// Backend is a store in a table.
type Backend struct {
	pool    *pgxpool.Pool
	sql     statements
	durable bool
}

// statements are the SQL texts for one table.
type statements struct {
	get, insert, update, upsert, version, remove, removeIf, removeMany, add, addFirst string
	list                                                                              string
}

func newStatements(table string) statements {
	r := strings.NewReplacer("TABLE", table,
		"SUM", "(convert_from(value, 'UTF8')::numeric + $2)")
	return statements{
		get:        r.Replace("SELECT value, version FROM TABLE WHERE key = $1"),
		insert:     r.Replace("INSERT INTO TABLE (key, value, version) VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING"),
		update:     r.Replace("UPDATE TABLE SET value = $2, version = $3 WHERE key = $1 AND version = $4"),
		upsert:     r.Replace("INSERT INTO TABLE (key, value, version) VALUES ($1, $2, $3) ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version"),
		version:    r.Replace("SELECT version FROM TABLE WHERE key = $1"),
		remove:     r.Replace("DELETE FROM TABLE WHERE key = $1"),
		removeIf:   r.Replace("DELETE FROM TABLE WHERE key = $1 AND version = $2"),
		removeMany: r.Replace("DELETE FROM TABLE AS t USING unnest($1::text[], $2::text[]) AS d (key, version) WHERE t.key = d.key AND (d.version = '' OR t.version = d.version)"),
		add: r.Replace("UPDATE TABLE SET value = convert_to(SUM::text, 'UTF8'), version = $3 " +
			"WHERE key = $1 AND SUM BETWEEN $4::bigint AND $5::bigint RETURNING convert_from(value, 'UTF8')::bigint"),
		addFirst: r.Replace("INSERT INTO TABLE (key, value, version) VALUES ($1, convert_to($2::bigint::text, 'UTF8'), $3) ON CONFLICT (key) DO NOTHING"),
		list:     r.Replace("SELECT key, version, VALUE FROM TABLE WHERE "),
	}
}

// Open connects to the database that a URL or a keyword string names (see
// pgxpool.ParseConfig, pool_max_conns included) and makes the table if it is
// absent. Several processes may do so at once.
func Open(ctx context.Context, address string, opts Options) (*Backend, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		// pgx's message leaves the password out.
		return nil, &backend.InvalidError{Op: "open postgres store", What: "address", Why: err.Error()}
	}
	if !strings.Contains(address, "pool_max_conns") {
		config.MaxConns = defaultMaxConns
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open postgres store: %w", err)
	}
	if opts.Table == "" {
		opts.Table = "holdfast_kv"
	}
	table := pgx.Identifier(strings.Split(opts.Table, ".")).Sanitize()
	b := &Backend{pool: pool, sql: newStatements(table)}
	if err := b.prepare(ctx, table); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open postgres store in table %s: %w", table, err)
	}
	return b, nil
}

// prepare makes the table. It asks first, so that an account without the right
// to create can use a table that was made for it. CREATE TABLE IF NOT EXISTS
// alone fails when two sessions run it at once, hence the lock.
func (b *Backend) prepare(ctx context.Context, table string) error {
	var exists bool
	var syncs, commits string
	err := b.pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL, current_setting('fsync'), current_setting('synchronous_commit')", table).Scan(&exists, &syncs, &commits)
	if err != nil {
		return err
	}
	b.durable = syncs == "on" && commits != "off"
	if exists {
		return nil
	}
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", "holdfast "+table); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+table+` (
			key text COLLATE "C" PRIMARY KEY,
			value bytea NOT NULL,
			version text COLLATE "C" NOT NULL)`)
		return err
	})
}

// Capabilities implements backend.Backend.
func (b *Backend) Capabilities() backend.Capabilities {
	return backend.Capabilities{
		Name:   "postgres",
		Put:    backend.Enforced{CreateOnly: true, IfVersion: true},
		Delete: backend.Enforced{IfVersion: true},
		Batch:  true, Add: true, ListVersions: true, Shared: true, Durable: b.durable,
		// The protocol and the server build the row in memory; 1 GB is its end.
		MaxValueBytes: 256 << 20,
	}
}

// Close closes the pool and waits for the calls that use it.
func (b *Backend) Close() error {
	b.pool.Close()
	return nil
}

// request is a write as messages and outcomes need it.
type request struct {
	op, key, nonce string
	cond           backend.Condition
}

// failure turns an error into an outcome. sent says that a statement may have
// reached the server.
func (r request) failure(ctx context.Context, sent bool, err error) error {
	if errors.Is(err, puddle.ErrClosedPool) {
		return fmt.Errorf("%s %q: %w", r.op, r.key, backend.ErrClosed)
	}
	cause := err
	if ctx.Err() != nil {
		cause = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	var reported *pgconn.PgError
	// pgx reports the loss of an answer to a simple query, such as COMMIT, as
	// ErrConnClosed, which claims that nothing was sent.
	unsent := pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
	definite := !sent || unsent || errors.Is(err, pgx.ErrTxCommitRollback)
	if errors.As(err, &reported) {
		definite = !endsConnection(reported.Code)
	}
	if definite {
		return fmt.Errorf("%s %q: nothing was written: %w", r.op, r.key, cause)
	}
	return &backend.UnknownOutcomeError{Op: r.op, Key: r.key, Cond: r.cond, Nonce: r.nonce, Err: cause}
}

func endsConnection(code string) bool {
	return strings.HasPrefix(code, "08") || code == "57P01" || code == "57P02" || code == "40003"
}

// transient says whether the server undid the statement and asks for another
// try: a serialization failure (the session's default isolation may be higher
// than READ COMMITTED) or a deadlock.
func transient(err error) bool {
	var reported *pgconn.PgError
	return errors.As(err, &reported) && (reported.Code == "40001" || reported.Code == "40P01")
}

// transientTries bounds the repetition of statements that the server undid.
const transientTries = 20

// with runs f on a connection. Everything before f is certain not to have sent
// anything of the write.
func (b *Backend) with(ctx context.Context, r request, f func(*pgxpool.Conn) error) error {
	for try := 1; ; try++ {
		conn, err := b.pool.Acquire(ctx)
		if err != nil {
			return r.failure(ctx, false, err)
		}
		err = f(conn)
		conn.Release()
		if err == nil || isOutcome(err) {
			return err
		}
		if !transient(err) || try == transientTries {
			return r.failure(ctx, true, err)
		}
		timer := time.NewTimer(rand.N(time.Duration(try) * time.Millisecond))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return r.failure(ctx, false, err)
		}
	}
}

// isOutcome says whether f has decided already.
func isOutcome(err error) bool {
	var bounds *backend.BoundsError
	var corrupt *backend.CorruptError
	return errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrUnknownOutcome) ||
		errors.As(err, &bounds) || errors.As(err, &corrupt)
}

// Get implements backend.Backend.
func (b *Backend) Get(ctx context.Context, key string) (backend.Item, error) {
	item := backend.Item{Key: key}
	err := b.pool.QueryRow(ctx, b.sql.get, key).Scan(&item.Value, &item.Nonce)
	if errors.Is(err, pgx.ErrNoRows) {
		return backend.Item{}, &backend.NotFoundError{Key: key}
	}
	if err != nil {
		return backend.Item{}, readFailure(ctx, "get", key, err)
	}
	item.Version = backend.Version(item.Nonce)
	return item, nil
}

func readFailure(ctx context.Context, op, key string, err error) error {
	switch {
	case errors.Is(err, puddle.ErrClosedPool):
		err = backend.ErrClosed
	case ctx.Err() != nil:
		err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return fmt.Errorf("%s %q: %w", op, key, err)
}

// querier is a connection or a transaction on one.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// step runs the statement of one step. If its condition did not hold, it asks
// which version is there now. That is a second look: the answer is for the
// message, and is never the wanted version itself, which a look in the same
// statement could show, because its snapshot is older than the row lock that
// the update waited for.
func (b *Backend) step(ctx context.Context, q querier, op string, s backend.Op) error {
	var tag pgconn.CommandTag
	var err error
	value := s.Value
	if value == nil {
		value = []byte{}
	}
	conditional := true
	switch kind := s.Cond.Kind(); {
	case s.Delete && kind == backend.KindIfVersion:
		tag, err = q.Exec(ctx, b.sql.removeIf, s.Key, string(s.Cond.Version()))
	case s.Delete:
		conditional = false
		_, err = q.Exec(ctx, b.sql.remove, s.Key)
	case kind == backend.KindCreateOnly:
		tag, err = q.Exec(ctx, b.sql.insert, s.Key, value, s.Nonce)
	case kind == backend.KindIfVersion:
		tag, err = q.Exec(ctx, b.sql.update, s.Key, value, s.Nonce, string(s.Cond.Version()))
	default:
		conditional = false
		_, err = q.Exec(ctx, b.sql.upsert, s.Key, value, s.Nonce)
	}
	if err != nil || !conditional || tag.RowsAffected() == 1 {
		return err
	}
	conflict := &backend.ConflictError{Op: op, Key: s.Key, Wanted: s.Cond}
	var found string
	switch err := q.QueryRow(ctx, b.sql.version, s.Key).Scan(&found); {
	case errors.Is(err, pgx.ErrNoRows):
		conflict.Absent = s.Cond.Kind() == backend.KindIfVersion
	case err == nil:
		conflict.Found, conflict.FoundNonce = backend.Version(found), found
	}
	// An error of the second look changes nothing about the conflict.
	return conflict
}

// Put implements backend.Backend.
func (b *Backend) Put(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
	r := request{op: "put", key: req.Key, cond: req.Cond, nonce: req.Nonce}
	s := backend.Op{Key: req.Key, Value: req.Value, Cond: req.Cond, Nonce: req.Nonce}
	err := b.with(ctx, r, func(conn *pgxpool.Conn) error { return b.step(ctx, conn, "put", s) })
	if err != nil {
		return "", err
	}
	return backend.Version(req.Nonce), nil
}

// Delete implements backend.Backend.
func (b *Backend) Delete(ctx context.Context, req backend.DeleteRequest) error {
	r := request{op: "delete", key: req.Key, cond: req.Cond}
	s := backend.Op{Key: req.Key, Cond: req.Cond, Delete: true}
	return b.with(ctx, r, func(conn *pgxpool.Conn) error { return b.step(ctx, conn, "delete", s) })
}

// Batch implements backend.Batcher.
func (b *Backend) Batch(ctx context.Context, ops []backend.Op) ([]backend.Version, error) {
	order := make([]int, len(ops))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return strings.Compare(ops[x].Key, ops[y].Key) })
	r := request{op: "batch", key: ops[0].Key, cond: ops[0].Cond, nonce: ops[0].Nonce}
	err := b.with(ctx, r, func(conn *pgxpool.Conn) error { return b.batchOn(ctx, conn, r, ops, order) })
	if err != nil {
		return nil, err
	}
	versions := make([]backend.Version, len(ops))
	for i, op := range ops {
		if !op.Delete {
			versions[i] = backend.Version(op.Nonce)
		}
	}
	return versions, nil
}

// batchOn is certain that nothing was written until it asks for the commit.
func (b *Backend) batchOn(ctx context.Context, conn *pgxpool.Conn, r request, ops []backend.Op, order []int) error {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return &undone{err}
	}
	for _, i := range order {
		if err := b.step(ctx, tx, "batch", ops[i]); err != nil {
			// If this fails the connection is closed, which undoes it as well.
			_ = tx.Rollback(ctx)
			if isOutcome(err) || transient(err) {
				return err
			}
			return r.failure(ctx, false, err)
		}
	}
	return tx.Commit(ctx)
}

// undone marks an error before anything could have been committed.
type undone struct{ error }

func (u *undone) Unwrap() error     { return u.error }
func (u *undone) SafeToRetry() bool { return true }

// deleteChunk is how many keys one statement of DeleteMany deletes.
const deleteChunk = 2000

// DeleteMany implements backend.BulkDeleter.
func (b *Backend) DeleteMany(ctx context.Context, reqs []backend.DeleteRequest) (int, error) {
	gone := 0
	for chunk := range slices.Chunk(reqs, deleteChunk) {
		keys, versions := make([]string, len(chunk)), make([]string, len(chunk))
		for i, req := range chunk {
			keys[i], versions[i] = req.Key, string(req.Cond.Version())
		}
		r := request{op: "delete many", key: keys[0]}
		err := b.with(ctx, r, func(conn *pgxpool.Conn) error {
			tag, err := conn.Exec(ctx, b.sql.removeMany, keys, versions)
			gone += int(tag.RowsAffected())
			return err
		})
		if err != nil {
			return gone, err
		}
	}
	return gone, nil
}
