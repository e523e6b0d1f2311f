package guard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// TxOptions are for [Tx] and [Retry]. The zero value is the database's default
// isolation, read and write, and five attempts.
type TxOptions struct {
	// Isolation is the level; not every database has every one. SQLite has
	// only the highest and gives it to everybody.
	Isolation sql.IsolationLevel
	ReadOnly  bool
	// Retry bounds the attempts of [Retry]; [Tx] makes one. Its OnRetry is told
	// of each transaction that the server undid.
	Retry store.Retry
}

// Tx runs f in a transaction on db and commits if f returns nil. db is a Handle
// on a database or connection, not on a transaction.
//
// On SQLite a transaction that may write begins with BEGIN IMMEDIATE. With a
// plain BEGIN, two of them can read the same value, and the second one's first
// write is then refused with SQLITE_BUSY however long it would wait.
//
// Race errors are *[RaceError]; an error of f is returned as it is, in the way
// of errors.Is and errors.As, after a rollback. If the commit has no answer, or
// the connection ended under it, the outcome is *[UnknownError]. A panic of f
// rolls back and goes on.
func Tx(ctx context.Context, db Handle, opts TxOptions, f func(ctx context.Context, tx Handle) error) (err error) {
	if err := ended(ctx, "begin transaction"); err != nil {
		return err
	}
	t, err := begin(ctx, db, opts)
	if err != nil {
		return err
	}
	finished := false
	defer func() {
		if !finished {
			// After an error, a panic or runtime.Goexit. If this fails too, the
			// connection is closed, which undoes it as well.
			_ = t.rollback(context.WithoutCancel(ctx))
		}
	}()
	if err := f(ctx, t.handle); err != nil {
		return asRace("transaction", err)
	}
	if err := ended(ctx, "commit"); err != nil {
		return err
	}
	finished = true
	return explainCommit(t.commit(ctx))
}

// asRace gives the driver's error that f returned its type, if it tells of a
// race and has no type yet.
func asRace(op string, err error) error {
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrUnknownOutcome) {
		return err
	}
	if r := look(err); r.kind != None {
		return &RaceError{Op: op, Kind: r.kind, Code: r.code, Constraint: r.constraint, Err: err}
	}
	return err
}

// explainCommit takes only an answer of the database for a failure. Everything
// else is unknown: the server may have committed before the connection ended.
func explainCommit(err error) error {
	if err == nil {
		return nil
	}
	r := look(err)
	switch {
	case r.kind != None:
		return &RaceError{Op: "commit", Kind: r.kind, Code: r.code, Constraint: r.constraint, Err: err}
	case r.server, errors.Is(err, pgx.ErrTxCommitRollback), errors.Is(err, sql.ErrTxDone), errors.Is(err, pgx.ErrTxClosed):
		// The server refused, or the transaction had been undone before: an
		// error of a statement that f did not return, or the end of the context.
		return fmt.Errorf("commit: nothing was written: %w", err)
	}
	return &UnknownError{Op: "commit", Err: err}
}

// Retry runs f in a transaction, again and again while the server undoes it for
// the sake of another one (SQLSTATE 40001 and 40P01, their like in MySQL, a busy
// SQLite file), with full jitter, within opts.Retry and ctx. When that is not
// enough it returns *store.ExhaustedError. Every other outcome is returned as
// [Tx] has it, at once; above all an unknown commit is never repeated.
//
// f must not carry over from one attempt to the next what it has read.
func Retry(ctx context.Context, db Handle, opts TxOptions, f func(ctx context.Context, tx Handle) error) error {
	var last error
	err := store.RunRetry(ctx, "transaction", opts.Retry, nil, func(ctx context.Context) error {
		last = Tx(ctx, db, opts, f)
		switch {
		case last == nil:
			return nil
		case errors.Is(last, store.ErrUnknownOutcome) || !Classify(last).Transient():
			return errStop
		}
		return last
	})
	if errors.Is(err, errStop) {
		return last
	}
	return err
}

// transaction is one that has begun.
type transaction struct {
	handle           Handle
	commit, rollback func(context.Context) error
}

func begin(ctx context.Context, db Handle, opts TxOptions) (transaction, error) {
	if InTx(db) {
		return transaction{}, &store.InvalidError{Op: "begin transaction", What: "handle",
			Why: "it is a transaction already; give the database, or run the statements on it directly"}
	}
	switch h := db.(type) {
	case sqlHandle:
		if h.d == SQLite {
			return beginSQLite(ctx, h, opts)
		}
		if b, ok := h.r.(interface {
			BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
		}); ok {
			tx, err := b.BeginTx(ctx, &sql.TxOptions{Isolation: opts.Isolation, ReadOnly: opts.ReadOnly})
			if err != nil {
				return transaction{}, beginFailed(err)
			}
			return transaction{handle: SQL(tx, h.d),
				commit:   func(context.Context) error { return tx.Commit() },
				rollback: func(context.Context) error { return tx.Rollback() }}, nil
		}
	case pgxHandle:
		if b, ok := h.r.(interface {
			BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error)
		}); ok {
			return beginPgx(ctx, b.BeginTx, opts)
		}
	}
	return transaction{}, &store.InvalidError{Op: "begin transaction", What: fmt.Sprintf("handle %T", db),
		Why: "it cannot begin one; make it by guard.SQL from a *sql.DB or *sql.Conn, or by guard.Pgx from a pool or connection"}
}

func beginFailed(err error) error {
	if r := look(err); r.kind != None {
		return &RaceError{Op: "begin transaction", Kind: r.kind, Code: r.code, Err: err}
	}
	return fmt.Errorf("begin transaction: nothing was written: %w", err)
}

func beginPgx(ctx context.Context, begin func(context.Context, pgx.TxOptions) (pgx.Tx, error), opts TxOptions) (transaction, error) {
	levels := map[sql.IsolationLevel]pgx.TxIsoLevel{sql.LevelDefault: "", sql.LevelReadUncommitted: pgx.ReadUncommitted,
		sql.LevelReadCommitted: pgx.ReadCommitted, sql.LevelRepeatableRead: pgx.RepeatableRead, sql.LevelSerializable: pgx.Serializable}
	level, ok := levels[opts.Isolation]
	if !ok {
		return transaction{}, &store.InvalidError{Op: "begin transaction", What: "isolation " + opts.Isolation.String(),
			Why: "PostgreSQL does not have it; use Read Committed, Repeatable Read or Serializable"}
	}
	o := pgx.TxOptions{IsoLevel: level}
	if opts.ReadOnly {
		o.AccessMode = pgx.ReadOnly
	}
	tx, err := begin(ctx, o)
	if err != nil {
		return transaction{}, beginFailed(err)
	}
	return transaction{handle: Pgx(tx), commit: tx.Commit, rollback: tx.Rollback}, nil
}

// beginSQLite keeps a connection to itself, because database/sql has no way to
// ask for BEGIN IMMEDIATE.
func beginSQLite(ctx context.Context, h sqlHandle, opts TxOptions) (transaction, error) {
	conn, mine := h.r.(*sql.Conn)
	if db, ok := h.r.(*sql.DB); ok {
		c, err := db.Conn(ctx)
		if err != nil {
			return transaction{}, beginFailed(err)
		}
		conn, mine = c, true
		defer func() {
			if mine {
				_ = conn.Close()
			}
		}()
	} else if !mine {
		return transaction{}, &store.InvalidError{Op: "begin transaction", What: fmt.Sprintf("handle on %T", h.r), Why: "give a *sql.DB or *sql.Conn"}
	}
	text := "BEGIN IMMEDIATE"
	if opts.ReadOnly {
		text = "BEGIN"
	}
	if _, err := conn.ExecContext(ctx, text); err != nil {
		if ctx.Err() != nil {
			// The driver may report the end of the context for a BEGIN that
			// took effect.
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
		return transaction{}, beginFailed(err)
	}
	_, pooled := h.r.(*sql.DB)
	mine = false
	end := func(ctx context.Context, how string) error {
		_, err := conn.ExecContext(ctx, how)
		if err != nil && how == "COMMIT" {
			_, undo := conn.ExecContext(ctx, "ROLLBACK")
			discard(conn, undo)
		} else {
			discard(conn, err)
		}
		if pooled {
			_ = conn.Close()
		}
		return err
	}
	return transaction{handle: sqlHandle{r: conn, d: SQLite, tx: true},
		// A commit of a local file does not wait for anybody: interrupting it
		// would only make its outcome unknown.
		commit:   func(ctx context.Context) error { return end(context.WithoutCancel(ctx), "COMMIT") },
		rollback: func(ctx context.Context) error { return end(ctx, "ROLLBACK") }}, nil
}

// discard closes a connection whose transaction could not be ended: the pool
// would hand it, with the transaction open, to somebody else.
func discard(conn *sql.Conn, failed error) {
	if failed != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}
