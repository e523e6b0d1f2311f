package idempotency

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/store"
)

// Keys runs requests in transactions of the type T, each with its key. It is
// safe for concurrent use.
type Keys[T any] struct {
	*Table
	pool     guard.Handle
	begin    func(ctx context.Context, claim *statement) (transaction[T], error)
	wait     time.Duration
	attempts int
}

// statement is one statement and how many rows it has changed.
type statement struct {
	query   string
	args    []any
	changed int64
}

// transaction is what Keys needs of *sql.Tx and pgx.Tx.
type transaction[T any] struct {
	tx     T
	handle guard.Handle
	// claimed says that the claim was sent along with BEGIN.
	claimed bool
	// commit runs the last statement, if there is one, and commits.
	commit   func(ctx context.Context, last *statement) error
	rollback func(ctx context.Context) error
}

// NewSQL keeps keys in a database of database/sql. It does not make the table;
// see [Table.Create].
//
// On SQLite give the connections a busy time-out (the DSN's
// _pragma=busy_timeout(5000)): writers of a SQLite file wait for each other.
func NewSQL(db *sql.DB, d guard.Dialect, opts Options) (*Keys[*sql.Tx], error) {
	p := &prepared{db: db}
	k, err := newKeys(preparedHandle{Handle: guard.SQL(db, d), p: p}, opts, func(ctx context.Context, claim *statement) (transaction[*sql.Tx], error) {
		if claim != nil {
			if err := p.prepare(ctx); err != nil {
				return transaction[*sql.Tx]{}, err
			}
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return transaction[*sql.Tx]{}, err
		}
		handle := preparedHandle{Handle: guard.SQL(tx, d), p: p, tx: tx}
		return transaction[*sql.Tx]{tx: tx, handle: handle,
			commit: func(ctx context.Context, last *statement) error {
				if last == nil {
					return tx.Commit()
				}
				if _, err := handle.Exec(ctx, last.query, last.args...); err != nil {
					return notCommitted{errors.Join(err, tx.Rollback())}
				}
				return tx.Commit()
			},
			rollback: func(context.Context) error { return tx.Rollback() },
		}, nil
	})
	if err == nil {
		p.queries = []string{k.sql.claim, k.sql.record, k.sql.read}
	}
	return k, err
}

func newKeys[T any](pool guard.Handle, opts Options, begin func(ctx context.Context, claim *statement) (transaction[T], error)) (*Keys[T], error) {
	t, err := NewTable(pool.Dialect(), opts)
	if err != nil {
		return nil, err
	}
	if opts.Attempts <= 0 {
		opts.Attempts = 5
	}
	return &Keys[T]{Table: t, pool: pool, begin: begin, wait: opts.Wait, attempts: opts.Attempts}, nil
}

// settlePatience bounds the tries to find out what became of a commit.
const settlePatience = 5 * time.Second

// Do runs effect once for the key, in a transaction that it commits, and returns
// its answer; for a copy it returns the recorded answer and does not run effect.
//
// effect must act through tx only, and must not commit or roll back. It may run
// several times, each in a new transaction after the one before was rolled back.
// An error of effect rolls everything back, so that the key is free again, and
// is returned as it is.
//
// *[InProgressError], *[MismatchError] and all other errors mean that this call
// had no effect, except *[UnknownOutcomeError].
func (k *Keys[T]) Do(ctx context.Context, req Request, effect func(ctx context.Context, tx T) (Answer, error)) (Result, error) {
	if err := req.check(); err != nil {
		return Result{}, err
	}
	if k.dialect == guard.SQLite {
		// A read beside the writers: a copy need not wait for the one write
		// lock of the file to learn what is recorded.
		a, err := k.Lookup(ctx, k.pool, req)
		if err == nil {
			return Result{Answer: *a, Replayed: true}, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return Result{}, err
		}
	}
	r := run[T]{k: k, req: req, effect: effect, start: time.Now()}
	for {
		r.tries++
		result, err := r.once(ctx)
		if err == nil {
			result.Attempts = r.tries
			return result, nil
		}
		again, err := r.again(ctx, err)
		if !again {
			return Result{Attempts: r.tries}, err
		}
	}
}

// run is one call of Do.
type run[T any] struct {
	k      *Keys[T]
	req    Request
	effect func(ctx context.Context, tx T) (Answer, error)
	start  time.Time
	tries  int
	broken int // tries that the database broke off
	// lost is a commit without an answer, and when that was.
	lost   error
	lostAt time.Time
}

// lostCommit marks the error of a commit that may have taken effect.
type lostCommit struct{ error }

func (e lostCommit) Unwrap() error { return e.error }

// notCommitted marks an error from before the COMMIT was sent.
type notCommitted struct{ error }

func (e notCommitted) Unwrap() error { return e.error }

// once is one transaction.
func (r *run[T]) once(ctx context.Context) (_ Result, err error) {
	claim := r.k.claimOf(r.req)
	t, err := r.k.begin(ctx, claim)
	if err != nil {
		return Result{}, r.k.failed(r.req, err)
	}
	ended := false
	defer func() {
		if ended {
			return
		}
		// Also after a panic of effect, and when ctx has ended: the connection
		// must not go back with the transaction open.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settlePatience)
		defer cancel()
		_ = t.rollback(rctx)
	}()
	recorded, err := r.k.claim(ctx, t.handle, r.req, claim, t.claimed)
	if err != nil {
		return Result{}, err
	}
	if recorded != nil {
		return Result{Answer: *recorded, Replayed: r.lost == nil, Settled: r.lost != nil}, nil
	}
	// The key could be claimed: a commit that was lost before can not take
	// effect any more.
	r.lost = nil
	a, err := r.effect(ctx, t.tx)
	if err != nil {
		return Result{}, err
	}
	var last *statement
	if !a.empty() {
		if last, err = r.k.recordOf(r.req, a); err != nil {
			return Result{}, err
		}
	}
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("idempotency key %q: not committed: %w", r.req.Key, context.Cause(ctx))
	}
	ended = true
	if err := t.commit(ctx, last); err != nil {
		err = fmt.Errorf("idempotency key %q: commit: %w", r.req.Key, err)
		if refused(err) {
			return Result{}, err
		}
		return Result{}, lostCommit{err}
	}
	return Result{Answer: a}, nil
}

// again decides whether to begin another transaction after err, and waits for
// it. Otherwise it returns the error for the caller.
func (r *run[T]) again(ctx context.Context, err error) (bool, error) {
	var inProgress *InProgressError
	lost, isLost := errors.AsType[lostCommit](err)
	switch {
	case isLost:
		r.lost, r.lostAt = lost.error, time.Now()
	case r.lost != nil:
		// Reading back has not worked. A key in progress is most likely the
		// lost transaction itself, which the server has not ended yet.
	case errors.As(err, &inProgress):
		if time.Since(r.start) >= r.k.wait {
			return false, err
		}
	case transient(err):
		r.broken++
		if r.broken >= r.k.attempts {
			return false, fmt.Errorf("broken off by the database %d times, nothing was done: %w", r.broken, err)
		}
	default:
		return false, err
	}
	// A mismatch answers the question: another request has the key, so the lost
	// one did not commit.
	var mismatch *MismatchError
	if errors.As(err, &mismatch) {
		return false, err
	}
	if r.lost != nil && time.Since(r.lostAt) > settlePatience {
		return false, r.unknown(err)
	}
	if cause := pause(ctx, r.tries); cause != nil {
		if r.lost != nil {
			return false, r.unknown(cause)
		}
		return false, errors.Join(err, cause)
	}
	return true, nil
}

func (r *run[T]) unknown(err error) error {
	return &UnknownOutcomeError{Scope: r.req.Scope, Key: r.req.Key, Lost: r.lost, Err: err}
}

// pause waits with full jitter, up to 5 ms at first and 100 ms later, or for the
// end of ctx.
func pause(ctx context.Context, tries int) error {
	top := min(5*time.Millisecond<<min(tries-1, 5), 100*time.Millisecond)
	timer := time.NewTimer(rand.N(top) + time.Microsecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Consume handles one delivery of a queue or webhook that delivers at least
// once: effect runs in the transaction that records the id of the delivery. It
// returns false for a copy: acknowledge it and go on. With an error, do not
// acknowledge, and the delivery comes again; after *[InProgressError] the other
// copy may still fail.
//
// The scope of req is the queue or the sender: ids are unique only there. Its
// Fingerprint may be empty where a redelivery is not the same bytes.
func (k *Keys[T]) Consume(ctx context.Context, req Request, effect func(ctx context.Context, tx T) error) (first bool, err error) {
	r, err := k.Do(ctx, req, func(ctx context.Context, tx T) (Answer, error) {
		return Answer{}, effect(ctx, tx)
	})
	return err == nil && !r.Replayed, err
}
