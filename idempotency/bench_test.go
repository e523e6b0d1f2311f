package idempotency

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// BenchmarkRequest compares, in one run, a request that changes two rows in a
// durable transaction (bare), the same with a new key (key), and a copy whose
// answer is recorded (replay), at 1, 16 and 64 writers. What the key costs is the
// difference of the requests per second of bare and key, which alternate in short
// rounds, so that both meet the same state of the machine.
//
//	go test -run '^$' -bench Request -benchtime 1x ./idempotency
func BenchmarkRequest(b *testing.B) {
	for _, kind := range []string{"sqlite", "postgres"} {
		for _, writers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/writers=%d", kind, writers), func(b *testing.B) {
				r := benchRig(b, kind, writers)
				for b.Loop() {
					benchRequest(b, r, writers)
				}
			})
		}
	}
}

const (
	benchRounds = 12
	benchRound  = 400 * time.Millisecond
)

func benchRequest(b *testing.B, r *rig, writers int) {
	update, insert := "UPDATE accounts SET n = n + 1 WHERE id = ?", "INSERT INTO effects (name) VALUES (?)"
	if r.db.Dialect() == guard.Postgres {
		update, insert = "UPDATE accounts SET n = n + 1 WHERE id = $1", "INSERT INTO effects (name) VALUES ($1)"
	}
	answer := Answer{Status: 201, Header: []Field{{"Content-Type", "application/json"}}, Body: []byte(`{"payment":123456,"balance":1000}`)}
	effect := func(account int64) func(context.Context, guard.Handle) (Answer, error) {
		return func(ctx context.Context, tx guard.Handle) (Answer, error) {
			if _, err := tx.Exec(ctx, update, account); err != nil {
				return Answer{}, err
			}
			_, err := tx.Exec(ctx, insert, "payment")
			return answer, err
		}
	}
	var next atomic.Int64
	print := Fingerprint([]byte("body"))
	kinds := []struct {
		name    string
		request func(ctx context.Context, n int64) error
		done    int64
		spent   time.Duration
	}{
		{name: "bare", request: func(ctx context.Context, n int64) error {
			return r.bare(ctx, effect(n%1000))
		}},
		{name: "key", request: func(ctx context.Context, n int64) error {
			got, err := r.do(ctx, Request{Scope: "alice", Key: fmt.Sprintf("8e03978e-40d5-43e8-bc93-%012d", n), Fingerprint: print}, effect(n%1000))
			if err == nil && got.Replayed {
				return fmt.Errorf("key %d was replayed", n)
			}
			return err
		}},
		{name: "replay", request: func(ctx context.Context, n int64) error {
			got, err := r.do(ctx, Request{Scope: "bob", Key: fmt.Sprintf("8e03978e-40d5-43e8-bc93-%012d", n%100), Fingerprint: print}, effect(n%1000))
			if err == nil && !got.Replayed {
				return fmt.Errorf("key %d was not replayed", n%100)
			}
			return err
		}},
	}
	for n := range 100 {
		if _, err := r.do(b.Context(), Request{Scope: "bob", Key: fmt.Sprintf("8e03978e-40d5-43e8-bc93-%012d", n), Fingerprint: print}, effect(1)); err != nil {
			b.Fatal(err)
		}
	}
	for round := range benchRounds {
		for i := range kinds {
			k := &kinds[(i+round)%len(kinds)]
			var done atomic.Int64
			start := time.Now()
			var wg sync.WaitGroup
			for range writers {
				wg.Go(func() {
					for time.Since(start) < benchRound {
						if err := k.request(b.Context(), next.Add(1)); err != nil {
							b.Error(err)
							return
						}
						done.Add(1)
					}
				})
			}
			wg.Wait()
			k.done += done.Load()
			k.spent += time.Since(start)
		}
	}
	rate := func(i int) float64 { return float64(kinds[i].done) / kinds[i].spent.Seconds() }
	for i, k := range kinds {
		b.ReportMetric(rate(i), k.name+"/s")
	}
	b.ReportMetric(100*(1-rate(1)/rate(0)), "%cost")
	b.ReportMetric(1e3*float64(writers)/rate(0), "bare-ms")
	b.ReportMetric(1e3*float64(writers)/rate(2), "replay-ms")
	b.ReportMetric(0, "ns/op")
}

// benchRig is on the disk, with every commit synced.
func benchRig(b *testing.B, kind string, writers int) *rig {
	b.Helper()
	if kind == "sqlite" {
		query := url.Values{"_pragma": {"busy_timeout(60000)", "journal_mode(WAL)", "synchronous(FULL)"}, "_txlock": {"immediate"}}
		db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: filepath.Join(b.TempDir(), "bench.db"), RawQuery: query.Encode()}).String())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		// One writer at a time is SQLite's own rule. A queue in Go is faster than
		// its polling for the lock, for all kinds alike.
		db.SetMaxOpenConns(1)
		k, err := NewSQL(db, guard.SQLite, Options{})
		if err != nil {
			b.Fatal(err)
		}
		r := newRig(k)
		r.bare = func(ctx context.Context, effect func(context.Context, guard.Handle) (Answer, error)) error {
			_, err := k.bare(ctx, func(ctx context.Context, tx *sql.Tx) (Answer, error) { return effect(ctx, guard.SQL(tx, guard.SQLite)) })
			return err
		}
		return benchTables(b, r)
	}
	s, err := pgtest.Start(b.Context(), pgtest.Options{Dir: os.TempDir(), Durable: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Stop() })
	pool, err := pgxpool.New(b.Context(), s.URL("postgres")+fmt.Sprintf("&pool_max_conns=%d", writers))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	k, err := NewPgx(pool, Options{})
	if err != nil {
		b.Fatal(err)
	}
	r := newRig(k)
	r.bare = func(ctx context.Context, effect func(context.Context, guard.Handle) (Answer, error)) error {
		_, err := k.bare(ctx, func(ctx context.Context, tx pgx.Tx) (Answer, error) { return effect(ctx, guard.Pgx(tx)) })
		return err
	}
	return benchTables(b, r)
}

func benchTables(b *testing.B, r *rig) *rig {
	prepare(b, r)
	execute(b, r.db, "CREATE TABLE accounts (id integer PRIMARY KEY, n integer NOT NULL)")
	for id := range 1000 {
		execute(b, r.db, fmt.Sprintf("INSERT INTO accounts VALUES (%d, 0)", id))
	}
	return r
}
