package guard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/store"
)

// Transfers between three accounts in all directions at once. Everybody names
// rows in the order of the transfer; the lock sorts them. No transaction is
// undone, and the sum stays. With the rows locked in the order in which they
// are named, this deadlocks within a few rounds.
func TestOrderedForUpdateDoesNotDeadlock(t *testing.T) {
	each(t, func(t *testing.T, h guard.Handle) {
		exec(t, h, "CREATE TABLE audit (id bigint PRIMARY KEY, n bigint NOT NULL)")
		exec(t, h, "INSERT INTO audit VALUES (1, 0)")
		if h.Dialect() == guard.Postgres {
			exec(t, h, "ALTER DATABASE "+currentDatabase(t, h)+" SET deadlock_timeout = '20ms'")
		}
		ctx := patience(t)
		const goroutines, rounds = 8, 15
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for range rounds {
					from := rand.Int64N(3)
					to := (from + 1 + rand.Int64N(2)) % 3
					locks := []guard.RowKeys{{Table: "accounts", Key: "id", Values: []any{from + 1, to + 1}}, {Table: "audit", Key: "id", Values: []any{1}}}
					if rand.N(2) == 0 {
						locks[0], locks[1] = locks[1], locks[0]
					}
					if err := guard.Tx(ctx, h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error {
						return transfer(ctx, tx, from+1, to+1, locks)
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := number(t, h, "SELECT sum(balance) FROM accounts"); n != 300 {
			t.Errorf("sum %d, want 300", n)
		}
		if n := number(t, h, "SELECT n FROM audit"); n != goroutines*rounds {
			t.Errorf("%d transfers in the audit, want %d", n, goroutines*rounds)
		}
	})
}

// transfer reads and writes back, which only the locks make safe.
func transfer(ctx context.Context, tx guard.Handle, from, to int64, locks []guard.RowKeys) error {
	if err := guard.OrderedForUpdate(ctx, tx, locks...); err != nil {
		return err
	}
	change := func(table, column string, id, by int64) error {
		var n int64
		where := fmt.Sprintf(" WHERE id = %d", id)
		if err := tx.QueryRow(ctx, "SELECT "+column+" FROM "+table+where).Scan(&n); err != nil {
			return err
		}
		_, err := guard.Exec(ctx, tx, fmt.Sprintf("UPDATE %s SET %s = %d%s", table, column, n+by, where))
		return err
	}
	return errors.Join(change("accounts", "balance", from, -1), change("accounts", "balance", to, 1), change("audit", "n", 1, 1))
}

func TestOrderedForUpdateRefuses(t *testing.T) {
	each(t, func(t *testing.T, h guard.Handle) {
		ctx := patience(t)
		two := guard.RowKeys{Table: "accounts", Key: "id", Values: []any{2, 1, 2}}
		if err := guard.OrderedForUpdate(ctx, h, two); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("outside a transaction: %v", err)
		}
		in := func(rows ...guard.RowKeys) error {
			return guard.Tx(ctx, h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error {
				return guard.OrderedForUpdate(ctx, tx, rows...)
			})
		}
		if err := in(two, guard.RowKeys{Table: "cards", Key: "id"}); err != nil {
			t.Errorf("two rows, one named twice: %v", err)
		}
		var missing *guard.MissingRowsError
		if err := in(guard.RowKeys{Table: "accounts", Key: "id", Values: []any{1, 99}}); !errors.As(err, &missing) || missing.Found != 1 || missing.Wanted != 2 {
			t.Errorf("a row that is not there: %v", err)
		}
		if err := in(two, two); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a table twice: %v", err)
		}
		if err := in(guard.RowKeys{Table: "", Key: "id"}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("no table: %v", err)
		}
	})
}

// A transaction of the caller's own begins with a plain BEGIN in SQLite, and has
// no lock until it writes. With the lock, what is read after it stays; without,
// the write of one that has read too early is refused.
func TestLockInACallersSQLiteTransaction(t *testing.T) {
	db := sqliteDB(t, filepath.Join(t.TempDir(), "t.db"))
	h := guard.SQL(db, guard.SQLite)
	setUp(t, h)
	ctx := patience(t)
	add := func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		// After the commit this does nothing.
		defer func() { _ = tx.Rollback() }()
		mine := guard.SQL(tx, guard.SQLite)
		if err := guard.OrderedForUpdate(ctx, mine, guard.RowKeys{Table: "accounts", Key: "id", Values: []any{1}}); err != nil {
			return err
		}
		var n int64
		if err := mine.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = 1").Scan(&n); err != nil {
			return err
		}
		if _, err := guard.Exec(ctx, mine, "UPDATE accounts SET balance = ? WHERE id = 1", n+1); err != nil {
			return err
		}
		return tx.Commit()
	}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 10 {
				if err := add(); err != nil {
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
