package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster/clustertest"
)

// service is the program before a database of its own.
type service struct {
	db  *pgxpool.Pool
	url string
}

func start(t *testing.T, c *cluster.Cluster, variant string) *service {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "_"))
	if err := c.CreateDatabase(t.Context(), name, ""); err != nil {
		t.Fatal(err)
	}
	db, err := pgxpool.New(t.Context(), c.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	for _, f := range []string{"schema.sql", "seed.sql"} {
		sql, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(t.Context(), string(sql)); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
	}
	h, err := newService(db, variant)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return &service{db: db, url: srv.URL}
}

func (s *service) post(ctx context.Context, path string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", s.url+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, strings.TrimSpace(string(b)), err
}

func (s *service) number(t *testing.T, sql string) (n int) {
	t.Helper()
	if err := s.db.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// One request after the other, both variants do the same.
func TestVariantsAgree(t *testing.T) {
	c := clustertest.Start(t, cluster.Options{})
	for variant := range movers {
		t.Run(variant, func(t *testing.T) {
			s := start(t, c, variant)
			for _, step := range []struct {
				path   string
				status int
				body   string
			}{
				{"/orders/1/ship", 409, `"current":"new"`},
				{"/orders/1/pay", 200, `{"order":1,"status":"paid"}`},
				{"/orders/1/pay", 409, `"current":"paid"`},
				{"/orders/1/cancel", 409, `"current":"paid"`},
				{"/orders/1/ship", 200, `{"order":1,"status":"shipped"}`},
				{"/orders/9/pay", 404, `"status":404`},
				{"/orders/x/pay", 404, `"status":404`},
			} {
				status, body, err := s.post(t.Context(), step.path)
				if err != nil || status != step.status || !strings.Contains(body, step.body) {
					t.Errorf("POST %s: %d %s, %v, want %d %s", step.path, status, body, err, step.status, step.body)
				}
			}
			if payments, stock := s.number(t, "SELECT count(*) FROM payments"), s.number(t, "SELECT n FROM stock"); payments != 1 || stock != 5 {
				t.Errorf("%d payments, %d in stock", payments, stock)
			}
		})
	}
}

// Under load the guarded variant lets one request of each order through: either
// the money is taken or the goods are back, never both and never neither.
func TestGuardedUnderLoad(t *testing.T) {
	s := start(t, clustertest.Start(t, cluster.Options{}), "guarded")
	for range 20 {
		if _, err := s.db.Exec(t.Context(), `TRUNCATE payments, order_history; UPDATE orders SET status = 'new'; UPDATE stock SET n = 5`); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		answers := map[int]int{}
		for i := range 8 {
			wg.Go(func() {
				status, body, err := s.post(t.Context(), []string{"/orders/1/pay", "/orders/1/cancel"}[i%2])
				if err != nil || status != 200 && status != 409 {
					t.Errorf("%d %s, %v", status, body, err)
				}
				mu.Lock()
				answers[status]++
				mu.Unlock()
			})
		}
		wg.Wait()
		payments, stock := s.number(t, "SELECT count(*) FROM payments"), s.number(t, "SELECT n FROM stock")
		history := s.number(t, "SELECT count(*) FROM order_history")
		if answers[200] != 1 || history != 1 || (payments == 1) == (stock == 7) || payments > 1 || stock > 7 {
			t.Fatalf("answers %v, %d payments, %d in stock, %d lines of history", answers, payments, stock, history)
		}
	}
}

func TestUnknownVariant(t *testing.T) {
	if _, err := newService(nil, "fast"); err == nil || !strings.Contains(err.Error(), "STATUS=fast") {
		t.Errorf("got %v", err)
	}
}
