//go:build unix

package machine_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/machine"
	"github.com/holdfast-dev/holdfast/store"
)

func databases(t *testing.T, test func(t *testing.T, h guard.Handle, r machine.Rows)) {
	t.Run("sqlite", func(t *testing.T) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "t.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(30000)&_pragma=synchronous(NORMAL)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		h := guard.SQL(db, guard.SQLite)
		test(t, h, makeRows(t, h))
	})
	t.Run("postgres", func(t *testing.T) {
		pool, err := pgxpool.New(t.Context(), pgtest.Need(t, server).URL("postgres")+"&pool_max_conns=16")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		test(t, guard.Pgx(pool), makeRows(t, guard.Pgx(pool)))
	})
}

func makeRows(t *testing.T, h guard.Handle) machine.Rows {
	t.Helper()
	n := tables.Add(1)
	r := machine.Rows{Machine: order(t), Table: fmt.Sprintf("orders%d", n), Key: "id", State: "status", History: fmt.Sprintf("history%d", n)}
	run(t, h, fmt.Sprintf("CREATE TABLE %s (id bigint PRIMARY KEY, status text NOT NULL, carrier text, effects bigint NOT NULL DEFAULT 0)", r.Table))
	run(t, h, machine.HistoryTable(h.Dialect(), r.History))
	return r
}

func run(t *testing.T, h guard.Handle, query string, args ...any) {
	t.Helper()
	if _, err := h.Exec(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func insert(t *testing.T, h guard.Handle, r machine.Rows, id int) {
	t.Helper()
	run(t, h, fmt.Sprintf("INSERT INTO %s (id, status) VALUES (%d, 'new')", r.Table, id))
}

// effect counts in the row itself.
func effect(r machine.Rows, id int) func(context.Context, guard.Handle) error {
	return func(ctx context.Context, tx guard.Handle) error {
		_, err := guard.Exec(ctx, tx, fmt.Sprintf("UPDATE %s SET effects = effects + 1 WHERE id = %d", r.Table, id))
		return err
	}
}

// Sixteen callers pay or cancel the same row: one wins, with its effect and its
// line of history.
func TestOneRowTransitionWins(t *testing.T) {
	databases(t, func(t *testing.T, h guard.Handle, r machine.Rows) {
		ctx := patience(t)
		for id := range 8 {
			insert(t, h, r, id)
			var paid, cancelled atomic.Int64
			together(16, func(i int) {
				to, won := machine.State("paid"), &paid
				if i%2 == 1 {
					to, won = "cancelled", &cancelled
				}
				err := r.Transition(ctx, h, id, "new", to, machine.RowStep{By: fmt.Sprint(i), Effect: effect(r, id)})
				var lost *machine.LostError
				switch {
				case err == nil:
					won.Add(1)
				case !errors.As(err, &lost) || lost.Current == "new":
					t.Error(err)
				}
			})
			var status string
			var effects int
			if err := h.QueryRow(ctx, fmt.Sprintf("SELECT status, effects FROM %s WHERE id = %d", r.Table, id)).Scan(&status, &effects); err != nil {
				t.Fatal(err)
			}
			history, err := r.Entries(ctx, h, id)
			if err != nil || paid.Load()+cancelled.Load() != 1 || effects != 1 || len(history) != 1 || string(history[0].To) != status || (status == "paid") != (paid.Load() == 1) {
				t.Errorf("paid %d times, cancelled %d times: %s, %d effects, %v, %v", paid.Load(), cancelled.Load(), status, effects, history, err)
			}
		}
	})
}

// Rows go back and forth; every acknowledged transition is in the history, in an
// order that the table allows, with its effect.
func TestRowHistory(t *testing.T) {
	databases(t, func(t *testing.T, h guard.Handle, r machine.Rows) {
		ctx := patience(t)
		insert(t, h, r, 1)
		var moved atomic.Int64
		together(6, func(int) {
			for range 8 {
				for _, step := range [][2]machine.State{{"new", "paid"}, {"paid", "new"}} {
					err := r.Transition(ctx, h, 1, step[0], step[1], machine.RowStep{Effect: effect(r, 1)})
					var lost *machine.LostError
					switch {
					case err == nil:
						moved.Add(1)
					case !errors.As(err, &lost):
						t.Error(err)
					}
				}
			}
		})
		var effects int64
		if err := h.QueryRow(ctx, "SELECT effects FROM "+r.Table).Scan(&effects); err != nil {
			t.Fatal(err)
		}
		history, err := r.Entries(ctx, h, 1)
		if err != nil || int64(len(history)) != moved.Load() || effects != moved.Load() {
			t.Errorf("%d acknowledged, %d in the history, %d effects, %v", moved.Load(), len(history), effects, err)
		}
		at := machine.State("new")
		for i, e := range history {
			if e.From != at || e.Seq != int64(i+1) || !r.Machine.Allows(e.From, e.To) {
				t.Fatalf("line %d is %+v after %s", i, e, at)
			}
			at = e.To
		}
	})
}

func TestRows(t *testing.T) {
	databases(t, func(t *testing.T, h guard.Handle, r machine.Rows) {
		ctx := t.Context()
		insert(t, h, r, 1)
		now := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
		r.Now = func() time.Time { return now }
		if err := r.Transition(ctx, h, 2, "new", "paid", machine.RowStep{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("no such row: %v", err)
		}
		var illegal *machine.IllegalError
		if err := r.Transition(ctx, h, 1, "new", "delivered", machine.RowStep{}); !errors.As(err, &illegal) {
			t.Errorf("not in the table: %v", err)
		}
		// A failing effect undoes the transition and its line.
		mine := errors.New("mine")
		err := r.Transition(ctx, h, 1, "new", "paid", machine.RowStep{Effect: func(ctx context.Context, tx guard.Handle) error {
			return errors.Join(effect(r, 1)(ctx, tx), mine)
		}})
		state, serr := r.Current(ctx, h, 1)
		if !errors.Is(err, mine) || serr != nil || state != "new" {
			t.Errorf("a failing effect: %v; state %s, %v", err, state, serr)
		}
		if err := r.Transition(ctx, h, 1, "new", "paid", machine.RowStep{By: "ann", Note: "card", Set: map[string]any{"carrier": "ups"}}); err != nil {
			t.Error(err)
		}
		history, err := r.Entries(ctx, h, 1)
		want := machine.Entry{Seq: 1, From: "new", To: "paid", At: now, By: "ann", Note: "card"}
		if err != nil || len(history) != 1 || history[0] != want {
			t.Errorf("history %+v, %v, want %+v", history, err, want)
		}
		// Further conditions.
		var lost *machine.LostError
		err = r.Transition(ctx, h, 1, "paid", "in transit", machine.RowStep{If: map[string]any{"carrier": "dhl"}})
		if !errors.As(err, &lost) || lost.Current != "paid" {
			t.Errorf("another carrier: %v", err)
		}
		// Inside a transaction of the caller it goes with it.
		err = guard.Tx(ctx, h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error {
			if err := r.Transition(ctx, tx, 1, "paid", "in transit", machine.RowStep{If: map[string]any{"carrier": "ups"}}); err != nil {
				t.Errorf("in a transaction: %v", err)
			}
			return mine
		})
		if state, serr := r.Current(ctx, h, 1); !errors.Is(err, mine) || serr != nil || state != "paid" {
			t.Errorf("after a rollback: %s, %v, %v", state, serr, err)
		}
		for _, bad := range []machine.RowStep{{Set: map[string]any{"status": "x"}}, {If: map[string]any{"id": 1}}, {Set: map[string]any{"": 1}}} {
			if err := r.Transition(ctx, h, 1, "paid", "new", bad); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		// Without history and effect it is one statement.
		r.History = ""
		if err := r.Transition(ctx, h, 1, "paid", "in transit", machine.RowStep{}); err != nil {
			t.Error(err)
		}
		err = r.Transition(ctx, h, 1, "paid", "in transit", machine.RowStep{})
		if !errors.As(err, &lost) || !lost.Already() {
			t.Errorf("again: %v", err)
		}
	})
}
