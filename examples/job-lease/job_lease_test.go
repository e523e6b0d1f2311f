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

// service is the service before a database of its own.
type service struct {
	db  *pgxpool.Pool
	url string
}

func start(t *testing.T, c *cluster.Cluster, env map[string]string) *service {
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
	for _, f := range []string{"schema.sql", "seed.sql"} {
		sql, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(t.Context(), string(sql)); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
	}
	h, err := newService(db, func(k string) string { return env[k] })
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return &service{db: db, url: srv.URL}
}

// post returns status and body of an answer as one text.
func (s *service) post(ctx context.Context, path, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", s.url+path, strings.NewReader(body))
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

func (s *service) check(t *testing.T, path, body, want string) {
	t.Helper()
	got, err := s.post(t.Context(), path, body)
	if err != nil || got != want {
		t.Errorf("POST %s %s: got %s, %v, want %s", path, body, got, err, want)
	}
}

func (s *service) number(t *testing.T, sql string) (n int64) {
	t.Helper()
	if err := s.db.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// One request after the other, every variant does the same.
func TestVariantsAgree(t *testing.T) {
	c := clustertest.Start(t, cluster.Options{})
	for variant := range leases {
		t.Run("LEASE="+variant, func(t *testing.T) {
			s := start(t, c, map[string]string{"LEASE": variant})
			s.check(t, "/jobs/1/work", `{"worker":"ann"}`, `200 {"position":10,"total":55}`)
			s.check(t, "/jobs/1/work", `{"worker":"bob"}`, `200 {"position":20,"total":210}`)
			s.check(t, "/jobs/1/work", `{"worker":"ann"}`, `200 {"position":30,"total":465}`)
			s.check(t, "/jobs/1/work", `{"worker":"ann"}`, `200 {"position":30,"total":465}`)
			s.check(t, "/jobs/9/work", `{"worker":"ann"}`, `404 {"title":"there is no such job","status":404}`)
			s.check(t, "/jobs/1/work", `{"worker":""}`, `400 {"title":"the request is not understood","status":400}`)
			if _, err := s.db.Exec(t.Context(), "UPDATE jobs SET holder = 'eve', leased_at = clock_timestamp() WHERE id = 2"); err != nil {
				t.Fatal(err)
			}
			s.check(t, "/jobs/2/work", `{"worker":"ann"}`, `423 {"title":"another worker has the lease","status":423}`)
			if _, err := s.db.Exec(t.Context(), "UPDATE jobs SET leased_at = clock_timestamp() - interval '1 hour' WHERE id = 2"); err != nil {
				t.Fatal(err)
			}
			s.check(t, "/jobs/2/work", `{"worker":"ann"}`, `200 {"position":10,"total":55}`)
		})
	}
	for variant := range shifts {
		t.Run("SHIFT="+variant, func(t *testing.T) {
			s := start(t, c, map[string]string{"SHIFT": variant})
			s.check(t, "/shifts", `{"from":2,"to":1,"quota":60}`, `200 {"quota":40}`)
			s.check(t, "/shifts", `{"from":2,"to":1,"quota":41}`, `422 {"title":"the quota is too low","status":422}`)
			s.check(t, "/shifts", `{"from":1,"to":9,"quota":1}`, `404 {"title":"there is no such job","status":404}`)
			s.check(t, "/shifts", `{"from":9,"to":1,"quota":1}`, `404 {"title":"there is no such job","status":404}`)
			s.check(t, "/shifts", `{"from":1,"to":1,"quota":1}`, `400 {"title":"the request is not understood","status":400}`)
			if n := s.number(t, "SELECT 1000 * max(quota) + min(quota) FROM jobs"); n != 160_040 {
				t.Errorf("quotas: %d", n)
			}
		})
	}
}

// Under load and with leases that break at once, the items of every answered
// request are in the job.
func TestFencedUnderLoad(t *testing.T) {
	c := clustertest.Start(t, cluster.Options{})
	s := start(t, c, map[string]string{"LEASE": "fenced", "LEASE_TTL": "0s", "SHIFT": "ordered"})
	var mu sync.Mutex
	var wg sync.WaitGroup
	answers := map[string]int{}
	for i := range 24 {
		wg.Go(func() {
			path, body := "/jobs/1/work", fmt.Sprintf(`{"worker":"w%d"}`, i)
			if i%3 == 0 {
				path, body = "/shifts", fmt.Sprintf(`{"from":%d,"to":%d,"quota":5}`, 1+i%2, 2-i%2)
			}
			got, err := s.post(t.Context(), path, body)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			answers[path+" "+got[:3]]++
			mu.Unlock()
		})
	}
	wg.Wait()
	done := int64(answers["/jobs/1/work 200"])
	if n := s.number(t, "SELECT position FROM jobs WHERE id = 1"); n != min(10*done, 30) || done == 0 {
		t.Errorf("position %d after %v", n, answers)
	}
	if n := s.number(t, "SELECT sum(quota) FROM jobs"); n != 200 || answers["/shifts 200"] != 8 {
		t.Errorf("quota %d after %v", n, answers)
	}
}

// The scenarios find what the README says.
func TestScenarios(t *testing.T) {
	for file, want := range map[string][]oracle.Kind{
		"racy.yaml": {oracle.LostUpdate}, "guarded.yaml": nil,
		"racy-order.yaml": {oracle.Deadlock}, "ordered.yaml": nil,
	} {
		t.Run(file, func(t *testing.T) {
			sc, err := scenario.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			r, err := play.Run(t.Context(), sc, play.Options{})
			if err != nil {
				clustertest.Missing(t, err)
				t.Fatal(err)
			}
			var got []oracle.Kind
			for _, f := range r.Findings {
				got = append(got, f.Kind)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("found %v, want %v", got, want)
			}
			// Where nothing is found, that must mean all orders.
			for _, p := range r.Passes {
				if want == nil && !p.Complete {
					t.Errorf("pass %q is not complete: %s %v", p.Name, p.LeftOut, p.Reasons)
				}
			}
		})
	}
}

func TestUnknownVariant(t *testing.T) {
	for _, env := range []map[string]string{{"LEASE": "eternal"}, {"SHIFT": "fast"}, {"LEASE_TTL": "soon"}} {
		if _, err := newService(nil, func(k string) string { return env[k] }); err == nil {
			t.Errorf("%v is taken", env)
		}
	}
}
