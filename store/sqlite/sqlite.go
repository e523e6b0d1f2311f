// Package sqlite keeps a store in a SQLite file, shared by any number of
// processes of one machine.
//
// # Model
//
// The file is in WAL mode with synchronous=FULL: readers never wait for the
// writer, and a commit is on the disk before it is acknowledged. SQLite lets
// one transaction write at a time, so within a process one goroutine at a time
// writes, on one connection. A write that meets no other runs in its caller's
// goroutine. Otherwise the writer goroutine takes everything that is waiting,
// runs it in one BEGIN IMMEDIATE transaction and commits once for all ("group
// commit"): 64 writers share a sync that would otherwise be made 64 times, one
// after the other. Each write keeps its own outcome; a conflict of one does not
// touch another.
//
// Other processes exclude each other by SQLite's own lock, which the system
// releases when a process dies.
//
// The driver is modernc.org/sqlite, SQLite translated to Go: no C compiler, so
// programs cross-compile and stay one static file. A cgo driver executes
// statements faster, but the time of a durable commit is the disk's.
//
// # Limits
//
// A process that is stopped inside a transaction holds up the writers of all
// others until it goes on or their contexts end. The file must be on a local
// disk: SQLite's WAL mode does not work over network file systems.
package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// Options are for Open. The zero value is useful.
type Options struct {
	// Readers is how many reads run at once; 0 means 4.
	Readers int
	// MaxBatch is how many writes share a commit at most; 0 means 512. 1 turns
	// group commit off.
	MaxBatch int
}

const schema = `CREATE TABLE IF NOT EXISTS holdfast_kv (
	key TEXT NOT NULL PRIMARY KEY,
	value BLOB NOT NULL,
	version TEXT NOT NULL
)`

// Backend is a store in a SQLite file.
type Backend struct {
	read  *sql.DB
	get   *sql.Stmt
	write *sql.DB
	w     *writer
	done  sync.WaitGroup
}

// Open opens the store in the file at path and creates what is missing. The
// table is holdfast_kv; other tables of the file are left alone.
func Open(ctx context.Context, path string, opts Options) (*Backend, error) {
	if opts.Readers <= 0 {
		opts.Readers = 4
	}
	if opts.MaxBatch <= 0 {
		opts.MaxBatch = 512
	}
	b, err := open(ctx, path, opts)
	if err != nil {
		return nil, fmt.Errorf("open sqlite store %s: %w", path, err)
	}
	return b, nil
}

func open(ctx context.Context, path string, opts Options) (*Backend, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// The writer polls for SQLite's lock itself, so that a waiting caller can
	// leave when its context ends.
	write, err := sql.Open("sqlite", dsn(abs, "busy_timeout(0)", "synchronous(FULL)"))
	if err != nil {
		return nil, err
	}
	write.SetMaxOpenConns(1)
	b := &Backend{write: write}
	if err := b.start(ctx, abs, opts); err != nil {
		return nil, errors.Join(err, b.closeDatabases())
	}
	return b, nil
}

func (b *Backend) start(ctx context.Context, path string, opts Options) error {
	// Several processes may open the file at once, and while one of them turns
	// it to WAL mode even its settings can not be read.
	var conn *sql.Conn
	if err := untilFree(ctx, func() (err error) {
		conn, err = b.write.Conn(ctx)
		return err
	}); err != nil {
		return err
	}
	var err error
	for _, statement := range []string{"PRAGMA journal_mode=WAL", schema} {
		if err := untilFree(ctx, func() error {
			_, err := conn.ExecContext(ctx, statement)
			return err
		}); err != nil {
			return errors.Join(err, conn.Close())
		}
	}
	if b.w, err = newWriter(ctx, conn, opts.MaxBatch); err != nil {
		return errors.Join(err, conn.Close())
	}
	b.read, err = sql.Open("sqlite", dsn(path, "busy_timeout(5000)", "query_only(1)"))
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	b.read.SetMaxOpenConns(opts.Readers)
	b.read.SetMaxIdleConns(opts.Readers)
	if err := untilFree(ctx, func() (err error) {
		b.get, err = b.read.PrepareContext(ctx, "SELECT value, version FROM holdfast_kv WHERE key = ?")
		return err
	}); err != nil {
		return errors.Join(err, conn.Close())
	}
	b.done.Go(b.w.loop)
	return nil
}

func dsn(path string, pragmas ...string) string {
	query := url.Values{"_pragma": pragmas}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
}

// busy says whether another connection holds the lock that err could not get.
func busy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_BUSY || e.Code()&0xff == sqlite3.SQLITE_LOCKED)
}

// untilFree repeats f while the file is locked, with short random pauses.
// SQLite's own busy handler pauses up to 100 ms and does not notice the end of
// a context.
func untilFree(ctx context.Context, f func() error) error {
	pause := 50 * time.Microsecond
	for {
		err := f()
		if !busy(err) {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("another process holds the lock of the file: %w", context.Cause(ctx))
		}
		pause = min(2*pause, 2*time.Millisecond)
	}
}

// Capabilities implements backend.Backend.
func (b *Backend) Capabilities() backend.Capabilities {
	return backend.Capabilities{
		Name:   "sqlite",
		Put:    backend.Enforced{CreateOnly: true, IfVersion: true},
		Delete: backend.Enforced{IfVersion: true},
		Batch:  true, Add: true, ListVersions: true, Shared: true, Durable: true,
		// SQLite's default limit is a little above.
		MaxValueBytes: 500 << 20,
	}
}

// Close lets the writes that have begun end, refuses the others, and closes
// the file.
func (b *Backend) Close() error {
	b.w.close()
	b.done.Wait()
	// The turn is kept: no lone write starts on the closed connection.
	b.w.last.Do(func() { b.w.turn <- struct{}{} })
	return b.closeDatabases()
}

func (b *Backend) closeDatabases() error {
	var err error
	if b.read != nil {
		err = b.read.Close()
	}
	return errors.Join(err, b.write.Close())
}

// fault adds the operation to an error of the driver. The driver's error for
// an interrupted statement does not say why, so the context does.
func (b *Backend) fault(ctx context.Context, op, key string, err error) error {
	switch {
	case b.w.isClosed():
		err = backend.ErrClosed
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%s %q: %w", op, key, err)
}

// Get implements backend.Backend.
func (b *Backend) Get(ctx context.Context, key string) (backend.Item, error) {
	item := backend.Item{Key: key}
	// database/sql scans into a plain string without reflection.
	err := b.get.QueryRowContext(ctx, key).Scan(&item.Value, &item.Nonce)
	if errors.Is(err, sql.ErrNoRows) {
		return backend.Item{}, &backend.NotFoundError{Key: key}
	}
	if err != nil {
		return backend.Item{}, b.fault(ctx, "get", key, err)
	}
	item.Version = backend.Version(item.Nonce)
	return item, nil
}

// Put implements backend.Backend. The value is copied, because a caller who
// leaves a running write may change its slice while the writer still reads it;
// so it is for the other writes.
func (b *Backend) Put(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
	j := &job{op: "put", steps: []backend.Op{{Key: req.Key, Value: bytes.Clone(req.Value), Cond: req.Cond, Nonce: req.Nonce}}}
	if err := b.w.do(ctx, j); err != nil {
		return "", err
	}
	return backend.Version(req.Nonce), nil
}

// Delete implements backend.Backend.
func (b *Backend) Delete(ctx context.Context, req backend.DeleteRequest) error {
	return b.w.do(ctx, &job{op: "delete", steps: []backend.Op{{Key: req.Key, Cond: req.Cond, Delete: true}}})
}

// Batch implements backend.Batcher.
func (b *Backend) Batch(ctx context.Context, ops []backend.Op) ([]backend.Version, error) {
	steps := slices.Clone(ops)
	for i := range steps {
		steps[i].Value = bytes.Clone(steps[i].Value)
	}
	if err := b.w.do(ctx, &job{op: "batch", steps: steps}); err != nil {
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

// deleteChunk is how many keys one transaction of DeleteMany deletes, so that
// other writers get in between.
const deleteChunk = 1000

// DeleteMany implements backend.BulkDeleter.
func (b *Backend) DeleteMany(ctx context.Context, reqs []backend.DeleteRequest) (int, error) {
	gone := 0
	for len(reqs) > 0 {
		n := min(deleteChunk, len(reqs))
		j := &job{op: "delete many", deletes: slices.Clone(reqs[:n])}
		if err := b.w.do(ctx, j); err != nil {
			return gone, err
		}
		gone += j.gone
		reqs = reqs[n:]
	}
	return gone, nil
}

// Add implements backend.Adder.
func (b *Backend) Add(ctx context.Context, req backend.AddRequest) (int64, backend.Version, error) {
	j := &job{op: "add", add: &req}
	if err := b.w.do(ctx, j); err != nil {
		return 0, "", err
	}
	return j.sum, backend.Version(req.Nonce), nil
}

// List implements backend.Backend. Each page is a statement of its own, so a
// caller that stops in the middle holds nothing.
func (b *Backend) List(ctx context.Context, req backend.ListRequest) iter.Seq2[backend.Item, error] {
	return func(yield func(backend.Item, error) bool) {
		size := req.PageSize
		if size <= 0 {
			size = 1000
			if req.Detail == backend.Values {
				size = 200
			}
		}
		after := req.After
		first := true
		for {
			page, err := b.page(ctx, req, after, first, size)
			if err != nil {
				yield(backend.Item{}, b.fault(ctx, "list", req.Prefix, err))
				return
			}
			for _, item := range page {
				if !yield(item, nil) {
					return
				}
			}
			if len(page) < size {
				return
			}
			after, first = page[len(page)-1].Key, false
		}
	}
}

func (b *Backend) page(ctx context.Context, req backend.ListRequest, after string, first bool, size int) (page []backend.Item, err error) {
	value := "NULL"
	if req.Detail == backend.Values {
		value = "value"
	}
	where, args := "key >= ?", []any{req.Prefix}
	if !first || after > req.Prefix {
		where, args = "key > ?", []any{after}
	}
	if end := backend.PrefixEnd(req.Prefix); end != "" {
		where += " AND key < ?"
		args = append(args, end)
	}
	rows, err := b.read.QueryContext(ctx, "SELECT key, version, "+value+" FROM holdfast_kv WHERE "+where+" ORDER BY key LIMIT ?", append(args, size)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var item backend.Item
		if err := rows.Scan(&item.Key, &item.Nonce, &item.Value); err != nil {
			return nil, err
		}
		item.Version = backend.Version(item.Nonce)
		page = append(page, item)
	}
	return page, rows.Err()
}
