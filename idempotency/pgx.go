package idempotency

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/guard"
)

// NewPgx keeps keys in a PostgreSQL database. It does not make the table; see
// [Table.Create].
//
// The claim travels together with BEGIN, and the record of the answer together
// with COMMIT, so that a request with a key takes as many round trips as one
// without.
func NewPgx(pool *pgxpool.Pool, opts Options) (*Keys[pgx.Tx], error) {
	return newKeys(guard.Pgx(pool), opts, func(ctx context.Context, claim *statement) (transaction[pgx.Tx], error) {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return transaction[pgx.Tx]{}, err
		}
		t := &pgxTx{c: conn.Conn()}
		if err := t.begin(ctx, claim); err != nil {
			// A failed claim leaves the transaction open, and aborted.
			err = errors.Join(err, t.rollback(ctx))
			conn.Release()
			return transaction[pgx.Tx]{}, err
		}
		release := func(err error) error {
			conn.Release()
			return err
		}
		return transaction[pgx.Tx]{tx: t, handle: guard.Pgx(t), claimed: claim != nil,
			commit:   func(ctx context.Context, last *statement) error { return release(t.commit(ctx, last)) },
			rollback: func(ctx context.Context) error { return release(t.rollback(ctx)) },
		}, nil
	})
}

// pgxTx is a transaction whose BEGIN and COMMIT travel with other statements,
// which pgx's own does not offer.
type pgxTx struct {
	c      *pgx.Conn
	inside pgx.Tx
}

func (t *pgxTx) begin(ctx context.Context, claim *statement) error {
	b := &pgx.Batch{}
	b.Queue("begin")
	if claim != nil {
		b.Queue(claim.query, claim.args...)
	}
	r := t.SendBatch(ctx, b)
	_, err := r.Exec()
	if err == nil && claim != nil {
		var tag pgconn.CommandTag
		tag, err = r.Exec()
		claim.changed = tag.RowsAffected()
	}
	return errors.Join(err, r.Close())
}

// commit sends the last statement and COMMIT at once. If the statement fails,
// the server passes over the COMMIT.
func (t *pgxTx) commit(ctx context.Context, last *statement) error {
	b := &pgx.Batch{}
	if last != nil {
		b.Queue(last.query, last.args...)
	}
	b.Queue("commit")
	r := t.SendBatch(ctx, b)
	var err error
	if last != nil {
		var tag pgconn.CommandTag
		tag, err = r.Exec()
		last.changed = tag.RowsAffected()
	}
	var tag pgconn.CommandTag
	if err == nil {
		tag, err = r.Exec()
	}
	cerr := r.Close()
	if err == nil {
		err = cerr // once only: Close repeats the error of Exec
	}
	if err == nil && tag.String() == "ROLLBACK" {
		err = pgx.ErrTxCommitRollback
	}
	if t.c.PgConn().TxStatus() != 'I' {
		// Aborted, or not known: the pool must not give it out again like this.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settlePatience)
		defer cancel()
		_ = t.rollback(rctx)
	}
	return err
}

func (t *pgxTx) rollback(ctx context.Context) error {
	if t.c.IsClosed() || t.c.PgConn().TxStatus() == 'I' {
		return nil
	}
	_, err := t.Exec(ctx, "rollback")
	if err != nil {
		// The pool throws a closed connection away, and the server ends the
		// transaction with it.
		_ = t.c.Close(ctx)
	}
	return err
}

var errNotYours = errors.New("the transaction ends when the effect returns: return nil to commit it and an error to roll it back")

// Commit refuses: package idempotency commits.
func (t *pgxTx) Commit(context.Context) error { return errNotYours }

// Rollback refuses: package idempotency rolls back.
func (t *pgxTx) Rollback(context.Context) error { return errNotYours }

func (t *pgxTx) Conn() *pgx.Conn { return t.c }

func (t *pgxTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.c.Exec(ctx, sql, args...)
}

func (t *pgxTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.c.Query(ctx, sql, args...)
}

func (t *pgxTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.c.QueryRow(ctx, sql, args...)
}

func (t *pgxTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return t.c.SendBatch(ctx, b)
}

func (t *pgxTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	return t.c.CopyFrom(ctx, table, columns, rows)
}

func (t *pgxTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	return t.c.Prepare(ctx, name, sql)
}

// Begin begins a savepoint, as pgx does it.
func (t *pgxTx) Begin(ctx context.Context) (pgx.Tx, error) {
	inside, err := t.pgxs(ctx)
	if err != nil {
		return nil, err
	}
	return inside.Begin(ctx)
}

// LargeObjects are pgx's.
func (t *pgxTx) LargeObjects() pgx.LargeObjects {
	inside, err := t.pgxs(context.Background())
	if err != nil {
		return pgx.LargeObjects{}
	}
	return inside.LargeObjects()
}

// pgxs is pgx's own transaction on top of the running one, for what only it can
// make: an empty query stands for its BEGIN.
func (t *pgxTx) pgxs(ctx context.Context) (pgx.Tx, error) {
	if t.inside == nil {
		inside, err := t.c.BeginTx(ctx, pgx.TxOptions{BeginQuery: "-- the transaction has begun"})
		if err != nil {
			return nil, err
		}
		t.inside = inside
	}
	return t.inside, nil
}
