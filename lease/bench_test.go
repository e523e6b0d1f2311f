package lease_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// BenchmarkAcquireRelease takes a lease and gives it back, beside a bare row
// lock on the same durable database: BEGIN, SELECT … FOR UPDATE, COMMIT on
// PostgreSQL; on SQLite, which has one lock for all, BEGIN IMMEDIATE, UPDATE of
// the row, COMMIT.
// Each of the 1, 16 or 64 callers has a lease and a row of its own: this is
// what the mechanism costs. With "one" they all want the same one.
//
//	go test ./lease -run xxx -bench AcquireRelease -benchtime 2s
func BenchmarkAcquireRelease(b *testing.B) {
	// On a disk, with syncs: the tests' server has neither.
	s, err := pgtest.Start(b.Context(), pgtest.Options{Dir: os.TempDir(), Durable: true})
	if err != nil && !errors.Is(err, pgtest.ErrNotInstalled) {
		b.Fatal(err)
	}
	if s != nil {
		b.Cleanup(func() { _ = s.Stop() })
	}
	for _, kind := range []string{"postgres", "sqlite"} {
		for _, callers := range []int{1, 16, 64} {
			for _, what := range []string{"own", "one"} {
				if callers == 1 && what == "one" {
					continue
				}
				for _, way := range []string{"lease", "advisory", "row lock"} {
					if kind == "sqlite" && way == "advisory" {
						continue
					}
					b.Run(fmt.Sprintf("%s/%d/%s/%s", kind, callers, what, way), func(b *testing.B) {
						benchmark(b, s, kind, way, callers, func(i int) string {
							if what == "one" {
								return "0"
							}
							return fmt.Sprint(i)
						})
					})
				}
			}
		}
	}
}

// operation takes and gives back what a name stands for.
type operation func(ctx context.Context, name string) error

func benchmark(b *testing.B, server *pgtest.Server, kind, way string, callers int, name func(i int) string) {
	do := map[string]map[string]func(*testing.B, *pgtest.Server) operation{
		"postgres": {"lease": pgLease, "advisory": pgAdvisory, "row lock": pgRow},
		"sqlite":   {"lease": sqliteLease, "row lock": sqliteRow},
	}[kind][way](b, server)
	ctx := b.Context()
	for i := range callers { // the records and rows are there
		if err := do(ctx, name(i)); err != nil {
			b.Fatal(err)
		}
	}
	took := make([][]time.Duration, callers)
	left := make(chan struct{}, b.N)
	for range b.N {
		left <- struct{}{}
	}
	close(left)
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range left {
				start := time.Now()
				if err := do(ctx, name(i)); err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	if len(all) == 0 {
		return
	}
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(0, "ns/op") // of no meaning with several callers
}

func benchURL(b *testing.B, s *pgtest.Server) string {
	b.Helper()
	return fmt.Sprintf("%s&pool_max_conns=%d", pgtest.Need(b, s).URL("postgres"), benchConns)
}

func benchPool(b *testing.B, s *pgtest.Server) *pgxpool.Pool {
	b.Helper()
	pool, err := pgxpool.New(b.Context(), benchURL(b, s))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return pool
}

func leases(b *testing.B, s *store.Store) operation {
	m, err := lease.New(s, lease.Options{TTL: time.Minute, Poll: 5 * time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context, name string) error {
		l, err := m.Acquire(ctx, name)
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}
}

const benchConns = 64

func pgLease(b *testing.B, server *pgtest.Server) operation {
	be, err := postgres.Open(b.Context(), benchURL(b, server), postgres.Options{Table: "leases"})
	if err != nil {
		b.Fatal(err)
	}
	s := store.New(be, store.Options{})
	b.Cleanup(func() { _ = s.Close() })
	return leases(b, s)
}

func pgAdvisory(b *testing.B, server *pgtest.Server) operation {
	pool := benchPool(b, server)
	if err := lease.CreateFences(b.Context(), guard.Pgx(pool)); err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context, name string) error {
		a, err := lease.Advisory(ctx, pool, name, lease.AdvisoryOptions{Wait: time.Minute})
		if err != nil {
			return err
		}
		return a.Release(ctx)
	}
}

func pgRow(b *testing.B, server *pgtest.Server) operation {
	pool := benchPool(b, server)
	if _, err := pool.Exec(b.Context(), `DROP TABLE IF EXISTS locks; CREATE TABLE locks (name text PRIMARY KEY);
		INSERT INTO locks SELECT generate_series(0, 63)::text`); err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context, name string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT name FROM locks WHERE name = $1 FOR UPDATE", name)
			return err
		})
	}
}

func sqliteLease(b *testing.B, _ *pgtest.Server) operation {
	be, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "state.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s := store.New(be, store.Options{})
	b.Cleanup(func() { _ = s.Close() })
	return leases(b, s)
}

func sqliteRow(b *testing.B, _ *pgtest.Server) operation {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "app.db")+"?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxIdleConns(benchConns)
	for _, statement := range []string{"CREATE TABLE locks (name text PRIMARY KEY, n bigint NOT NULL)",
		"WITH RECURSIVE i (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < 63) INSERT INTO locks SELECT CAST(n AS text), 0 FROM i"} {
		if _, err := db.ExecContext(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	return func(ctx context.Context, name string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE locks SET n = n + 1 WHERE name = ?", name); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}
}
