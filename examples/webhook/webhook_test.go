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

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/play"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster/clustertest"
	"github.com/holdfast-dev/holdfast/play/oracle"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

type service struct {
	db  *pgxpool.Pool
	url string
}

func start(t *testing.T, c *cluster.Cluster, variant string) *service {
	t.Helper()
	name := strings.ReplaceAll(strings.ToLower(variant), "-", "_")
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
	h, err := newService(t.Context(), db, variant)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return &service{db: db, url: srv.URL}
}

// post returns status and body of an answer as one text.
func (s *service) post(ctx context.Context, path, body string, header ...string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", s.url+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(b))), err
}

func (s *service) number(t *testing.T, sql string) (n int64) {
	t.Helper()
	if err := s.db.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// One request after the other, both variants do the same.
func TestVariantsAgree(t *testing.T) {
	c := clustertest.Start(t, cluster.Options{})
	for _, variant := range []string{"check-first", "guarded"} {
		t.Run(variant, func(t *testing.T) {
			s := start(t, c, variant)
			for _, r := range []struct{ path, body, header, name, want string }{
				{"/webhooks/payments", `{"account":1,"amount":10}`, "Webhook-Id", "evt_1", `201 {"payment":1}`},
				{"/webhooks/payments", `{"account":1,"amount":10}`, "Webhook-Id", "evt_1", `201 {"payment":1}`},
				{"/payments", `{"account":2,"amount":5}`, "Idempotency-Key", "evt_1", `201 {"payment":2}`},
				{"/payments", `{"account":2,"amount":5}`, "Idempotency-Key", "evt_1", `201 {"payment":2}`},
				{"/payments", `{"account":9,"amount":5}`, "Idempotency-Key", "k2", `404 {"status":404,"title":"there is no such account"}`},
				{"/payments", `{"account":1,"amount":-5}`, "Idempotency-Key", "k3", `400 {"status":400,"title":"the request is not understood"}`},
				{"/payments", `{"account":1,"amount":5}`, "", "", "400 "},
				{"/jobs/7/run", "", "", "", "20"},
				{"/jobs/7/run", "", "", "", "20"},
				{"/jobs/8/run", "", "", "", `404 {"status":404,"title":"there is no such job"}`},
			} {
				var header []string
				if r.header != "" {
					header = []string{r.header, r.name}
				}
				got, err := s.post(t.Context(), r.path, r.body, header...)
				if err != nil || !strings.HasPrefix(got, r.want) {
					t.Errorf("POST %s %s: got %s, %v, want %s", r.path, r.body, got, err, r.want)
				}
			}
			if n := s.number(t, "SELECT 1000 * (SELECT count(*) FROM payments) + (SELECT sum(balance) FROM accounts)"); n != 3240 {
				t.Errorf("payments and balances: %d", n)
			}
		})
	}
	if _, err := newService(t.Context(), nil, "fast"); err == nil || err.Error() != "VARIANT=fast is not known: use check-first or guarded" {
		t.Errorf("got %v", err)
	}
}

// Copies at once: the guarded variant books one payment for each key.
func TestGuardedUnderLoad(t *testing.T) {
	c := clustertest.Start(t, cluster.Options{})
	s := start(t, c, "guarded")
	var mu sync.Mutex
	var wg sync.WaitGroup
	answers := map[string]int{}
	for i := range 60 {
		wg.Go(func() {
			got, err := s.post(t.Context(), "/webhooks/payments", `{"account":1,"amount":1}`, "Webhook-Id", fmt.Sprint("evt_", i%5))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[got[:3]]++
		})
	}
	wg.Wait()
	if n := s.number(t, "SELECT 1000 * (SELECT count(*) FROM payments) + (SELECT sum(balance) FROM accounts)"); n != 5205 {
		t.Errorf("payments and balances: %d after %v", n, answers)
	}
	if answers["201"] < 5 || answers["201"]+answers["409"] != 60 {
		t.Errorf("answers %v", answers)
	}
}

// TestScenarios plays the scenarios: the racy ones pay twice in some schedule,
// the guarded ones in none of all distinct ones.
func TestScenarios(t *testing.T) {
	for _, name := range []string{"", "double-submit-", "job-retried-"} {
		for _, variant := range []string{"racy", "guarded"} {
			t.Run(name+variant, func(t *testing.T) {
				t.Parallel() // each has an application and a server of its own
				sc, err := scenario.Load(name + variant + ".yaml")
				if err != nil {
					t.Fatal(err)
				}
				r, err := play.Run(t.Context(), sc, play.Options{})
				if err != nil {
					clustertest.Missing(t, err)
					t.Fatal(err)
				}
				if variant == "racy" {
					if len(r.Findings) == 0 || r.Findings[0].Kind != oracle.DuplicateEffect {
						t.Errorf("findings %+v, want a duplicate effect", r.Findings)
					}
					return
				}
				if len(r.Findings) != 0 {
					t.Errorf("findings %+v", r.Findings)
				}
				for _, p := range r.Passes {
					if !p.Complete {
						t.Errorf("pass %q is not complete: %s %v", p.Name, p.LeftOut, p.Reasons)
					}
				}
			})
		}
	}
}
