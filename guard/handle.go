package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Dialect is the flavour of SQL that a Handle speaks. MySQL is MariaDB too.
type Dialect int

// The dialects, and how they write the first parameter of a statement.
const (
	Postgres Dialect = iota // $1
	SQLite                  // ?1, ?
	MySQL                   // ?
)

// Handle runs statements on a database, a connection or a transaction.
type Handle interface {
	// Exec runs a statement and returns how many rows it changed.
	Exec(ctx context.Context, query string, args ...any) (int64, error)
	// QueryRow runs a query for one row; Scan must be called, and returns
	// sql.ErrNoRows where there is none, whatever the driver calls it.
	QueryRow(ctx context.Context, query string, args ...any) Row
	// Query runs a query. The caller closes the rows.
	Query(ctx context.Context, query string, args ...any) (Rows, error)
	Dialect() Dialect
}

// Row is the one row of a query.
type Row interface{ Scan(dest ...any) error }

// Rows are the rows of a query, as in database/sql.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// SQLRunner is what *sql.DB, *sql.Conn and *sql.Tx have in common.
type SQLRunner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// SQL is a Handle on database/sql.
func SQL(r SQLRunner, d Dialect) Handle {
	_, tx := r.(interface {
		Commit() error
		Rollback() error
	})
	return sqlHandle{r: r, d: d, tx: tx}
}

type sqlHandle struct {
	r SQLRunner
	d Dialect
	// tx says that the end of the transaction decides what becomes of the
	// statements.
	tx bool
}

func (h sqlHandle) Dialect() Dialect { return h.d }

func (h sqlHandle) InTx() bool { return h.tx }

// alone keeps database/sql from repeating a statement. On *sql.DB it runs a
// statement again, up to twice, when the driver reports driver.ErrBadConn; and
// drivers report that not only for a connection that was dead before, but also
// when the answer was lost after the statement took effect (pgx/stdlib for
// statements without arguments, lib/pq for all). A withdrawal would be made
// twice, and nobody told. On a connection of one's own nothing is repeated.
func (h sqlHandle) alone(ctx context.Context) (SQLRunner, func(), error) {
	db, ok := h.r.(*sql.DB)
	if !ok {
		return h.r, func() {}, nil
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("get a connection: %w", &notSent{err})
	}
	// The error of Close is that the connection was closed before, which the
	// statement's own error has told.
	return conn, func() { _ = conn.Close() }, nil
}

// notSent marks an error from before anything was sent.
type notSent struct{ error }

func (n *notSent) Unwrap() error { return n.error }

func (h sqlHandle) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	r, release, err := h.alone(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	res, err := r.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (h sqlHandle) QueryRow(ctx context.Context, query string, args ...any) Row {
	r, release, err := h.alone(ctx)
	if err != nil {
		return failedRow{err}
	}
	return sqlRow{r.QueryRowContext(ctx, query, args...), release}
}

func (h sqlHandle) Query(ctx context.Context, query string, args ...any) (Rows, error) {
	r, release, err := h.alone(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := r.QueryContext(ctx, query, args...)
	if err != nil {
		release()
		return nil, err
	}
	return sqlRows{rows, release}, nil
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

type sqlRow struct {
	*sql.Row
	release func()
}

func (r sqlRow) Scan(dest ...any) error {
	defer r.release()
	return r.Row.Scan(dest...)
}

type sqlRows struct {
	*sql.Rows
	release func()
}

func (r sqlRows) Close() error {
	defer r.release()
	return r.Rows.Close()
}

// PgxRunner is what *pgxpool.Pool, *pgx.Conn and pgx.Tx have in common.
type PgxRunner interface {
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// Pgx is a Handle on pgx.
func Pgx(r PgxRunner) Handle { return pgxHandle{r} }

type pgxHandle struct{ r PgxRunner }

func (h pgxHandle) Dialect() Dialect { return Postgres }

func (h pgxHandle) InTx() bool {
	_, tx := h.r.(pgx.Tx)
	return tx
}

func (h pgxHandle) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := h.r.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (h pgxHandle) QueryRow(ctx context.Context, query string, args ...any) Row {
	return pgxRow{h.r.QueryRow(ctx, query, args...)}
}

func (h pgxHandle) Query(ctx context.Context, query string, args ...any) (Rows, error) {
	rows, err := h.r.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgxRows{rows}, nil
}

type pgxRow struct{ r pgx.Row }

func (r pgxRow) Scan(dest ...any) error {
	err := r.r.Scan(dest...)
	if errors.Is(err, pgx.ErrNoRows) {
		return sql.ErrNoRows
	}
	return err
}

type pgxRows struct{ pgx.Rows }

func (r pgxRows) Close() error {
	r.Rows.Close()
	return r.Rows.Err()
}

// InTx says whether h is a transaction, so that its statements take effect
// together at the commit or not at all. A Handle of another package says so by
// a method InTx() bool.
func InTx(h Handle) bool {
	t, ok := h.(interface{ InTx() bool })
	return ok && t.InTx()
}
