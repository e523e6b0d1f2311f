package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/guard"
)

// AdvisoryOptions are for [Advisory]. The zero value is useful.
type AdvisoryOptions struct {
	// Wait is how long to wait for the lock; 0 means 10 s. A deadline of ctx
	// that is sooner counts instead. Waiters are served in order by the server.
	Wait time.Duration
	// Ping is how often the session is asked whether it still lives, and how
	// long it may take to answer; 0 means 5 s.
	Ping time.Duration
}

// AdvisoryLock is a lock that a PostgreSQL session holds.
type AdvisoryLock struct {
	name  string
	token Token
	conn  *pgxpool.Conn
	ping  time.Duration

	ctx  context.Context
	end  context.CancelCauseFunc
	stop context.CancelFunc // ends the watch over the session
	done sync.WaitGroup
	once sync.Once
	err  error
}

// Advisory takes the advisory lock of a name, keeping one connection of the
// pool for it until Release. The server frees the lock when the session ends,
// however it ends; a process that is stopped keeps it as long as its connection
// lives. The token is drawn from the table of [CreateFences] under the lock, so
// it is also the fence: [Fence] with this name refuses every earlier holder from
// this moment, such as one whose session the server or a proxy has ended.
//
// Names are locks by a 64-bit hash; two names with the same one exclude each
// other and nothing worse. The pool must lead to the server itself, or to a
// proxy that keeps sessions (not one that pools transactions).
func Advisory(ctx context.Context, pool *pgxpool.Pool, name string, opts AdvisoryOptions) (*AdvisoryLock, error) {
	if opts.Wait <= 0 {
		opts.Wait = 10 * time.Second
	}
	if opts.Ping <= 0 {
		opts.Ping = 5 * time.Second
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("take advisory lock %q: %w", name, err)
	}
	a := &AdvisoryLock{name: name, conn: conn, ping: opts.Ping}
	if a.token, err = lockSession(ctx, conn.Conn(), name, opts.Wait); err != nil {
		// The session may hold the lock all the same, when the answer was
		// lost; it ends with the session.
		discard(conn)
		return nil, err
	}
	a.ctx, a.end = context.WithCancelCause(context.WithoutCancel(ctx))
	var watch context.Context
	watch, a.stop = context.WithCancel(a.ctx)
	a.done.Go(func() { a.watch(watch) })
	return a, nil
}

// lockSession waits in the server, whose queue is in order. The lock outlives
// the transaction, which is there for the setting of the time-out only.
func lockSession(ctx context.Context, conn *pgx.Conn, name string, wait time.Duration) (token Token, err error) {
	if deadline, has := ctx.Deadline(); has {
		// The server must not go on waiting for a session whose owner has left.
		wait = min(wait, time.Until(deadline))
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := lockTimeout(ctx, guard.Pgx(tx), wait); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", "holdfast lease "+name); err != nil {
			return lockFailure(err, name, wait)
		}
		// This waits for a transaction of an earlier holder that has passed
		// the fence and is not committed yet, within the same time-out.
		err := tx.QueryRow(ctx, `INSERT INTO `+fenceTable+` AS f (name, token) VALUES ($1, 1)
			ON CONFLICT (name) DO UPDATE SET token = f.token + 1 RETURNING token`, name).Scan(&token)
		if err != nil {
			return lockFailure(err, name, wait)
		}
		return nil
	})
	var held *HeldError
	if err != nil && !errors.As(err, &held) {
		err = fmt.Errorf("take advisory lock %q: %w", name, err)
	}
	return token, err
}

// discard closes the session instead of giving it back to the pool.
func discard(conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// The error says that the connection was not closed in good order; it is
	// closed in any case.
	_ = conn.Hijack().Close(ctx)
}

// watch notices the end of the session: at once where the connection breaks,
// at the next ping where packets are lost.
func (a *AdvisoryLock) watch(ctx context.Context) {
	conn := a.conn.Conn()
	for ctx.Err() == nil {
		quiet, cancel := context.WithTimeout(ctx, a.ping)
		_, err := conn.WaitForNotification(quiet)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if conn.IsClosed() {
			a.lost(err)
			return
		}
		answer, cancel := context.WithTimeout(ctx, a.ping)
		err = conn.Ping(answer)
		cancel()
		if ctx.Err() == nil && err != nil {
			a.lost(err)
			return
		}
	}
}

func (a *AdvisoryLock) lost(err error) {
	a.end(&LostError{Name: a.name, Token: a.token, Why: "the session that holds it has ended", Err: err})
}

// Token returns the fencing token.
func (a *AdvisoryLock) Token() Token { return a.token }

// Context ends when the session has ended, with *[LostError] as its cause, and
// at Release, with [ErrReleased].
func (a *AdvisoryLock) Context() context.Context { return a.ctx }

// Release frees the lock and waits for the goroutine of it. Once it has
// returned the lock is free, or the connection that held it is closed.
func (a *AdvisoryLock) Release(ctx context.Context) error {
	a.once.Do(func() {
		a.stop()
		a.done.Wait()
		lost := context.Cause(a.ctx)
		a.end(ErrReleased)
		var freed bool
		if lost == nil {
			a.err = a.conn.QueryRow(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", "holdfast lease "+a.name).Scan(&freed)
		}
		switch {
		case lost != nil:
			a.err = lost
			discard(a.conn)
		case a.err != nil || !freed:
			discard(a.conn)
			a.err = nil // the session is over, and the lock with it
		default:
			a.conn.Release()
		}
	})
	return a.err
}
