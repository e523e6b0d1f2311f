package idempotency

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// BenchmarkRequest compares, in one run, a request that changes two rows in a
// durable transaction (bare), the same with a new key (key), and a copy whose
// answer is recorded (replay), at 1, 16 and 64 writers: as transactions alone, and
// as HTTP requests to a server in this process. What the key costs is the
// difference of the requests per second of bare and key; the kinds alternate in
// short rounds, so that they meet the same state of the machine.
//
//	go test -run '^$' -bench Request -benchtime 1x ./idempotency
func BenchmarkRequest(b *testing.B) {
	for _, kind := range []string{"sqlite", "postgres"} {
		for _, writers := range []int{1, 16, 64} {
			for _, over := range []string{"transaction", "http"} {
				b.Run(fmt.Sprintf("%s/writers=%d/%s", kind, writers, over), func(b *testing.B) {
					r := benchRig(b, kind, writers)
					for b.Loop() {
						benchRequest(b, r, writers, over == "http")
					}
				})
			}
		}
	}
}

const (
	benchRounds = 12
	benchRound  = 400 * time.Millisecond
)

// benchKind is one of the things that are compared.
type benchKind struct {
	name    string
	request func(ctx context.Context, n int64) error
	done    int64
	spent   time.Duration
}

func (k *benchKind) rate() float64 { return float64(k.done) / k.spent.Seconds() }

func benchRequest(b *testing.B, r *rig, writers int, overHTTP bool) {
	kinds := r.transactions()
	if overHTTP {
		kinds = r.requests(b, writers)
	}
	for n := range int64(100) {
		if err := kinds[1].request(b.Context(), -n); err != nil {
			b.Fatal(err)
		}
	}
	var next atomic.Int64
	for round := range benchRounds {
		for i := range kinds {
			k := kinds[(i+round)%len(kinds)]
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
	for _, k := range kinds {
		b.ReportMetric(k.rate(), k.name+"/s")
		if k.name != "key" {
			b.ReportMetric(1e3*float64(writers)/k.rate(), k.name+"-ms")
		}
	}
	b.ReportMetric(100*(1-kinds[1].rate()/kinds[0].rate()), "%cost")
	b.ReportMetric(0, "ns/op")
}

// effectOf changes two rows.
func effectOf(n int64) func(context.Context, guard.Handle) (Answer, error) {
	return func(ctx context.Context, tx guard.Handle) (Answer, error) {
		update, insert := "UPDATE accounts SET n = n + 1 WHERE id = ?", "INSERT INTO effects (name) VALUES (?)"
		if tx.Dialect() == guard.Postgres {
			update, insert = "UPDATE accounts SET n = n + 1 WHERE id = $1", "INSERT INTO effects (name) VALUES ($1)"
		}
		if _, err := tx.Exec(ctx, update, (n%1000+1000)%1000); err != nil {
			return Answer{}, err
		}
		_, err := tx.Exec(ctx, insert, "payment")
		return Answer{Status: 201, Header: []Field{{"Content-Type", "application/json"}}, Body: []byte(benchBody)}, err
	}
}

const benchBody = `{"payment":123456,"balance":1000}`

// benchKey names requests; those below 0 are the ones that are replayed.
func benchKey(n int64) string { return fmt.Sprintf("8e03978e-40d5-43e8-bc93-%012d", n) }

func (r *rig) transactions() []*benchKind {
	print := Fingerprint([]byte("body"))
	do := func(ctx context.Context, n int64, replayed bool) error {
		got, err := r.do(ctx, Request{Scope: "alice", Key: benchKey(n), Fingerprint: print}, effectOf(n))
		if err == nil && got.Replayed != replayed {
			return fmt.Errorf("key %d: replayed=%v", n, got.Replayed)
		}
		return err
	}
	return []*benchKind{
		{name: "bare", request: func(ctx context.Context, n int64) error { return r.bare(ctx, effectOf(n)) }},
		{name: "key", request: func(ctx context.Context, n int64) error { return do(ctx, n, false) }},
		{name: "replay", request: func(ctx context.Context, n int64) error { return do(ctx, -(n % 100), true) }},
	}
}

func (r *rig) requests(b *testing.B, writers int) []*benchKind {
	answer := func(w http.ResponseWriter, a Answer) error {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.Status)
		_, err := w.Write(a.Body)
		return err
	}
	number := func(r *http.Request) (int64, error) { return strconv.ParseInt(r.Header.Get("Number"), 10, 64) }
	mux := http.NewServeMux()
	mux.HandleFunc("POST /bare", func(w http.ResponseWriter, req *http.Request) {
		n, err := number(req)
		if err == nil {
			_, err = io.Copy(io.Discard, req.Body)
		}
		if err == nil {
			err = r.bare(req.Context(), effectOf(n))
		}
		if err == nil {
			err = answer(w, Answer{Status: 201, Body: []byte(benchBody)})
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.Handle("POST /key", r.handler(HTTPOptions{}, func(w http.ResponseWriter, req *http.Request, tx guard.Handle) error {
		n, err := number(req)
		if err != nil {
			return err
		}
		a, err := effectOf(n)(req.Context(), tx)
		if err != nil {
			return err
		}
		return answer(w, a)
	}))
	srv := httptest.NewServer(mux)
	b.Cleanup(srv.Close)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writers}}
	post := func(ctx context.Context, path string, n int64, replayed string) error {
		req, err := http.NewRequestWithContext(ctx, "POST", srv.URL+path, strings.NewReader(`{"account":1,"amount":10}`))
		if err != nil {
			return err
		}
		req.Header.Set(HeaderName, benchKey(n))
		req.Header.Set("Number", fmt.Sprint(n))
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && (resp.StatusCode != 201 || resp.Header.Get(ReplayedHeader) != replayed) {
			err = fmt.Errorf("request %d: %d %s, replayed %q", n, resp.StatusCode, body, resp.Header.Get(ReplayedHeader))
		}
		return err
	}
	return []*benchKind{
		{name: "bare", request: func(ctx context.Context, n int64) error { return post(ctx, "/bare", n, "") }},
		{name: "key", request: func(ctx context.Context, n int64) error { return post(ctx, "/key", n, "") }},
		{name: "replay", request: func(ctx context.Context, n int64) error { return post(ctx, "/key", -(n % 100), "true") }},
	}
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
		return benchTables(b, newRig(k))
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
	return benchTables(b, newRig(k))
}

func benchTables(b *testing.B, r *rig) *rig {
	prepare(b, r)
	execute(b, r.db, "CREATE TABLE accounts (id integer PRIMARY KEY, n integer NOT NULL)")
	for id := range 1000 {
		execute(b, r.db, fmt.Sprintf("INSERT INTO accounts VALUES (%d, 0)", id))
	}
	return r
}
