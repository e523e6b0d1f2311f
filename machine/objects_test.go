//go:build unix

package machine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/conflict"
	"github.com/holdfast-dev/holdfast/internal/worktest"
	"github.com/holdfast-dev/holdfast/machine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/mem"
)

// Sixteen callers pay or cancel the same order, many orders. Of each order one
// transition happens, with its effect, and the others learn where it is.
func TestOneTransitionWins(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			o := objects(t, open(t, address(t, kind)), machine.ObjectOptions{})
			ctx := patience(t)
			for i := range 12 {
				id := fmt.Sprint(i)
				if _, err := o.Create(ctx, id, "", json.RawMessage(`0`)); err != nil {
					t.Fatal(err)
				}
				var paid, cancelled atomic.Int64
				together(16, func(i int) {
					to, won := machine.State("paid"), &paid
					if i%2 == 1 {
						to, won = "cancelled", &cancelled
					}
					_, err := o.Transition(ctx, id, "new", to, machine.Step{By: fmt.Sprint(i), Effect: increment})
					var lost *machine.LostError
					switch {
					case err == nil:
						won.Add(1)
					case !errors.As(err, &lost) || lost.Current == "new" || lost.Version == "":
						t.Error(err)
					}
				})
				got, err := o.Get(ctx, id)
				if err != nil || paid.Load()+cancelled.Load() != 1 || string(got.Data) != "1" || len(got.History) != 1 || got.Seq != 1 ||
					(got.State == "paid") != (paid.Load() == 1) {
					t.Errorf("paid %d times, cancelled %d times: %+v, %v", paid.Load(), cancelled.Load(), got, err)
				}
			}
		})
	}
}

// increment is an effect on a number.
func increment(data json.RawMessage) (json.RawMessage, error) {
	var n int
	if err := json.Unmarshal(data, &n); err != nil {
		return nil, err
	}
	return json.Marshal(n + 1)
}

// The object changes all the time, but stays in the state: a transition from it
// is not lost, it is tried again. Effects of all are there in the end.
func TestRoundTripsAreNotLost(t *testing.T) {
	o := objects(t, open(t, "mem:"), machine.ObjectOptions{History: 5})
	ctx := patience(t)
	if _, err := o.Create(ctx, "1", "", json.RawMessage(`0`)); err != nil {
		t.Fatal(err)
	}
	var moved atomic.Int64
	together(8, func(int) {
		for range 20 {
			for _, step := range [][2]machine.State{{"new", "paid"}, {"paid", "new"}} {
				_, err := o.Transition(ctx, "1", step[0], step[1], machine.Step{Effect: increment})
				var lost *machine.LostError
				switch {
				case err == nil:
					moved.Add(1)
				case !errors.As(err, &lost):
					t.Error(err)
				}
			}
		}
	})
	got, err := o.Get(ctx, "1")
	if err != nil || string(got.Data) != fmt.Sprint(moved.Load()) || got.Seq != moved.Load() {
		t.Errorf("%d transitions: %+v, %v", moved.Load(), got, err)
	}
	if len(got.History) != 5 || got.History[4].Seq != got.Seq || got.History[0].Seq != got.Seq-4 {
		t.Errorf("history: %+v", got.History)
	}
	for i, e := range got.History[1:] {
		if e.From != got.History[i].To || e.Seq != got.History[i].Seq+1 {
			t.Errorf("history does not follow: %+v", got.History)
		}
	}
}

// Processes compete for orders; one of them is killed. Each order was paid by
// exactly one process, which is the one in the history; the killed one may have
// won one more than it could tell.
func TestAcrossProcesses(t *testing.T) {
	for _, kind := range shared {
		t.Run(kind, func(t *testing.T) {
			url := address(t, kind)
			o := objects(t, open(t, url), machine.ObjectOptions{})
			ctx := patience(t)
			for i := range competed {
				if _, err := o.Create(ctx, fmt.Sprint(i), "", nil); err != nil {
					t.Fatal(err)
				}
			}
			var workers []*worktest.Worker
			for i := range 4 {
				workers = append(workers, worktest.Start(t, "compete", url, fmt.Sprint(i)))
			}
			for _, w := range workers {
				w.Expect("ready")
			}
			for _, w := range workers {
				w.Tell("go")
			}
			winner := map[string]string{}
			note := func(by int, lines ...string) {
				for _, line := range lines {
					id := strings.TrimPrefix(line, "won ")
					if other, twice := winner[id]; twice {
						t.Errorf("order %s was won by %s and %d", id, other, by)
					}
					winner[id] = fmt.Sprint(by)
				}
			}
			if line, ok := workers[0].Next(); ok {
				note(0, line)
			}
			workers[0].Kill()
			note(0, workers[0].Rest()...)
			for i, w := range workers[1:] {
				note(i+1, w.End()...)
			}
			untold := 0
			for i := range competed {
				got, err := o.Get(ctx, fmt.Sprint(i))
				if err != nil || got.State != "paid" || len(got.History) != 1 {
					t.Errorf("order %d: %+v, %v", i, got, err)
					continue
				}
				switch by := winner[got.ID]; {
				case by == "" && got.History[0].By == "0":
					untold++
				case by != got.History[0].By:
					t.Errorf("order %s was won by %q, its history says %+v", got.ID, by, got.History)
				}
			}
			if untold > 1 {
				t.Errorf("%d orders were won by the killed process without a word", untold)
			}
		})
	}
}

func TestObjects(t *testing.T) {
	s := open(t, "mem:")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := objects(t, s, machine.ObjectOptions{Now: func() time.Time { return now }})
	ctx := t.Context()
	if _, err := o.Get(ctx, "1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get before: %v", err)
	}
	if _, err := o.Transition(ctx, "1", "new", "paid", machine.Step{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("move before: %v", err)
	}
	first, err := o.Create(ctx, "1", "", json.RawMessage(`{"total": 5}`))
	if err != nil || first.State != "new" {
		t.Fatal(first, err)
	}
	if _, err := o.Create(ctx, "1", "new", nil); !errors.Is(err, store.ErrConflict) {
		t.Errorf("create twice: %v", err)
	}
	var illegal *machine.IllegalError
	if _, err := o.Create(ctx, "2", "paid", nil); !errors.As(err, &illegal) {
		t.Errorf("create as paid: %v", err)
	}
	paid, err := o.Transition(ctx, "1", "new", "paid", machine.Step{By: "ann", Note: "card"})
	want := machine.Entry{Seq: 1, From: "new", To: "paid", At: now, By: "ann", Note: "card"}
	if err != nil || paid.State != "paid" || string(paid.Data) != `{"total":5}` && string(paid.Data) != `{"total": 5}` || paid.History[0] != want {
		t.Errorf("%+v, %v", paid, err)
	}
	again, err := o.Get(ctx, "1")
	if err != nil || fmt.Sprint(again.History) != fmt.Sprint(paid.History) || again.Version != paid.Version {
		t.Errorf("read back: %+v, %v, want %+v", again, err, paid)
	}
	// An effect that fails leaves everything as it was.
	mine := errors.New("mine")
	if _, err := o.Transition(ctx, "1", "paid", "in transit", machine.Step{Effect: func(json.RawMessage) (json.RawMessage, error) { return nil, mine }}); !errors.Is(err, mine) {
		t.Errorf("a failing effect: %v", err)
	}
	// A round trip is overlooked by the state and seen by the version.
	for _, step := range [][2]machine.State{{"paid", "new"}, {"new", "paid"}} {
		if _, err := o.Transition(ctx, "1", step[0], step[1], machine.Step{}); err != nil {
			t.Fatal(err)
		}
	}
	var lost *machine.LostError
	_, err = o.Transition(ctx, "1", "paid", "in transit", machine.Step{Version: paid.Version})
	if !errors.As(err, &lost) || lost.Current != "paid" {
		t.Errorf("a version that is out of date: %v", err)
	}
	if _, err := o.Transition(ctx, "1", "paid", "in transit", machine.Step{Version: lost.Version}); err != nil {
		t.Errorf("the version of the refusal: %v", err)
	}
}

// Each pair of states: exactly what the table allows works, from exactly where
// it starts.
func TestOnlyTheTable(t *testing.T) {
	s := open(t, "mem:")
	o := objects(t, s, machine.ObjectOptions{})
	m := order(t)
	path := map[machine.State][]machine.State{"new": nil, "paid": {"paid"}, "cancelled": {"cancelled"}, "in transit": {"paid", "in transit"}, "delivered": {"paid", "in transit", "delivered"}}
	n := 0
	for _, at := range m.States() {
		for _, p := range pairs(m) {
			n++
			id := fmt.Sprint(n)
			here := machine.State("new")
			if _, err := o.Create(t.Context(), id, "", nil); err != nil {
				t.Fatal(err)
			}
			for _, next := range path[at] {
				if _, err := o.Transition(t.Context(), id, here, next, machine.Step{}); err != nil {
					t.Fatal(err)
				}
				here = next
			}
			_, err := o.Transition(t.Context(), id, p[0], p[1], machine.Step{})
			var lost *machine.LostError
			var illegal *machine.IllegalError
			switch {
			case !m.Allows(p[0], p[1]):
				if !errors.As(err, &illegal) {
					t.Errorf("at %s, %s → %s: %v", at, p[0], p[1], err)
				}
			case at != p[0]:
				if !errors.As(err, &lost) || lost.Current != at {
					t.Errorf("at %s, %s → %s: %v", at, p[0], p[1], err)
				}
			case err != nil:
				t.Errorf("at %s, %s → %s: %v", at, p[0], p[1], err)
			}
		}
	}
}

func TestForeignObjects(t *testing.T) {
	s := open(t, "mem:")
	o := objects(t, s, machine.ObjectOptions{})
	for _, value := range []string{"no JSON", `{"state":"lost"}`} {
		if _, err := s.Put(t.Context(), "orders/x", []byte(value), store.None()); err != nil {
			t.Fatal(err)
		}
		var corrupt *store.CorruptError
		if _, err := o.Get(t.Context(), "x"); !errors.As(err, &corrupt) {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestErrorsForClients(t *testing.T) {
	s, found := conflict.Find(&machine.LostError{Machine: "order", ID: "1", From: "new", To: "paid", Current: "cancelled", Version: "v1"})
	if !found || s.Status != 409 || s.Retryable || s.ETag != `"v1"` || s.Members["current"] != machine.State("cancelled") {
		t.Errorf("%+v", s)
	}
	if s, found := conflict.Find(&machine.IllegalError{}); !found || s.Status != 422 {
		t.Errorf("%+v", s)
	}
}

// weak is a store that does not enforce if-version.
type weak struct{ store.Backend }

func (w weak) Capabilities() store.Capabilities {
	c := w.Backend.Capabilities()
	c.Put.IfVersion = false
	return c
}

func TestWeakStoreIsRefused(t *testing.T) {
	s := store.New(weak{mem.New()}, store.Options{})
	if _, err := machine.NewObjects(s, order(t), machine.ObjectOptions{Prefix: "x"}); !errors.Is(err, store.ErrUnsupported) {
		t.Error(err)
	}
}
