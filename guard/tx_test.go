package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/store"
)

func TestTx(t *testing.T) {
	each(t, func(t *testing.T, h guard.Handle) {
		ctx := patience(t)
		spend := func(ctx context.Context, tx guard.Handle) error {
			_, err := guard.Exec(ctx, tx, "UPDATE accounts SET balance = balance - 10 WHERE id = 1")
			return err
		}
		balance := func(want int64, after string) {
			t.Helper()
			if n := number(t, h, "SELECT balance FROM accounts WHERE id = 1"); n != want {
				t.Errorf("balance %d after %s, want %d", n, after, want)
			}
		}
		if err := guard.Tx(ctx, h, guard.TxOptions{}, spend); err != nil {
			t.Error(err)
		}
		balance(90, "a commit")

		mine := errors.New("mine")
		err := guard.Tx(ctx, h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error {
			return errors.Join(spend(ctx, tx), mine)
		})
		if !errors.Is(err, mine) {
			t.Errorf("an error of the function: %v", err)
		}
		balance(90, "an error")

		func() {
			defer func() {
				if recover() != "stop" {
					t.Error("the panic did not go on")
				}
			}()
			_ = guard.Tx(ctx, h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error {
				_ = spend(ctx, tx)
				panic("stop")
			})
		}()
		balance(90, "a panic")

		ended, cancel := context.WithCancel(ctx)
		err = guard.Tx(ended, h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error {
			defer cancel()
			return spend(ctx, tx)
		})
		if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("ended before the commit: %v", err)
		}
		balance(90, "an ended context")

		err = guard.Tx(ctx, h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error {
			if !guard.InTx(tx) || guard.InTx(h) {
				t.Error("the handles do not know whether they are transactions")
			}
			return guard.Tx(ctx, tx, guard.TxOptions{}, spend)
		})
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a transaction inside a transaction: %v", err)
		}
		balance(90, "a refused transaction")

		// All connections are usable after that.
		for range 25 {
			if err := guard.Tx(ctx, h, guard.TxOptions{Isolation: sql.LevelSerializable}, spend); err != nil && guard.Classify(err) != guard.Check {
				t.Fatal(err)
			}
		}
		balance(0, "the rest")
	})
}

// An error that the function swallowed has spoiled the transaction in
// PostgreSQL; its commit must not pass for a success.
func TestSwallowedErrorIsNoCommit(t *testing.T) {
	for _, driver := range []string{"pgxpool", "pgx"} {
		h := open(t, driver)
		setUp(t, h)
		err := guard.Tx(patience(t), h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error {
			_, _ = tx.Exec(ctx, "UPDATE accounts SET balance = -1 WHERE id = 1")
			return nil
		})
		if err == nil || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("%s: %v", driver, err)
		}
	}
}

func TestReadOnlyAndLevels(t *testing.T) {
	h := open(t, "pgxpool")
	setUp(t, h)
	err := guard.Tx(patience(t), h, guard.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}, func(ctx context.Context, tx guard.Handle) error {
		var level string
		if err := tx.QueryRow(ctx, "SHOW transaction_isolation").Scan(&level); err != nil || level != "repeatable read" {
			t.Errorf("level %q, %v", level, err)
		}
		_, err := tx.Exec(ctx, "UPDATE accounts SET balance = 0")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a write in a read-only transaction: %v", err)
	}
	if err := guard.Tx(patience(t), h, guard.TxOptions{Isolation: sql.LevelLinearizable}, nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a level that PostgreSQL does not have: %v", err)
	}
}

// Eight goroutines read a value and write it back, at SERIALIZABLE: the server
// undoes those that do not fit, and Retry runs them again until every one is in.
func TestRetryAddsUp(t *testing.T) {
	each(t, func(t *testing.T, h guard.Handle) {
		const goroutines, rounds = 8, 6
		opts := guard.TxOptions{Isolation: sql.LevelSerializable, Retry: store.Retry{Attempts: store.UntilDeadline, Base: time.Millisecond, Cap: 20 * time.Millisecond}}
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for range rounds {
					err := guard.Retry(patience(t), h, opts, func(ctx context.Context, tx guard.Handle) error {
						var n int64
						if err := tx.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = 1").Scan(&n); err != nil {
							return err
						}
						_, err := guard.Exec(ctx, tx, fmt.Sprintf("UPDATE accounts SET balance = %d WHERE id = 1", n+1))
						return err
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := number(t, h, "SELECT balance FROM accounts WHERE id = 1"); n != 100+goroutines*rounds {
			t.Errorf("balance %d, want %d", n, 100+goroutines*rounds)
		}
	})
}

// On SQLite, transactions that read and then write wait for each other. With a
// plain BEGIN all of them would have read before one writes, and the others'
// writes be refused, without a wait that could help.
func TestSQLiteWritersWait(t *testing.T) {
	h := open(t, "sqlite")
	setUp(t, h)
	ctx := patience(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 10 {
				err := guard.Tx(ctx, h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error {
					var n int64
					if err := tx.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = 1").Scan(&n); err != nil {
						return err
					}
					_, err := guard.Exec(ctx, tx, "UPDATE accounts SET balance = ? WHERE id = 1", n+1)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := number(t, h, "SELECT balance FROM accounts WHERE id = 1"); n != 160 {
		t.Errorf("balance %d, want 160", n)
	}
}

// A bound is a bound, and what the function refuses by itself is not repeated,
// even if it is a conflict.
func TestRetryIsBounded(t *testing.T) {
	h := open(t, "pgxpool")
	setUp(t, h)
	opts := guard.TxOptions{Retry: store.Retry{Attempts: 3, Base: 1, Cap: 1}}
	for _, c := range []struct {
		raise string
		want  int
	}{{"40001", 3}, {"40P01", 3}, {"55P03", 1}, {"23505", 1}, {"40003", 1}} {
		n := 0
		err := guard.Retry(patience(t), h, opts, func(ctx context.Context, tx guard.Handle) error {
			n++
			_, err := tx.Exec(ctx, "DO $$ BEGIN RAISE EXCEPTION 'raised' USING ERRCODE = '"+c.raise+"'; END $$")
			return err
		})
		var exhausted *store.ExhaustedError
		if n != c.want || errors.As(err, &exhausted) != (c.want > 1) || err == nil {
			t.Errorf("%s: %d attempts, %v", c.raise, n, err)
		}
	}
	n := 0
	err := guard.Retry(patience(t), h, opts, func(ctx context.Context, tx guard.Handle) error {
		n++
		return &store.ConflictError{Key: "mine"}
	})
	if n != 1 || !errors.Is(err, store.ErrConflict) {
		t.Errorf("the function's own conflict: %d attempts, %v", n, err)
	}
}

// Two transactions lock two rows in opposite order. One of them is ended as a
// deadlock, which is classified, and Retry brings both through.
func TestDeadlockIsRetried(t *testing.T) {
	for _, driver := range []string{"pgxpool", "pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			h := open(t, driver)
			setUp(t, h)
			exec(t, h, "ALTER DATABASE "+currentDatabase(t, h)+" SET deadlock_timeout = '20ms'")
			ctx := patience(t)
			var deadlocks atomic.Int64
			both := make(chan struct{})
			var first sync.WaitGroup
			first.Add(2)
			go func() { first.Wait(); close(both) }()
			var wg sync.WaitGroup
			for i := range 2 {
				wg.Go(func() {
					tries := 0
					err := guard.Retry(ctx, h, guard.TxOptions{Retry: store.Retry{OnRetry: func(_ int, _ time.Duration, lost error) {
						if guard.Classify(lost) != guard.Deadlock {
							t.Errorf("not a deadlock: %v", lost)
						}
						deadlocks.Add(1)
					}}}, func(ctx context.Context, tx guard.Handle) error {
						if _, err := guard.Exec(ctx, tx, fmt.Sprintf("UPDATE accounts SET balance = balance + 1 WHERE id = %d", 1+i)); err != nil {
							return err
						}
						if tries++; tries == 1 {
							first.Done()
							<-both
						}
						_, err := guard.Exec(ctx, tx, fmt.Sprintf("UPDATE accounts SET balance = balance + 1 WHERE id = %d", 2-i))
						return err
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := number(t, h, "SELECT sum(balance) FROM accounts"); n != 304 || deadlocks.Load() != 1 {
				t.Errorf("sum %d after %d deadlocks, want 304 after one", n, deadlocks.Load())
			}
		})
	}
}

func currentDatabase(t *testing.T, h guard.Handle) (name string) {
	t.Helper()
	if err := h.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestLockTimeout(t *testing.T) {
	for _, driver := range []string{"pgxpool", "postgres"} {
		h := open(t, driver)
		setUp(t, h)
		err := guard.Tx(patience(t), h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error {
			exec(t, tx, "UPDATE accounts SET balance = 1 WHERE id = 1")
			_, err := guard.Exec(ctx, h, "SELECT 1 FROM accounts WHERE id = 1 FOR UPDATE NOWAIT")
			var race *guard.RaceError
			if !errors.As(err, &race) || race.Kind != guard.LockTimeout {
				t.Errorf("%s: a lock that is held: %v", driver, err)
			} else if status, _ := race.Race(); status != 423 {
				t.Errorf("%s: status %d", driver, status)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// The server commits, and the answer is lost. That is unknown: not a failure,
// and above all not repeated. Repeating it would add twice.
func TestUnknownCommitIsNotRepeated(t *testing.T) {
	for _, driver := range []string{"pgxpool", "pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			address := database(t)
			direct := connect(t, driver, address)
			setUp(t, direct)
			p := startProxy(t, address)
			h := connect(t, driver, p.address)
			tries := 0
			err := guard.Retry(patience(t), h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error {
				tries++
				_, err := guard.Exec(ctx, tx, "UPDATE accounts SET balance = balance + 1 WHERE id = 1")
				p.cutAtCommit.Store(true)
				return err
			})
			var unknown *guard.UnknownError
			if !errors.As(err, &unknown) || tries != 1 {
				t.Errorf("%d attempts, %v", tries, err)
			}
			if n := number(t, direct, "SELECT balance FROM accounts WHERE id = 1"); n != 101 {
				t.Errorf("balance %d, want 101", n)
			}
		})
	}
}

// The same for a statement that commits by itself; inside a transaction a lost
// answer is no mystery, because without a commit there is no effect.
func TestLostAnswerOfAStatement(t *testing.T) {
	for _, driver := range []string{"pgxpool", "pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			address := database(t)
			direct := connect(t, driver, address)
			setUp(t, direct)
			p := startProxy(t, address)
			h := connect(t, driver, p.address)
			ctx := patience(t)
			if err := h.QueryRow(ctx, "SELECT 1").Scan(new(int)); err != nil {
				t.Fatal(err)
			}
			err := guard.Tx(ctx, h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error {
				p.cutAtUpdate.Store(true)
				_, err := guard.Exec(ctx, tx, "UPDATE accounts SET balance = balance + 1 WHERE id = 1")
				return err
			})
			if err == nil || errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("inside a transaction: %v", err)
			}
			if n := number(t, direct, "SELECT balance FROM accounts WHERE id = 1"); n != 100 {
				t.Errorf("balance %d, want 100", n)
			}
			p.cutAtUpdate.Store(true)
			_, err = guard.Exec(ctx, h, "UPDATE accounts SET balance = balance + 1 WHERE id = 1")
			if !errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("by itself: %v", err)
			}
			if n := number(t, direct, "SELECT balance FROM accounts WHERE id = 1"); n != 101 {
				t.Errorf("balance %d, want 101", n)
			}
		})
	}
}
