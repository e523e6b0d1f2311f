//go:build unix

package counter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/conflict"
	"github.com/holdfast-dev/holdfast/counter"
	"github.com/holdfast-dev/holdfast/internal/worktest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/mem"
)

// Sixteen writers take from a stock that is too small, and put back: what was
// acknowledged adds up to what is there, and no answer is below zero.
func TestStockInParallel(t *testing.T) {
	for _, kind := range kinds {
		for _, way := range []string{"native", "cas", "sharded"} {
			if kind == "file" && way == "sharded" {
				continue
			}
			t.Run(kind+" "+way, func(t *testing.T) {
				add, err := adder(open(t, address(t, kind)), way)
				if err != nil {
					t.Fatal(err)
				}
				ctx := patience(t)
				const start = 40
				if r, err := add(ctx, "stock", start); err != nil || !r.Applied {
					t.Fatal(r, err)
				}
				var sum, refused atomic.Int64
				together(16, func(i int) {
					rng := rand.New(rand.NewPCG(1, uint64(i)))
					for range 12 {
						delta := rng.Int64N(7) - 4
						r, err := add(ctx, "stock", delta)
						switch {
						case err != nil:
							t.Error(err)
						case r.Applied:
							sum.Add(delta)
						case delta >= 0:
							t.Errorf("refused without a reason: %v", r)
						default:
							refused.Add(1)
						}
						if r.Value < 0 {
							t.Errorf("a stock of %d", r.Value)
						}
					}
				})
				// An add of zero is refused by nothing, and an add of more than is
				// there tells what is there.
				r, err := add(ctx, "stock", -1_000_000)
				if err != nil || r.Applied || r.Value != start+sum.Load() {
					t.Errorf("%v, %v, want %d after what was acknowledged (%d refusals)", r, err, start+sum.Load(), refused.Load())
				}
			})
		}
	}
}

// Three processes sell a stock, one of them is killed in the middle. Everything
// is sold, nothing twice: the acknowledged sales are as many as the stock, but
// for the one sale per goroutine that the killed process could not tell of.
func TestStockAcrossProcesses(t *testing.T) {
	const stock, inFlight = 150, 4
	for _, kind := range shared {
		for _, way := range []string{"native", "cas", "sharded"} {
			if kind == "file" && way == "sharded" {
				continue
			}
			t.Run(kind+" "+way, func(t *testing.T) {
				url := address(t, kind)
				add, err := adder(open(t, url), way)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := add(t.Context(), "stock", stock); err != nil {
					t.Fatal(err)
				}
				var workers []*worktest.Worker
				for range 3 {
					workers = append(workers, worktest.Start(t, "take", url, way))
				}
				for _, w := range workers {
					w.Expect("ready")
				}
				for _, w := range workers {
					w.Tell("go")
				}
				sold := 0
				for range 5 {
					if _, ok := workers[0].Next(); ok {
						sold++
					}
				}
				workers[0].Kill()
				sold += len(workers[0].Rest())
				for _, w := range workers[1:] {
					sold += len(w.End())
				}
				if sold > stock || sold < stock-inFlight {
					t.Errorf("%d acknowledged sales of a stock of %d", sold, stock)
				}
				r, err := add(t.Context(), "stock", -1)
				if err != nil || r.Applied || r.Value != 0 {
					t.Errorf("%v, %v, want a refusal at zero", r, err)
				}
			})
		}
	}
}

func TestBounds(t *testing.T) {
	for _, way := range []counter.Method{counter.Native, counter.CompareAndSet} {
		s := store.New(mem.New(), store.Options{})
		defer s.Close()
		for i, c := range []struct {
			bounds counter.Bounds
			deltas []int64
			want   string // the values after or at each
		}{
			{counter.AtLeast(0), []int64{-1, 5, -5, -1}, "0! 5 0 0!"},
			{counter.AtMost(3), []int64{4, 3, 1, -9, 12}, "0! 3 3! -6 -6!"},
			{counter.Between(-2, 2), []int64{-3, -2, 4, 1}, "0! -2 2 2!"},
			{counter.Bounds{}, []int64{math.MaxInt64, 1, math.MinInt64, math.MinInt64, math.MinInt64}, "9223372036854775807 9223372036854775807! -1 -1! -1!"},
		} {
			c2, err := counter.New(s, counter.Options{Prefix: fmt.Sprint("b", way, i), Bounds: c.bounds, Method: way})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, d := range c.deltas {
				r, err := c2.Add(t.Context(), "x", d)
				if err != nil {
					t.Fatal(err)
				}
				got += fmt.Sprintf(" %d", r.Value)
				if !r.Applied {
					got += "!"
				}
			}
			if got != " "+c.want {
				t.Errorf("method %d, bounds %v, deltas %v: %s, want %s", way, c.bounds, c.deltas, got, c.want)
			}
		}
	}
}

func TestRefusalAsError(t *testing.T) {
	r := counter.Result{Value: 3, Delta: -4, Bounds: counter.AtLeast(0)}
	s, lost := conflict.Find(r.Err())
	if !lost || s.Status != 409 || s.Retryable {
		t.Errorf("%+v, %v", s, lost)
	}
	r.Applied = true
	if r.Err() != nil {
		t.Error(r.Err())
	}
}

// limited is a store that declares less.
type limited struct {
	store.Backend
	caps store.Capabilities
}

func (l limited) Capabilities() store.Capabilities { return l.caps }

func TestRefusedStores(t *testing.T) {
	caps := mem.New().Capabilities()
	with := func(change func(*store.Capabilities)) *store.Store {
		c := caps
		change(&c)
		return store.New(limited{mem.New(), c}, store.Options{})
	}
	noAdd := with(func(c *store.Capabilities) { c.Add = false })
	neither := with(func(c *store.Capabilities) { c.Add = false; c.Put.IfVersion = false })
	noBatch := with(func(c *store.Capabilities) { c.Batch = false })
	if _, err := counter.New(noAdd, counter.Options{Prefix: "n", Method: counter.Native}); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("native without add: %v", err)
	}
	if _, err := counter.New(noAdd, counter.Options{Prefix: "n"}); err != nil {
		t.Errorf("auto without add: %v", err)
	}
	if _, err := counter.New(neither, counter.Options{Prefix: "n"}); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("neither: %v", err)
	}
	if _, err := counter.NewQuota(neither, counter.QuotaOptions{Prefix: "n"}); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("quota: %v", err)
	}
	for _, s := range []*store.Store{noAdd, noBatch} {
		if _, err := counter.NewSharded(s, counter.ShardedOptions{Prefix: "n"}); !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("sharded: %v", err)
		}
	}
	s := store.New(mem.New(), store.Options{})
	for _, b := range []counter.Bounds{counter.AtLeast(1), counter.AtMost(-1), counter.Between(3, 2)} {
		if _, err := counter.NewSharded(s, counter.ShardedOptions{Prefix: "n", Bounds: b}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("sharded from %v: %v", b, err)
		}
	}
}

// Random changes on one goroutine, beside a plain number as the model: sharding
// is exact, up to the last unit, for all kinds of bounds.
func TestShardedIsExact(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	defer s.Close()
	for i, b := range []counter.Bounds{counter.AtLeast(0), counter.Between(0, 50), counter.Between(-13, 7), counter.AtMost(9), {}} {
		for _, shards := range []int{1, 2, 7} {
			c, err := counter.NewSharded(s, counter.ShardedOptions{Prefix: fmt.Sprintf("s%d-%d", i, shards), Bounds: b, Shards: shards})
			if err != nil {
				t.Fatal(err)
			}
			low, high := b.Range()
			model := int64(0)
			rng := rand.New(rand.NewPCG(7, uint64(i*10+shards)))
			for step := range 400 {
				delta := rng.Int64N(31) - 15
				r, err := c.Add(t.Context(), "x", delta)
				if err != nil {
					t.Fatal(err)
				}
				want := model+delta >= low && model+delta <= high
				if r.Applied != want || !want && r.Value != model {
					t.Fatalf("bounds %v, %d shards, step %d: %d%+d: %v, want %v", b, shards, step, model, delta, r, want)
				}
				if want {
					model += delta
				}
			}
			if v, err := c.Value(t.Context(), "x"); err != nil || v != model {
				t.Errorf("value %d, %v, want %d", v, err, model)
			}
			if v, err := c.Sum(t.Context(), "x"); err != nil || v != model {
				t.Errorf("sum %d, %v, want %d", v, err, model)
			}
		}
	}
}

// The ends of int64 neither overflow nor wrap.
func TestShardedAtTheEnds(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	defer s.Close()
	c, err := counter.NewSharded(s, counter.ShardedOptions{Prefix: "ends", Shards: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		delta, value int64
		applied      bool
	}{
		{math.MaxInt64, math.MaxInt64, true}, {1, math.MaxInt64, false}, {-1, math.MaxInt64 - 1, true},
		{math.MinInt64, -2, true}, {math.MinInt64, -2, false}, {math.MinInt64 + 2, math.MinInt64, true}, {-1, math.MinInt64, false},
	} {
		r, err := c.Add(t.Context(), "x", step.delta)
		v, verr := c.Value(t.Context(), "x")
		if err != nil || verr != nil || r.Applied != step.applied || v != step.value {
			t.Errorf("%+d: %v, value %d, %v, %v; want %v, %d", step.delta, r, v, err, verr, step.applied, step.value)
		}
	}
}

// Units wander between shards while one taker asks for three. Three were always
// there, so it must never be refused.
func TestShardedRefusesOnlyWhatWasNotThere(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	defer s.Close()
	c, err := counter.NewSharded(s, counter.ShardedOptions{Prefix: "w", Bounds: counter.AtLeast(0), Shards: 6})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(patience(t))
	const least = 3
	if _, err := c.Add(ctx, "x", least); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never below three, but ever in other shards.
		together(4, func(int) {
			for ctx.Err() == nil {
				if _, err := c.Add(ctx, "x", 1); err != nil {
					return
				}
				if _, err := c.Add(ctx, "x", -1); err != nil {
					return
				}
			}
		})
	}()
	for range 300 {
		r, err := c.Add(ctx, "x", -least)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Applied {
			t.Fatalf("refused at %d, although %d were always there", r.Value, least)
		}
		if _, err := c.Add(ctx, "x", least); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	<-done
}

// meddler changes the store once, right after a certain key was read.
type meddler struct {
	*mem.Backend
	after  string
	meddle func()
}

func (m *meddler) Get(ctx context.Context, key string) (store.Item, error) {
	item, err := m.Backend.Get(ctx, key)
	if f := m.meddle; f != nil && key == m.after {
		m.meddle = nil
		f()
	}
	return item, err
}

// The counter-example of the double look: the one unit moves from the shard that
// is read second to the one that was read first, in between. The reader sees both
// empty, and there was never less than one.
func TestShardedLooksAtOneMoment(t *testing.T) {
	m := &meddler{Backend: mem.New(), after: "n/x/0"}
	s := store.New(m, store.Options{})
	defer s.Close()
	c, err := counter.NewSharded(s, counter.ShardedOptions{Prefix: "n", Bounds: counter.AtLeast(0), Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	move := func(from, to string) {
		low, high := store.Unbounded()
		for key, delta := range map[string]int64{to: 1, from: -1} {
			if _, _, err := s.Add(t.Context(), key, delta, low, high); err != nil {
				t.Error(err)
			}
		}
	}
	for range 20 {
		if _, _, err := s.Add(t.Context(), "n/x/1", 1, 0, 1); err != nil {
			t.Fatal(err)
		}
		m.meddle = func() { move("n/x/1", "n/x/0") }
		if v, err := c.Value(t.Context(), "x"); err != nil || v != 1 {
			t.Errorf("a value of %d, %v, where there was always one", v, err)
		}
		// Two units are too many for either shard, so all shards are looked at.
		move("n/x/0", "n/x/1")
		m.meddle = func() { move("n/x/1", "n/x/0") }
		if r, err := c.Add(t.Context(), "x", -2); err != nil || r.Applied || r.Value != 1 {
			t.Errorf("%v, %v, want a refusal at one", r, err)
		}
		if r, err := c.Add(t.Context(), "x", -1); err != nil || !r.Applied {
			t.Errorf("%v, %v, want the unit", r, err)
		}
	}
}
