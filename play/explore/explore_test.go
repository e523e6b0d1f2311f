package explore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/play/explore"
)

// brute runs every schedule of the machine and returns the set of outcomes, the
// number of schedules and the set of traces. It gives up (ok = false) on spaces
// larger than limit.
func brute(t *testing.T, m *machine, limit int) (outcomes map[string]bool, traces map[uint64]bool, schedules int, ok bool) {
	t.Helper()
	outcomes, traces = map[string]bool{}, map[uint64]bool{}
	m.ended = func(o string) { outcomes[o] = true }
	ctx := context.Background()
	stack := []explore.Schedule{{}}
	for len(stack) > 0 {
		prefix := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		x, _ := m.Begin(ctx)
		var events []explore.Event
		for depth := 0; ; depth++ {
			var ready []int
			for i, a := range x.Actors() {
				if a.State == explore.Ready {
					ready = append(ready, i)
				}
			}
			if len(ready) == 0 {
				break
			}
			choice := ready[0]
			if depth < len(prefix) {
				choice = prefix[depth]
			} else {
				for _, other := range ready[1:] {
					stack = append(stack, append(scheduleOf(events), other))
				}
			}
			e, err := x.Step(ctx, choice)
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
		if err := x.End(ctx, true); err != nil {
			t.Fatal(err)
		}
		traces[explore.NewTrace(events).Key()] = true
		if schedules++; schedules > limit {
			return nil, nil, 0, false
		}
	}
	return outcomes, traces, schedules, true
}

func scheduleOf(events []explore.Event) explore.Schedule {
	return explore.NewTrace(events).Schedule()
}

func search(t *testing.T, m *machine, opts explore.Options) (map[string]bool, explore.Result) {
	t.Helper()
	outcomes := map[string]bool{}
	m.ended = func(o string) { outcomes[o] = true }
	res, err := explore.Explore(context.Background(), m, opts)
	if err != nil {
		t.Fatal(err)
	}
	return outcomes, res
}

// TestReducedEqualsBruteForce is the engine's self-test: on random programs the
// reduced search must see exactly the outcomes of brute force, run every trace,
// and need hardly more runs than there are traces.
func TestReducedEqualsBruteForce(t *testing.T) {
	programs := 3000
	if testing.Short() {
		programs = 300
	}
	var runs, traces, schedules, compared int
	for seed := range uint64(programs) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := program(rng, 2+rng.IntN(2), 5)
		want, keys, n, ok := brute(t, m, 300)
		if !ok {
			continue
		}
		got, res := search(t, m, explore.Options{})
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %d outcomes, brute force has %d\nprograms %v", seed, len(got), len(want), m.programs)
		}
		if res.Traces != len(keys) {
			t.Fatalf("seed %d: ran %d traces, there are %d\nprograms %v", seed, res.Traces, len(keys), m.programs)
		}
		if !res.Complete || res.Infeasible > 0 {
			t.Fatalf("seed %d: complete=%v infeasible=%d\nprograms %v", seed, res.Complete, res.Infeasible, m.programs)
		}
		compared++
		runs += res.Runs + res.Redundant
		traces += len(keys)
		schedules += n
	}
	if compared < programs/2 {
		t.Fatalf("only %d of %d programs were small enough for brute force", compared, programs)
	}
	redundant := float64(runs-traces) / float64(traces)
	t.Logf("%d programs: %d schedules, %d traces, %d runs: %.2f %% above optimal",
		compared, schedules, traces, runs, 100*redundant)
	if redundant > 0.10 {
		t.Errorf("%.1f %% redundant runs, want at most 10 %%", 100*redundant)
	}
}

// TestWrongFootprintIsCaught: a footprint that leaves out what COMMIT publishes
// must be noticed, by the missing outcomes and by the audit of shuffled traces.
func TestWrongFootprintIsCaught(t *testing.T) {
	lie := func(f explore.Footprint) explore.Footprint {
		f.Accesses = slices.DeleteFunc(slices.Clone(f.Accesses), func(a explore.Access) bool {
			return a.Mode == explore.Publish
		})
		return f
	}
	missed, audited := 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := program(rng, 2, 5)
		want, _, _, ok := brute(t, m, 3000)
		if !ok {
			continue
		}
		m.lie = lie
		outcomes := map[string]bool{}
		var kept []*explore.Trace
		var results []string
		m.ended = func(o string) { outcomes[o] = true; results = append(results, o) }
		_, err := explore.Explore(context.Background(), m, explore.Options{Visit: func(r explore.Run) error {
			kept = append(kept, r.Trace)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(outcomes, want) {
			missed++
			if auditFails(m, rng, kept, results) {
				audited++
			}
		}
	}
	t.Logf("wrong footprints hid outcomes in %d programs; shuffling noticed %d of these", missed, audited)
	if missed == 0 {
		t.Error("the wrong footprint hid nothing: the comparison with brute force can not fail")
	}
	if audited < missed/2 {
		t.Errorf("the audit noticed only %d of %d", audited, missed)
	}
}

// auditFails replays random schedules of the same traces and reports whether
// one ended differently.
func auditFails(m *machine, rng *rand.Rand, traces []*explore.Trace, results []string) bool {
	for i, tr := range traces {
		for range 5 {
			outcome := ""
			m.ended = func(o string) { outcome = o }
			_, err := explore.Replay(context.Background(), m, tr.Shuffled(rng), nil)
			if err != nil || outcome != results[i] {
				return true
			}
		}
	}
	return false
}

// TestBoundedEqualsBruteForce: with a bound as large as the programs, the
// bounded search sees everything; with bound 0 only runs without preemption.
func TestBoundedEqualsBruteForce(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		m := program(rng, 2, 5)
		want, keys, _, ok := brute(t, m, 2000)
		if !ok {
			continue
		}
		got, res := search(t, m, explore.Options{Bounded: true, Preemptions: 20})
		if !reflect.DeepEqual(got, want) || res.Traces != len(keys) || !res.Complete {
			t.Fatalf("seed %d: %d outcomes and %d traces, want %d and %d\nprograms %v",
				seed, len(got), res.Traces, len(want), len(keys), m.programs)
		}
		for bound := range 3 {
			got, _ := search(t, m, explore.Options{Bounded: true, Preemptions: bound})
			if want := bruteBounded(t, m, bound); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: bound %d gives %v, want %v\nprograms %v", seed, bound, got, want, m.programs)
			}
		}
	}
}

// bruteBounded is the set of outcomes of all schedules with at most so many
// preemptions.
func bruteBounded(t *testing.T, m *machine, bound int) map[string]bool {
	t.Helper()
	outcomes := map[string]bool{}
	var walk func(s explore.Schedule, left int)
	walk = func(s explore.Schedule, left int) {
		outcome := ""
		m.ended = func(o string) { outcome = o }
		actors, err := explore.Replay(context.Background(), m, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		moved := false
		for a, st := range actors {
			if st.State != explore.Ready {
				continue
			}
			moved = true
			cost := 0
			if len(s) > 0 && s[len(s)-1] != a && actors[s[len(s)-1]].State == explore.Ready {
				cost = 1
			}
			if cost <= left {
				walk(append(slices.Clone(s), a), left-cost)
			}
		}
		if !moved {
			outcomes[outcome] = true
		}
	}
	walk(nil, bound)
	return outcomes
}

// TestSimplestHasFewestSwitches compares with all schedules of the same trace.
func TestSimplestHasFewestSwitches(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := program(rng, 2, 5)
		fewest := map[uint64]int{}
		var traces []*explore.Trace
		all := explore.Options{Bounded: true, Preemptions: 20, Visit: func(r explore.Run) error {
			traces = append(traces, r.Trace)
			return nil
		}}
		if _, err := explore.Explore(context.Background(), m, all); err != nil {
			t.Fatal(err)
		}
		for _, tr := range traces {
			for range 200 {
				s := tr.Shuffled(rng)
				if n, ok := fewest[tr.Key()]; !ok || s.Switches() < n {
					fewest[tr.Key()] = s.Switches()
				}
			}
			s := tr.Simplest()
			if s.Switches() > fewest[tr.Key()] {
				t.Fatalf("seed %d: %v has %d switches, another schedule of the trace has %d",
					seed, s, s.Switches(), fewest[tr.Key()])
			}
			var events []explore.Event
			if _, err := explore.Replay(context.Background(), m, s, &events); err != nil {
				t.Fatalf("seed %d: %v can not be replayed: %v", seed, s, err)
			}
			if explore.NewTrace(events).Key() != tr.Key() {
				t.Fatalf("seed %d: %v is not a schedule of the same trace", seed, s)
			}
		}
	}
}

// TestSearchIsDeterministic: the same search visits the same schedules in the
// same order.
func TestSearchIsDeterministic(t *testing.T) {
	m := program(rand.New(rand.NewPCG(7, 1)), 3, 5)
	for _, opts := range []explore.Options{{}, {Bounded: true, Preemptions: 2}, {Random: 50, Seed: 9}} {
		var first []string
		for range 5 {
			var visited []string
			opts.Visit = func(r explore.Run) error {
				visited = append(visited, r.Trace.Schedule().String())
				return nil
			}
			if _, err := explore.Explore(context.Background(), m, opts); err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = visited
			}
			if !slices.Equal(first, visited) {
				t.Fatalf("%+v: visited differs between repeats", opts)
			}
		}
	}
}

// lostUpdate is the classic: two actors read, then write what they computed.
func lostUpdate() *machine {
	p := []op{{kind: opRead}, {kind: opLocal}, {kind: opWrite, k: 1}}
	return &machine{programs: [][]op{p, p}}
}

func TestRandomFindsTheLostUpdate(t *testing.T) {
	got, res := search(t, lostUpdate(), explore.Options{Random: 100, Seed: 1})
	if res.Runs != 100 || len(got) < 3 {
		t.Errorf("%d runs, outcomes %v: want 100 runs, both serial outcomes and the lost update", res.Runs, got)
	}
}

func TestBudgets(t *testing.T) {
	m := program(rand.New(rand.NewPCG(11, 1)), 3, 6)
	_, all := search(t, m, explore.Options{})
	if all.Runs < 4 {
		t.Fatalf("the program has only %d traces: choose another seed", all.Runs)
	}
	_, res := search(t, m, explore.Options{MaxRuns: 3})
	if res.Runs+res.Redundant != 3 || res.Complete || res.Stopped != "runs" {
		t.Errorf("MaxRuns 3: %+v", res)
	}
	_, res = search(t, m, explore.Options{Visit: func(explore.Run) error { return explore.ErrStop }})
	if res.Runs != 1 || res.Complete || res.Stopped != "visitor" {
		t.Errorf("ErrStop: %+v", res)
	}
	boom := errors.New("boom")
	_, err := explore.Explore(context.Background(), m, explore.Options{Visit: func(explore.Run) error { return boom }})
	if !errors.Is(err, boom) {
		t.Errorf("the visitor's error is lost: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := explore.Explore(ctx, m, explore.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled context: %v", err)
	}
}

// TestInconclusiveRuns: a step that fails once is tried again; one that always
// fails costs its own branch only, and is counted.
func TestInconclusiveRuns(t *testing.T) {
	m := lostUpdate()
	failed := false
	m.fail = func(actor, pc int) bool {
		if actor == 1 && pc == 2 && !failed {
			failed = true
			return true
		}
		return false
	}
	got, res := search(t, m, explore.Options{})
	if len(got) != 3 || res.Retried != 1 || res.Inconclusive != 0 || !res.Complete {
		t.Errorf("one failure: outcomes %v, %+v", got, res)
	}

	// An actor whose last step never works: no run can finish, the search ends.
	m.fail = func(actor, pc int) bool { return actor == 1 && pc == 2 }
	for _, opts := range []explore.Options{{}, {Bounded: true, Preemptions: 3}, {Random: 5}} {
		got, res = search(t, m, opts)
		if len(got) != 0 || res.Inconclusive == 0 || res.Complete || res.Reasons["test"] == 0 {
			t.Errorf("%+v: outcomes %v, %+v", opts, got, res)
		}
	}

	// A step that fails only while the other actor has not moved: the rest of
	// the space is still searched.
	m = lostUpdate()
	moved := 0
	m.fail = func(actor, pc int) bool {
		if actor == 0 {
			moved = pc
			return false
		}
		return moved == 0 && pc == 0
	}
	got, res = search(t, m, explore.Options{})
	if len(got) < 2 || res.Runs < 2 {
		t.Errorf("partly failing: outcomes %v, %+v", got, res)
	}
}

// TestIndependentActorsNeedOneRun and the temp-file example of two processes
// that only meet at the last step: the reduction is as good as it can be.
func TestIndependentActorsNeedOneRun(t *testing.T) {
	a := []op{{kind: opRead, cell: 0}, {kind: opUpdate, cell: 0}, {kind: opUpdate, cell: 0}}
	b := []op{{kind: opRead, cell: 1}, {kind: opUpdate, cell: 1}, {kind: opUpdate, cell: 1}}
	_, res := search(t, &machine{programs: [][]op{a, b}}, explore.Options{})
	if res.Runs != 1 || res.Redundant != 0 {
		t.Errorf("independent actors took %d runs and %d redundant ones, want 1 and 0", res.Runs, res.Redundant)
	}
}
