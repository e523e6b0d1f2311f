package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster/clustertest"
)

// wallet is the service before a database of its own.
type wallet struct {
	db  *pgxpool.Pool
	url string
}

func start(t *testing.T, c *cluster.Cluster, env map[string]string, files ...string) *wallet {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "_", "-", "_", "=", "_").Replace(t.Name()))
	if err := c.CreateDatabase(t.Context(), name, ""); err != nil {
		t.Fatal(err)
	}
	db, err := pgxpool.New(t.Context(), c.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	for _, f := range append([]string{"schema.sql", "seed.sql"}, files...) {
		sql, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(t.Context(), string(sql)); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
	}
	h, err := newWallet(db, func(k string) string { return env[k] })
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return &wallet{db: db, url: srv.URL}
}

// post returns status and body of an answer as one text.
func (w *wallet) post(ctx context.Context, path, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", w.url+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(b))), err
}

func (w *wallet) check(t *testing.T, path, body, want string) {
	t.Helper()
	got, err := w.post(t.Context(), path, body)
	if err != nil || got != want {
		t.Errorf("POST %s %s: got %s, %v, want %s", path, body, got, err, want)
	}
}

// balance reads one number.
func (w *wallet) number(t *testing.T, sql string) (n int64) {
	t.Helper()
	if err := w.db.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// One request after the other, every variant does the same.
func TestVariantsAgree(t *testing.T) {
	c := clustertest.Start(t, cluster.Options{})
	for variant := range withdrawals {
		t.Run("WITHDRAW="+variant, func(t *testing.T) {
			w := start(t, c, map[string]string{"WITHDRAW": variant})
			w.check(t, "/accounts/1/withdraw", `{"amount":30}`, `200 {"balance":70}`)
			w.check(t, "/accounts/1/withdraw", `{"amount":71}`, `422 {"title":"the balance is too low","status":422}`)
			w.check(t, "/accounts/1/withdraw", `{"amount":70}`, `200 {"balance":0}`)
			w.check(t, "/accounts/9/withdraw", `{"amount":1}`, `404 {"title":"there is no such account","status":404}`)
			w.check(t, "/accounts/2/withdraw", `{"amount":-1}`, `400 {"title":"the request is not understood","status":400}`)
			w.check(t, "/accounts/2/withdraw", `{"sum":1}`, `400 {"title":"the request is not understood","status":400}`)
			if n := w.number(t, "SELECT 1000 * max(balance) + min(balance) FROM accounts"); n != 100_000 {
				t.Errorf("balances: %d", n)
			}
		})
	}
	for variant := range redemptions {
		t.Run("REDEEM="+variant, func(t *testing.T) {
			var files []string
			again := `409 {"title":"the coupon has been redeemed already","status":409}`
			if variant == "unique" {
				files = []string{"unique.sql"}
				again = `409 {"title":"the coupon has been redeemed already","status":409,"sqlstate":"23505"}`
			}
			w := start(t, c, map[string]string{"REDEEM": variant}, files...)
			w.check(t, "/coupons/X/redemptions", `{"account":1}`, `201 {"id":1}`)
			w.check(t, "/coupons/X/redemptions", `{"account":1}`, again)
			w.check(t, "/coupons/X/redemptions", `{"account":9}`, `404 {"title":"there is no such account","status":404,"sqlstate":"23503"}`)
			if n := w.number(t, "SELECT count(*) FROM redemptions"); n != 1 {
				t.Errorf("%d redemptions", n)
			}
		})
	}
	for variant := range transfers {
		t.Run("TRANSFER="+variant, func(t *testing.T) {
			w := start(t, c, map[string]string{"TRANSFER": variant})
			w.check(t, "/transfers", `{"from":2,"to":1,"amount":60}`, `200 {"balance":40}`)
			w.check(t, "/transfers", `{"from":2,"to":1,"amount":41}`, `422 {"title":"the balance is too low","status":422}`)
			w.check(t, "/transfers", `{"from":1,"to":9,"amount":1}`, `404 {"title":"there is no such account","status":404}`)
			w.check(t, "/transfers", `{"from":1,"to":1,"amount":1}`, `400 {"title":"the request is not understood","status":400}`)
			if n := w.number(t, "SELECT 1000 * max(balance) + min(balance) FROM accounts"); n != 160_040 {
				t.Errorf("balances: %d", n)
			}
		})
	}
}

// Under load, the variants that are meant to be right lose nothing.
func TestRightVariantsUnderLoad(t *testing.T) {
	c := clustertest.Start(t, cluster.Options{})
	together := func(t *testing.T, n int, request func(i int) (string, error)) map[string]int {
		var mu sync.Mutex
		var wg sync.WaitGroup
		answers := map[string]int{}
		for i := range n {
			wg.Go(func() {
				got, err := request(i)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				answers[got[:3]]++
				mu.Unlock()
			})
		}
		wg.Wait()
		return answers
	}
	for _, variant := range []string{"atomic", "for-update"} {
		t.Run("WITHDRAW="+variant, func(t *testing.T) {
			w := start(t, c, map[string]string{"WITHDRAW": variant})
			got := together(t, 15, func(int) (string, error) { return w.post(t.Context(), "/accounts/1/withdraw", `{"amount":10}`) })
			if n := w.number(t, "SELECT balance FROM accounts WHERE id = 1"); n != 0 || got["200"] != 10 || got["422"] != 5 {
				t.Errorf("balance %d after %v", n, got)
			}
		})
	}
	t.Run("REDEEM=unique", func(t *testing.T) {
		w := start(t, c, nil, "unique.sql")
		got := together(t, 8, func(int) (string, error) { return w.post(t.Context(), "/coupons/X/redemptions", `{"account":1}`) })
		if n := w.number(t, "SELECT count(*) FROM redemptions"); n != 1 || got["201"] != 1 || got["409"] != 7 {
			t.Errorf("%d redemptions after %v", n, got)
		}
	})
	t.Run("TRANSFER=ordered", func(t *testing.T) {
		w := start(t, c, nil)
		got := together(t, 20, func(i int) (string, error) {
			return w.post(t.Context(), "/transfers", fmt.Sprintf(`{"from":%d,"to":%d,"amount":5}`, 1+i%2, 2-i%2))
		})
		if n := w.number(t, "SELECT sum(balance) FROM accounts"); n != 200 || got["200"] != 20 {
			t.Errorf("sum %d after %v", n, got)
		}
	})
}

// A deadlock is answered with 500 and its SQLSTATE. The test holds account 1, and
// asks for account 2 as soon as the request, which holds that, waits.
func TestDeadlockAnswer(t *testing.T) {
	// The request is the one that looks for a deadlock first: the cluster's
	// deadlock_timeout is the lowest, and the test's own is raised.
	c := clustertest.Start(t, cluster.Options{Settings: map[string]string{"deadlock_timeout": "300ms"}})
	w := start(t, c, map[string]string{"TRANSFER": "as-requested"})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tx, err := w.db.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(ctx, "SET LOCAL deadlock_timeout = '1h'"); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	answer := make(chan string, 1)
	go func() {
		got, err := w.post(ctx, "/transfers", `{"from":2,"to":1,"amount":10}`)
		if err != nil {
			got = err.Error()
		}
		answer <- got
	}()
	for w.number(t, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 0 {
		if ctx.Err() != nil {
			t.Fatal("the request does not wait")
		}
	}
	if _, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance WHERE id = 2"); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got != `500 {"title":"Internal Server Error","status":500,"sqlstate":"40P01"}` {
		t.Errorf("got %s", got)
	}
}

func TestUnknownVariant(t *testing.T) {
	_, err := newWallet(nil, func(k string) string { return map[string]string{"TRANSFER": "fast"}[k] })
	if err == nil || err.Error() != "TRANSFER=fast is not known: use one of as-requested, ordered" {
		t.Errorf("got %v", err)
	}
}
