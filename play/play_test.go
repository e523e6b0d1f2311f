package play_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/play"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster/clustertest"
	"github.com/holdfast-dev/holdfast/play/oracle"
	"github.com/holdfast-dev/holdfast/play/report"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

// counters is a scenario for the counter application: two requests to a route.
func counters(t *testing.T, variant, extra string) *scenario.Scenario {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`
application:
  command: [%q]
  env: {%s: %s, DATABASE_URL: "${postgres.url}", PORT: "${port}"}
  ready: GET /health
postgres:
  schema: |
    CREATE TABLE counters (id text PRIMARY KEY, n integer NOT NULL, token text);
    CREATE TABLE heartbeat (at timestamptz);
  seed: INSERT INTO counters VALUES ('a', 0), ('b', 0), ('a0', 0), ('a1', 0)
requests:
  - {request: POST /%s/a, times: 2}
%s`, exe, testApp, variant, variant, extra)
	sc, err := scenario.Parse(filepath.Join(t.TempDir(), variant+".yaml"), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

func run(t *testing.T, sc *scenario.Scenario, o play.Options) *report.Report {
	t.Helper()
	r, err := play.Run(t.Context(), sc, o)
	if err != nil {
		clustertest.Missing(t, err)
		t.Fatal(err)
	}
	return r
}

func kinds(r *report.Report) string {
	var k []string
	for _, f := range r.Findings {
		k = append(k, string(f.Kind))
	}
	return strings.Join(k, ", ")
}

func text(t *testing.T, r *report.Report) string {
	t.Helper()
	var b strings.Builder
	if err := report.Text(&b, r, report.TextOptions{Width: 120}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestCounters plays the traps: what must be found is found, what is right is
// not reported, and what can not be told is counted as inconclusive.
func TestCounters(t *testing.T) {
	for _, c := range []struct {
		variant, extra string
		want           string // kinds of findings
		complete       bool
		check          func(*testing.T, *report.Report)
	}{
		{variant: "racy", want: "lost update", complete: true},
		// One process: the mutex protects. The request that waits for it shows
		// as an application that is asleep.
		{variant: "mutex", complete: true},
		// Two instances: it does not.
		{variant: "mutex", extra: "", want: "lost update", complete: true},
		{variant: "pool-of-one", complete: true},
		{variant: "background", want: "lost update", complete: true, check: func(t *testing.T, r *report.Report) {
			if len(r.Background) != 1 || !strings.Contains(r.Background[0], "heartbeat") {
				t.Errorf("background statements: %q, want the heartbeat", r.Background)
			}
		}},
		{variant: "retry", complete: true},
		{variant: "serializable", complete: true},
		// The process ends in the middle of a request, and only under concurrency.
		{variant: "crash", want: "server error only under concurrency, server error only under concurrency", complete: true},
		{variant: "made-up", want: "lost update", complete: true},
		{variant: "late", want: "lost update", complete: true},
		{variant: "two-at-once", want: "lost update", complete: true},
	} {
		name := c.variant
		instances := 1
		if c.variant == "mutex" && c.want != "" {
			name, instances = "mutex with two instances", 2
		}
		t.Run(name, func(t *testing.T) {
			sc := counters(t, c.variant, c.extra)
			sc.Application.Instances = instances
			r := run(t, sc, play.Options{})
			if got := kinds(r); got != c.want {
				t.Errorf("findings: %q, want %q", got, c.want)
			}
			for _, p := range r.Passes {
				if p.Complete != c.complete {
					t.Errorf("pass %q: complete=%v, want %v (%s %v)", p.Name, p.Complete, c.complete, p.LeftOut, p.Reasons)
				}
			}
			if c.check != nil {
				c.check(t, r)
			}
			if t.Failed() {
				t.Log(text(t, r))
			}
		})
	}
}

// TestUnstableIsRefused: an application that answers from its memory can not be
// compared with serial orders, and the error says what to do.
func TestUnstableIsRefused(t *testing.T) {
	_, err := play.Run(t.Context(), counters(t, "remembers", "budgets: {schedules: 20}"), play.Options{})
	if err == nil {
		return // the counter was taken for noise: it differs in equal serial runs
	}
	clustertest.Missing(t, err)
	if !strings.Contains(err.Error(), "restart: always") && !strings.Contains(err.Error(), "noise") {
		t.Errorf("the error does not say what to do: %v", err)
	}
}

// TestSaveAndReplay: a finding is saved, and its replay gives the same.
func TestSaveAndReplay(t *testing.T) {
	sc := counters(t, "racy", "")
	dir := t.TempDir()
	r := run(t, sc, play.Options{SaveDir: dir})
	if len(r.Findings) != 1 || r.Findings[0].File == "" {
		t.Fatalf("findings %q in %v, want one that is saved", kinds(r), r.Findings)
	}
	saved, err := report.ReadSaved(r.Findings[0].File)
	if err != nil {
		t.Fatal(err)
	}
	again, err := play.Replay(t.Context(), sc, saved, 20, play.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Findings) != 1 || again.Findings[0].Kind != oracle.LostUpdate || again.Findings[0].Confirmed != 20 {
		t.Errorf("replay: %s", text(t, again))
	}
}

// TestSearchesAgree: the bounded and the random search find the race as well,
// and say what they left out.
func TestSearchesAgree(t *testing.T) {
	for _, o := range []play.Options{{Bounded: true, Preemptions: 1}, {Random: 40, Seed: 3}} {
		r := run(t, counters(t, "racy", ""), o)
		if kinds(r) != "lost update" {
			t.Errorf("%+v: findings %q", o, kinds(r))
		}
		if p := r.Passes[0]; p.LeftOut == "" || p.Search == "exhaustive" {
			t.Errorf("%+v: the report does not tell what was left out: %+v", o, p)
		}
	}
}
