package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/store"
)

// Options are for [NewTable], [NewSQL] and [NewPgx]. The zero value is useful.
type Options struct {
	// Table is where keys are kept; empty means holdfast_idempotency.
	Table string
	// TTL is how long an answer is kept; 0 means [DefaultTTL], and less than
	// [MinTTL] is refused.
	TTL time.Duration
	// Wait is how long a copy waits for the first request to end before it gets
	// *[InProgressError]; 0 means not at all. Only [Keys] waits.
	Wait time.Duration
	// Attempts is how often [Keys] runs a transaction that the database breaks
	// off with a serialization failure, a deadlock or a lock time-out; 0 means
	// 5.
	Attempts int
}

// Table keeps keys in a table of the application's own database, for
// transactions that the application runs itself. It is safe for concurrent use.
type Table struct {
	name    string
	ttl     time.Duration
	dialect guard.Dialect
	sql     statements
}

// NewTable checks the options. It does not look at the database.
func NewTable(d guard.Dialect, opts Options) (*Table, error) {
	if opts.Table == "" {
		opts.Table = "holdfast_idempotency"
	}
	if err := checkTable(opts.Table); err != nil {
		return nil, err
	}
	ttl, err := ttlOrError(opts.TTL)
	if err != nil {
		return nil, err
	}
	return &Table{name: opts.Table, ttl: ttl, dialect: d, sql: newStatements(d, opts.Table)}, nil
}

// Schema returns the statements that make the table, for an application that
// keeps its migrations itself.
func (t *Table) Schema() []string { return append([]string(nil), t.sql.create...) }

// Create makes the table if it is absent; several processes may do so at once.
func (t *Table) Create(ctx context.Context, h guard.Handle) error {
	for _, statement := range t.sql.create {
		_, err := h.Exec(ctx, statement)
		for tries := 0; tries < 3 && createdMeanwhile(err); tries++ {
			_, err = h.Exec(ctx, statement)
		}
		if err != nil {
			return fmt.Errorf("create table %s: %w", t.name, err)
		}
	}
	return nil
}

// createdMeanwhile is how PostgreSQL's IF NOT EXISTS fails when another session
// creates the same at the same time.
func createdMeanwhile(err error) bool {
	return sqlState(err) == "23505" || sqlState(err) == "42P07"
}

// Claim takes the key for this transaction, and must be its first statement.
// It returns nil if the key is now this transaction's: have the effect, call
// [Table.Record] if there is an answer to keep, and commit. It returns the
// answer if it was recorded before: have no effect and roll back.
// *[InProgressError] and *[MismatchError] say that the transaction must be
// rolled back as well.
//
// tx must be a transaction. On a Handle of a database each statement commits by
// itself: a crash after the claim would lose the request.
func (t *Table) Claim(ctx context.Context, tx guard.Handle, req Request) (*Answer, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	if tx.Dialect() != t.dialect {
		return nil, &store.InvalidError{Op: "idempotency", What: "handle", Why: "it speaks another dialect than the table was made for"}
	}
	return t.claim(ctx, tx, req, t.claimOf(req), false)
}

// claimOf is the statement that claims the key: it changes one row if the key
// was free.
func (t *Table) claimOf(req Request) *statement {
	args := []any{t.bind(req.Scope), t.bind(req.Key), fingerprint(req), seconds(t.ttl)}
	if t.dialect == guard.Postgres {
		args = append(args, t.lock(req))
	}
	return &statement{query: t.sql.claim, args: args}
}

// claimTries bounds what a sweeper can do to a claim: it may delete the expired
// record between the insert that met it and the read that wants to see it.
const claimTries = 3

// claim runs the statement, unless it was sent along with BEGIN, and looks at
// what was in its way.
func (t *Table) claim(ctx context.Context, tx guard.Handle, req Request, claim *statement, sent bool) (*Answer, error) {
	for range claimTries {
		if !sent {
			var err error
			if claim.changed, err = tx.Exec(ctx, claim.query, claim.args...); err != nil {
				return nil, t.failed(req, err)
			}
		}
		if claim.changed == 1 {
			return nil, nil
		}
		sent = false
		r, err := t.read(ctx, tx, req)
		if err == nil && !r.expired {
			return r.answer(req)
		}
		if errors.Is(err, sql.ErrNoRows) {
			if t.dialect == guard.Postgres {
				// Nothing in the way but the lock of a request that has not
				// ended. (Or a record that was swept just now; then it does no
				// harm to say so.)
				return nil, &InProgressError{Scope: req.Scope, Key: req.Key}
			}
			continue
		}
		if err != nil {
			return nil, t.failed(req, err)
		}
		n, err := tx.Exec(ctx, t.sql.revive, t.reviveArgs(req)...)
		if err != nil {
			return nil, t.failed(req, err)
		}
		if n == 1 {
			return nil, nil
		}
	}
	return nil, &InProgressError{Scope: req.Scope, Key: req.Key, Err: errors.New("its expired record is being swept and claimed by others")}
}

func (t *Table) reviveArgs(req Request) []any {
	args := []any{fingerprint(req), seconds(t.ttl), t.bind(req.Scope), t.bind(req.Key)}
	if t.dialect == guard.Postgres {
		args = append(args, t.lock(req))
	}
	return args
}

// Record keeps the answer of the request that has claimed the key, in the same
// transaction.
func (t *Table) Record(ctx context.Context, tx guard.Handle, req Request, a Answer) error {
	record, err := t.recordOf(req, a)
	if err != nil {
		return err
	}
	n, err := tx.Exec(ctx, record.query, record.args...)
	if err != nil {
		return fmt.Errorf("record the answer for idempotency key %q: %w", req.Key, err)
	}
	if n != 1 && t.dialect != guard.MySQL { // MySQL does not count a row that is as it was
		return &store.InvalidError{Op: "record an answer", What: fmt.Sprintf("key %q", req.Key),
			Why: "it is not there; call Claim first, in the same transaction"}
	}
	return nil
}

func (t *Table) recordOf(req Request, a Answer) (*statement, error) {
	header, err := encodeHeader(a.Header)
	if err != nil {
		return nil, fmt.Errorf("record the answer for idempotency key %q: %w", req.Key, err)
	}
	body := a.Body
	if body == nil {
		body = []byte{}
	}
	return &statement{query: t.sql.record, args: []any{a.Status, header, body, t.bind(req.Scope), t.bind(req.Key)}}, nil
}

// Lookup returns the recorded answer, or store.ErrNotFound: then no request with
// this key has been committed, or its key has expired. One may be in progress.
func (t *Table) Lookup(ctx context.Context, h guard.Handle, req Request) (*Answer, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	r, err := t.read(ctx, h, req)
	if errors.Is(err, sql.ErrNoRows) || err == nil && r.expired {
		return nil, &store.NotFoundError{Key: req.Key}
	}
	if err != nil {
		return nil, fmt.Errorf("look up idempotency key %q: %w", req.Key, err)
	}
	return r.answer(req)
}

// Sweep deletes at most limit expired keys and returns how many it deleted.
// Repeat it while that is limit. It is safe in several processes at once; on
// MySQL it may be the one to be broken off by a deadlock with a claim.
func (t *Table) Sweep(ctx context.Context, h guard.Handle, limit int) (int64, error) {
	if limit <= 0 {
		return 0, &store.InvalidError{Op: "sweep", What: fmt.Sprintf("limit %d", limit), Why: "it must be positive"}
	}
	n, err := h.Exec(ctx, t.sql.sweep, limit)
	if err != nil {
		return n, fmt.Errorf("sweep expired idempotency keys of %s: %w", t.name, err)
	}
	return n, nil
}

// row is a record as it is read.
type row struct {
	fingerprint []byte
	status      int
	header      string
	body        []byte
	expired     bool
}

func (t *Table) read(ctx context.Context, h guard.Handle, req Request) (row, error) {
	var r row
	err := h.QueryRow(ctx, t.sql.read, t.bind(req.Scope), t.bind(req.Key)).Scan(&r.fingerprint, &r.status, &r.header, &r.body, &r.expired)
	return r, err
}

func (r row) answer(req Request) (*Answer, error) {
	if len(r.fingerprint) > 0 && len(req.Fingerprint) > 0 && !bytes.Equal(r.fingerprint, req.Fingerprint) {
		return nil, &MismatchError{Scope: req.Scope, Key: req.Key}
	}
	header, err := decodeHeader(r.header)
	if err != nil {
		return nil, &store.CorruptError{Key: req.Key, Why: "the header of the recorded answer: " + err.Error()}
	}
	return &Answer{Status: r.status, Header: header, Body: r.body}, nil
}

// bind is a scope or key as the dialect binds it: MySQL compares bytes.
func (t *Table) bind(s string) any {
	if t.dialect == guard.MySQL {
		return []byte(s)
	}
	return s
}

func (t *Table) failed(req Request, err error) error {
	if lockTimeout(err) {
		return &InProgressError{Scope: req.Scope, Key: req.Key, Err: err}
	}
	return fmt.Errorf("claim idempotency key %q: %w", req.Key, err)
}

// lock is the number of the advisory lock of a key. Two keys with the same
// number, one pair in 2^64, see each other as in progress.
func (t *Table) lock(req Request) int64 {
	sum := sha256.Sum256(Fingerprint([]byte("holdfast idempotency"), []byte(t.name), []byte(req.Scope), []byte(req.Key)))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

func fingerprint(req Request) []byte {
	if req.Fingerprint == nil {
		return []byte{}
	}
	return req.Fingerprint
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
