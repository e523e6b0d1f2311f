package lease_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/store"
)

// database is a database/sql database with the table of fences and one of jobs.
func database(t *testing.T, d guard.Dialect) *sql.DB {
	t.Helper()
	driver, dsn := "sqlite", "file:"+filepath.Join(t.TempDir(), "app.db")+"?_txlock=immediate&_pragma=busy_timeout(10000)"
	if d == guard.Postgres {
		driver, dsn = "pgx", pgtest.Need(t, server).URL("postgres")
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{
		"DROP TABLE IF EXISTS jobs", "DROP TABLE IF EXISTS holdfast_fences",
		"CREATE TABLE jobs (id bigint PRIMARY KEY, state text NOT NULL, fence bigint NOT NULL DEFAULT 0)",
		"INSERT INTO jobs VALUES (1, 'new', 0)",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	for range 2 {
		if err := lease.CreateFences(t.Context(), guard.SQL(db, d)); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

var jobs = lease.Column{Table: "jobs", Key: "id", Fence: "fence"}

// set is the application's own part of an update, in each dialect.
var set = map[guard.Dialect]string{guard.Postgres: "state = $3", guard.SQLite: "state = ?3"}

func inTx(ctx context.Context, db *sql.DB, d guard.Dialect, f func(guard.Handle) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(guard.SQL(tx, d)); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// state is what the table holds.
func state(t *testing.T, db *sql.DB) (s string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT state FROM jobs WHERE id = 1").Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Every form refuses a lower token, takes an equal one, and changes nothing
// when it refuses.
func TestFencesInSQL(t *testing.T) {
	for d, name := range map[guard.Dialect]string{guard.Postgres: "postgres", guard.SQLite: "sqlite"} {
		t.Run(name, func(t *testing.T) {
			ctx, db := t.Context(), database(t, d)
			forms := map[string]func(token lease.Token, value string) error{
				"table of fences": func(token lease.Token, value string) error {
					return inTx(ctx, db, d, func(h guard.Handle) error {
						if err := lease.Fence(ctx, h, "job", token); err != nil {
							return err
						}
						_, err := h.Exec(ctx, "UPDATE jobs SET state = '"+value+"' WHERE id = 1")
						return err
					})
				},
				"column, transaction": func(token lease.Token, value string) error {
					return inTx(ctx, db, d, func(h guard.Handle) error {
						if err := jobs.Check(ctx, h, 1, token); err != nil {
							return err
						}
						_, err := h.Exec(ctx, "UPDATE jobs SET state = '"+value+"' WHERE id = 1")
						return err
					})
				},
				"column, statement": func(token lease.Token, value string) error {
					return jobs.Update(ctx, guard.SQL(db, d), 1, token, set[d], value)
				},
			}
			base := lease.Token(0)
			for form, write := range forms {
				base += 10
				for _, token := range []lease.Token{base, base, base + 2} {
					if err := write(token, fmt.Sprint(form, token)); err != nil {
						t.Errorf("%s, token %d: %v", form, token, err)
					}
				}
				err := write(base+1, "stale")
				stale := wantError[*lease.StaleError](t, form, err)
				if stale != nil && stale.Seen != base+2 {
					t.Errorf("%s: refused by %d", form, stale.Seen)
				}
				if got := state(t, db); got != fmt.Sprint(form, base+2) {
					t.Errorf("%s: state %q", form, got)
				}
			}
			wantError[*lease.RowMissingError](t, "no such row", jobs.Update(ctx, guard.SQL(db, d), 9, 1, set[d], "x"))
			wantError[*lease.RowMissingError](t, "no such row", jobs.Check(ctx, guard.SQL(db, d), 9, 1))
			err := lease.Fence(ctx, guard.SQL(db, guard.MySQL), "job", 1)
			wantError[*store.UnsupportedError](t, "another dialect", err)
		})
	}
}

// A holder that has passed the fence and is not committed yet comes before
// its successor as a whole; one that is not there yet is refused. The state is
// never the stale one after the successor's.
func TestFencePausedInTransaction(t *testing.T) {
	for d, name := range map[guard.Dialect]string{guard.Postgres: "postgres", guard.SQLite: "sqlite"} {
		t.Run(name, func(t *testing.T) {
			ctx, db := t.Context(), database(t, d)
			write := func(token lease.Token, between func()) error {
				return inTx(ctx, db, d, func(h guard.Handle) error {
					if err := lease.Fence(ctx, h, "job", token); err != nil {
						return err
					}
					between()
					return jobs.Update(ctx, h, 1, 1<<40, set[d], fmt.Sprint(token))
				})
			}
			for i := range 30 {
				old, young := lease.Token(2*i+1), lease.Token(2*i+2)
				var wg sync.WaitGroup
				var errYoung error
				err := write(old, func() {
					wg.Go(func() { errYoung = write(young, func() {}) })
				})
				wg.Wait()
				if err := errors.Join(err, errYoung); err != nil {
					t.Fatal(err)
				}
				if got := state(t, db); got != fmt.Sprint(young) {
					t.Fatalf("round %d: state %q, want that of %d", i, got, young)
				}
				wantError[*lease.StaleError](t, "late", write(old, func() {}))
			}
		})
	}
}

// A locked row is waited for until the bound and no longer, and the setting
// does not leak into the rest of the transaction.
func TestLockRows(t *testing.T) {
	ctx, db := t.Context(), pool(t)
	if _, err := db.Exec(ctx, "DROP TABLE IF EXISTS rooms; CREATE TABLE rooms (id int PRIMARY KEY); INSERT INTO rooms SELECT generate_series(1, 3)"); err != nil {
		t.Fatal(err)
	}
	const query = "SELECT id FROM rooms WHERE id <= $1 ORDER BY id FOR UPDATE"
	first, err := db.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := lease.LockRows(ctx, guard.Pgx(first), time.Second, query, 2); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	var timeout string
	if err := first.QueryRow(ctx, "SELECT current_setting('lock_timeout')").Scan(&timeout); err != nil || timeout != "0" {
		t.Errorf("lock_timeout is %q afterwards, %v", timeout, err)
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		_, err := lease.LockRows(ctx, guard.Pgx(tx), 0, query, 3)
		return err
	})
	held := wantError[*lease.HeldError](t, "locked rows", err)
	if held != nil {
		if status, _ := held.Race(); status != 423 {
			t.Errorf("answered with %d", status)
		}
	}
	if err := first.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	_, err = lease.LockRows(ctx, guard.SQL(nil, guard.SQLite), 0, query)
	wantError[*store.UnsupportedError](t, "SQLite", err)
}

// One session at a time, tokens that grow, and fences that refuse an earlier
// holder from the moment the lock is taken.
func TestAdvisory(t *testing.T) {
	ctx, db := t.Context(), pool(t)
	h := guard.Pgx(db)
	if err := lease.CreateFences(ctx, h); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var tokens []lease.Token
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 5 {
				a, err := lease.Advisory(ctx, db, "turns", lease.AdvisoryOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				if !mu.TryLock() {
					t.Error("two hold the lock")
				}
				tokens = append(tokens, a.Token())
				mu.Unlock()
				if err := a.Release(ctx); err != nil || !errors.Is(context.Cause(a.Context()), lease.ErrReleased) {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	wg.Wait()
	for i, token := range tokens {
		if i > 0 && token <= tokens[i-1] {
			t.Errorf("token %d after %d", token, tokens[i-1])
		}
	}
	if len(tokens) != 30 {
		t.Errorf("%d turns, want 30", len(tokens))
	}
}

// The server ends a session: its holder is told, and is refused from the next
// holder's acquisition on.
func TestAdvisorySessionEnds(t *testing.T) {
	ctx, db := t.Context(), pool(t)
	if err := lease.CreateFences(ctx, guard.Pgx(db)); err != nil {
		t.Fatal(err)
	}
	a, err := lease.Advisory(ctx, db, "ended", lease.AdvisoryOptions{Ping: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks
		WHERE locktype = 'advisory' AND objid = (hashtextextended('holdfast lease ended', 0) & 4294967295)::oid`); err != nil {
		t.Fatal(err)
	}
	wantError[*lease.LostError](t, "cause", ended(t, a.Context()))
	next, err := lease.Advisory(ctx, db, "ended", lease.AdvisoryOptions{})
	if err != nil || next.Token() <= a.Token() {
		t.Fatalf("the next one: %v", err)
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return lease.Fence(ctx, guard.Pgx(tx), "ended", a.Token()) })
	wantError[*lease.StaleError](t, "write of the past holder", err)
	if err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return lease.Fence(ctx, guard.Pgx(tx), "ended", next.Token()) }); err != nil {
		t.Error(err)
	}
	wantError[*lease.LostError](t, "release of the lost lock", a.Release(ctx))
	if err := next.Release(ctx); err != nil {
		t.Error(err)
	}
	// A release whose answer can not come frees the lock by ending the session.
	a, err = lease.Advisory(ctx, db, "ended", lease.AdvisoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := a.Release(over); err != nil {
		t.Error(err)
	}
	if a, err = lease.Advisory(ctx, db, "ended", lease.AdvisoryOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := a.Release(ctx); err != nil {
		t.Error(err)
	}
}
