//go:build unix

package counter_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/counter"
	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
)

func databases(t *testing.T, test func(t *testing.T, h guard.Handle, stock counter.Column)) {
	t.Run("sqlite", func(t *testing.T) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "t.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(30000)&_pragma=synchronous(NORMAL)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		test(t, guard.SQL(db, guard.SQLite), table(t, guard.SQL(db, guard.SQLite)))
	})
	t.Run("postgres", func(t *testing.T) {
		pool, err := pgxpool.New(t.Context(), pgtest.Need(t, server).URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		test(t, guard.Pgx(pool), table(t, guard.Pgx(pool)))
	})
}

// table makes a table with a name that needs its quotes.
func table(t *testing.T, h guard.Handle) counter.Column {
	t.Helper()
	name := fmt.Sprintf("Stock %d", tables.Add(1))
	for _, text := range []string{
		"CREATE TABLE " + h.Dialect().Ident(name) + " (item text PRIMARY KEY, n integer)",
		"INSERT INTO " + h.Dialect().Ident(name) + " VALUES ('a', 40), ('none', NULL)",
	} {
		if _, err := h.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	return counter.Column{Table: name, Key: "item", Column: "n", Bounds: counter.AtLeast(0)}
}

func TestColumnInParallel(t *testing.T) {
	databases(t, func(t *testing.T, h guard.Handle, stock counter.Column) {
		ctx := patience(t)
		var sold atomic.Int64
		together(16, func(i int) {
			for range 5 {
				by := int64(-1 - i%2)
				r, err := stock.Add(ctx, h, "a", by)
				if err != nil {
					t.Error(err)
				}
				if r.Applied {
					sold.Add(-by)
				}
				if r.Value < 0 {
					t.Errorf("a stock of %d", r.Value)
				}
			}
		})
		if v, err := stock.Value(ctx, h, "a"); err != nil || v != 0 || sold.Load() != 40 {
			t.Errorf("stock %d, %v, after %d sales of 40", v, err, sold.Load())
		}
	})
}

func TestColumn(t *testing.T) {
	databases(t, func(t *testing.T, h guard.Handle, stock counter.Column) {
		ctx := t.Context()
		add := func(c counter.Column, delta int64, want string) {
			t.Helper()
			r, err := c.Add(ctx, h, "a", delta)
			if got := r.String(); err != nil || got != want {
				t.Errorf("%s, %v, want %s", got, err, want)
			}
		}
		add(stock, -40, "-40 applied: now 0")
		add(stock, -1, "-1 refused: 0 would leave 0 to 9223372036854775807")
		add(stock, math.MinInt64, "-9223372036854775808 refused: 0 would leave 0 to 9223372036854775807")
		add(stock, 0, "+0 applied: now 0")
		stock.Bounds = counter.Between(-5, 5)
		add(stock, 6, "+6 refused: 0 would leave -5 to 5")
		add(stock, 5, "+5 applied: now 5")
		stock.Bounds = counter.Bounds{}
		add(stock, -10, "-10 applied: now -5")
		stock.Bounds = counter.AtLeast(math.MaxInt64)
		add(stock, -1, "-1 refused: -5 would leave 9223372036854775807 to 9223372036854775807")

		if _, err := stock.Add(ctx, h, "b", 1); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("no such row: %v", err)
		}
		var corrupt *store.CorruptError
		if _, err := stock.Add(ctx, h, "none", 1); !errors.As(err, &corrupt) {
			t.Errorf("NULL: %v", err)
		}
		if _, err := (counter.Column{Table: "t", Key: "", Column: "n"}).Add(ctx, h, "a", 1); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("no key column: %v", err)
		}
		// Inside a transaction of the caller it goes with it.
		stock.Bounds = counter.Bounds{}
		mine := errors.New("mine")
		err := guard.Tx(ctx, h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error {
			if r, err := stock.Add(ctx, tx, "a", 100); err != nil || r.Value != 95 {
				t.Errorf("in a transaction: %v, %v", r, err)
			}
			return mine
		})
		if v, verr := stock.Value(ctx, h, "a"); !errors.Is(err, mine) || verr != nil || v != -5 {
			t.Errorf("after a rollback: %d, %v, %v", v, verr, err)
		}
	})
}
