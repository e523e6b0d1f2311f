package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/store"
)

func TestExec(t *testing.T) {
	each(t, func(t *testing.T, h guard.Handle) {
		take := fmt.Sprintf("UPDATE accounts SET balance = balance - 60 WHERE id = %s AND balance >= 60", h.Dialect().Param(1))
		if n, err := guard.Exec(t.Context(), h, take, 1); n != 1 || err != nil {
			t.Errorf("first: %d, %v", n, err)
		}
		_, err := guard.Exec(t.Context(), h, take, 1)
		var none *guard.NoRowError
		if !errors.As(err, &none) || !errors.Is(err, store.ErrConflict) {
			t.Errorf("second: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = guard.Exec(ended, h, take, 2)
		if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("with an ended context: %v", err)
		}
		if n := number(t, h, "SELECT sum(balance) FROM accounts"); n != 240 {
			t.Errorf("sum %d", n)
		}
	})
}

// Sixteen goroutines take ten out of a hundred: ten succeed. With the check
// before the statement, or without looking at the rows, more would.
func TestExecInParallel(t *testing.T) {
	each(t, func(t *testing.T, h guard.Handle) {
		var taken atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				_, err := guard.Exec(patience(t), h, "UPDATE accounts SET balance = balance - 10 WHERE id = 1 AND balance >= 10")
				var none *guard.NoRowError
				switch {
				case err == nil:
					taken.Add(1)
				case !errors.As(err, &none):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := number(t, h, "SELECT balance FROM accounts WHERE id = 1"); n != 0 || taken.Load() != 10 {
			t.Errorf("balance %d after %d withdrawals of ten from a hundred", n, taken.Load())
		}
	})
}

func TestViolations(t *testing.T) {
	each(t, func(t *testing.T, h guard.Handle) {
		for _, c := range []struct {
			text       string
			kind       guard.Kind
			postgres   string // the constraint
			sqlite     string
			wantStatus int
		}{
			{"INSERT INTO accounts (id, name, balance) VALUES (1, 'dan', 0)", guard.Unique, "accounts_pkey", "accounts.id", 409},
			{"INSERT INTO accounts (id, name, balance) VALUES (4, 'ann', 0)", guard.Unique, "accounts_name", "accounts.name", 409},
			{"UPDATE accounts SET balance = balance - 101 WHERE id = 1", guard.Check, "enough", "enough", 409},
			{"INSERT INTO cards VALUES (1, 99)", guard.ForeignKey, "owner", "", 409},
		} {
			_, err := guard.Exec(t.Context(), h, c.text)
			var race *guard.RaceError
			if !errors.As(err, &race) || race.Kind != c.kind || !errors.Is(err, store.ErrConflict) {
				t.Errorf("%s: %v", c.text, err)
				continue
			}
			want := c.postgres
			if h.Dialect() == guard.SQLite {
				want = c.sqlite
			}
			if race.Constraint != want {
				t.Errorf("%s: constraint %q, want %q", c.text, race.Constraint, want)
			}
			if status, _ := race.Race(); status != c.wantStatus {
				t.Errorf("%s: status %d", c.text, status)
			}
		}
		_, err := guard.Exec(t.Context(), h, "UPDATE nowhere SET a = 1")
		if err == nil || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("an unknown table: %v", err)
		}
	})
}

// Error has the shape of mattn/go-sqlite3's.
type Error struct{ ExtendedCode int }

func (e Error) Error() string { return "UNIQUE constraint failed: t.a, t.b" }

// Errors of drivers that no server is here for, as their packages make them.
func TestClassifyOtherDrivers(t *testing.T) {
	for _, c := range []struct {
		err        error
		kind       guard.Kind
		constraint string
	}{
		{&mysql.MySQLError{Number: 1062, Message: "Duplicate entry 'a.b' for key 't.name'"}, guard.Unique, "name"},
		{&mysql.MySQLError{Number: 1062, Message: "Duplicate entry 'x' for key 'PRIMARY'"}, guard.Unique, "PRIMARY"},
		{&mysql.MySQLError{Number: 3819, Message: "Check constraint 'enough' is violated."}, guard.Check, "enough"},
		{&mysql.MySQLError{Number: 4025, Message: "CONSTRAINT `enough` failed for `d`.`t`"}, guard.Check, "enough"},
		{&mysql.MySQLError{Number: 1452, Message: "Cannot add or update a child row: a foreign key constraint fails (`d`.`t`, CONSTRAINT `owner` FOREIGN KEY (`a`) REFERENCES `b` (`id`))"}, guard.ForeignKey, "owner"},
		{&mysql.MySQLError{Number: 1213}, guard.Deadlock, ""},
		{&mysql.MySQLError{Number: 1205}, guard.LockTimeout, ""},
		{&mysql.MySQLError{Number: 3572}, guard.LockTimeout, ""},
		{&mysql.MySQLError{Number: 1020}, guard.Serialization, ""},
		{&mysql.MySQLError{Number: 1064}, guard.None, ""},
		{Error{2067}, guard.Unique, "t.a, t.b"},
		{Error{517}, guard.Serialization, ""},
		{Error{5}, guard.Busy, ""},
		{Error{1}, guard.None, ""},
		{errors.New("Number 1062"), guard.None, ""},
		{nil, guard.None, ""},
	} {
		if got := guard.Classify(c.err); got != c.kind {
			t.Errorf("%v: %v, want %v", c.err, got, c.kind)
		}
		if c.err == nil {
			continue
		}
		wrapped := fmt.Errorf("save: %w", errors.Join(errors.New("x"), c.err))
		if got := guard.Classify(wrapped); got != c.kind {
			t.Errorf("wrapped %v: %v, want %v", c.err, got, c.kind)
		}
		_, err := guard.Exec(t.Context(), failing{c.err}, "UPDATE t")
		var race *guard.RaceError
		if errors.As(err, &race) != (c.kind != guard.None) || race != nil && race.Constraint != c.constraint {
			t.Errorf("%v: explained as %v", c.err, err)
		}
	}
	for _, lost := range []error{mysql.ErrInvalidConn, &mysql.MySQLError{Number: 1053}, context.DeadlineExceeded, Error{10}} {
		if _, err := guard.Exec(t.Context(), failing{lost}, "UPDATE t"); !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("%v: not unknown: %v", lost, err)
		}
	}
}

// failing is a database whose statements fail.
type failing struct{ err error }

func (f failing) Dialect() guard.Dialect                                    { return guard.MySQL }
func (f failing) Exec(context.Context, string, ...any) (int64, error)       { return 0, f.err }
func (f failing) QueryRow(context.Context, string, ...any) guard.Row        { return nil }
func (f failing) Query(context.Context, string, ...any) (guard.Rows, error) { return nil, f.err }

// An error comes with no rows, not with rows that are a nil pointer.
func TestQueryError(t *testing.T) {
	each(t, func(t *testing.T, h guard.Handle) {
		rows, err := h.Query(t.Context(), "SELECT * FROM nowhere")
		if err == nil && h.Dialect() == guard.Postgres {
			// pgx reports some errors at the rows.
			for rows.Next() {
			}
			err = errors.Join(rows.Err(), rows.Close())
		} else if rows != nil {
			t.Errorf("rows %v beside %v", rows, err)
		}
		if err == nil {
			t.Error("no error")
		}
		if err := h.QueryRow(t.Context(), "SELECT id FROM accounts WHERE id = 99").Scan(new(int64)); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("no row: %v", err)
		}
	})
}

func TestInsert(t *testing.T) {
	each(t, func(t *testing.T, h guard.Handle) {
		for i, text := range []string{
			"INSERT INTO accounts (id, name, balance) VALUES (4, 'dan', 0)",
			"INSERT INTO accounts (id, name, balance) VALUES (4, 'dan', 0)",
			"INSERT INTO accounts (id, name, balance) VALUES (5, 'dan', 0) ON CONFLICT DO NOTHING",
		} {
			err := guard.Insert(t.Context(), h, text)
			var race *guard.RaceError
			if got := errors.As(err, &race) && race.Kind == guard.Unique; got != (i > 0) || i == 0 && err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
	})
}

// Sixteen callers want the same name: one row, which all of them get. It works
// the same inside a transaction, which PostgreSQL would otherwise end at the
// refused INSERT.
func TestInsertOrGetInParallel(t *testing.T) {
	each(t, func(t *testing.T, h guard.Handle) {
		for _, inTx := range []bool{false, true} {
			name := fmt.Sprint("name ", inTx)
			var mu sync.Mutex
			created, ids := 0, map[int64]bool{}
			get := func(ctx context.Context, h guard.Handle, id int64) error {
				d := h.Dialect()
				var got int64
				isNew, err := guard.InsertOrGet(ctx, h,
					guard.Statement{Query: "INSERT INTO accounts (id, name, balance) VALUES (" + d.Params(1, 2) + ", 7)", Args: []any{id, name}},
					guard.Statement{Query: "SELECT id FROM accounts WHERE name = " + d.Param(1), Args: []any{name}}, &got)
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				ids[got] = true
				if isNew {
					created++
				}
				return nil
			}
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					id := int64(100 + i)
					err := get(patience(t), h, id)
					if inTx {
						err = guard.Tx(patience(t), h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error { return get(ctx, tx, id+100) })
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			rows := number(t, h, "SELECT count(*) FROM accounts WHERE balance = 7")
			if created != 1 || len(ids) != 1 || rows != 1 {
				t.Errorf("in a transaction %v: created %d times, ids %v, %d rows", inTx, created, ids, rows)
			}
			exec(t, h, "DELETE FROM accounts WHERE balance = 7")
		}
	})
}

// A row that comes and goes: every caller gets one in the end.
func TestInsertOrGetAgainstDeletes(t *testing.T) {
	each(t, func(t *testing.T, h guard.Handle) {
		ctx := patience(t)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				d := h.Dialect()
				for range 25 {
					var id int64
					_, err := guard.InsertOrGet(ctx, h,
						guard.Statement{Query: "INSERT INTO accounts (id, name, balance) VALUES (" + d.Param(1) + ", 'x', 0)", Args: []any{100 + i}},
						guard.Statement{Query: "SELECT id FROM accounts WHERE name = 'x'"}, &id)
					// The winner's row may be gone before the winner reads it.
					if err != nil && !errors.Is(err, sql.ErrNoRows) {
						t.Errorf("%v", err)
					}
					if _, err := h.Exec(ctx, "DELETE FROM accounts WHERE name = 'x'"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
}
