package idempotency

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func claims(t *testing.T, s *store.Store) (*Claims, *clock) {
	t.Helper()
	clk := &clock{now: time.Unix(1_800_000_000, 0)}
	c, err := NewClaims(s, ClaimOptions{Prefix: "claims", TTL: MinTTL, Lease: time.Minute, Now: clk.Now})
	if err != nil {
		t.Fatal(err)
	}
	return c, clk
}

func begin(t *testing.T, c *Claims, req Request) *Claim {
	t.Helper()
	held, a, err := c.Begin(t.Context(), req)
	if err != nil || a != nil || held == nil {
		t.Fatalf("begin: %+v, %+v, %v", held, a, err)
	}
	return held
}

// A holder that was away for longer than its lease can not complete, neither
// before nor after its successor has.
func TestTakeover(t *testing.T) {
	stores(t, func(t *testing.T, s *store.Store) {
		c, clk := claims(t, s)
		ctx := t.Context()
		req := Request{Scope: "jobs", Key: "a/b c", Fingerprint: []byte("f")}
		paused := begin(t, c, req)
		clk.add(59 * time.Second)
		if _, _, err := c.Begin(ctx, req); !isInProgress(err) {
			t.Errorf("got %v", err)
		}
		if _, _, err := c.Begin(ctx, Request{Scope: "jobs", Key: "a/b c", Fingerprint: []byte("g")}); !isMismatch(err) {
			t.Errorf("got %v", err)
		}
		clk.add(time.Second)
		next := begin(t, c, req)
		if next.Fence <= paused.Fence {
			t.Errorf("fence %d after %d", next.Fence, paused.Fence)
		}
		taken, is := errors.AsType[*TakenOverError](paused.Complete(ctx, Answer{Status: 1}))
		if !is || taken.Fence != paused.Fence || !errors.Is(taken, store.ErrConflict) {
			t.Errorf("got %v", taken)
		}
		if err := paused.Abandon(ctx); !errors.Is(err, store.ErrConflict) {
			t.Errorf("got %v", err)
		}
		if err := next.Complete(ctx, created); err != nil {
			t.Fatal(err)
		}
		if err := paused.Complete(ctx, Answer{Status: 1}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("got %v", err)
		}
		if held, a, err := c.Begin(ctx, req); err != nil || held != nil || !reflect.DeepEqual(*a, created) {
			t.Errorf("got %+v, %v", a, err)
		}
		// Not even when all is forgotten.
		clk.add(MinTTL)
		if n, err := c.Sweep(ctx, 10); err != nil || n != 1 {
			t.Errorf("swept %d, %v", n, err)
		}
		if err := paused.Complete(ctx, Answer{Status: 1}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("got %v", err)
		}
		if again := begin(t, c, req); again.Fence <= next.Fence {
			t.Errorf("fence %d after %d", again.Fence, next.Fence)
		}
	})
}

func isInProgress(err error) bool {
	_, is := errors.AsType[*InProgressError](err)
	return is
}

func TestAbandonAndSweep(t *testing.T) {
	s, err := store.Open(t.Context(), "mem:")
	if err != nil {
		t.Fatal(err)
	}
	c, clk := claims(t, s)
	ctx := t.Context()
	first := begin(t, c, Request{Key: "k", Fingerprint: []byte("f")})
	if err := first.Abandon(ctx); err != nil {
		t.Fatal(err)
	}
	// An abandoned key is free for anything.
	second := begin(t, c, Request{Key: "k", Fingerprint: []byte("g")})
	if second.Fence <= first.Fence {
		t.Errorf("fence %d after %d", second.Fence, first.Fence)
	}
	for i := range 4 {
		if err := begin(t, c, Request{Key: fmt.Sprint(i)}).Complete(ctx, created); err != nil {
			t.Fatal(err)
		}
	}
	// The crashed holder's record rests a TTL longer than its lease.
	clk.add(MinTTL)
	for _, want := range []int{3, 1, 0} {
		if n, err := c.Sweep(ctx, 3); err != nil || n != want {
			t.Errorf("swept %d, %v, want %d", n, err, want)
		}
	}
	clk.add(time.Minute)
	if n, err := c.Sweep(ctx, 3); err != nil || n != 1 {
		t.Errorf("swept %d, %v", n, err)
	}
}

// Holders that take over from each other all the time, each with the effect and
// the completion in one batch: one effect.
func TestOneCompletes(t *testing.T) {
	stores(t, func(t *testing.T, s *store.Store) {
		c, clk := claims(t, s)
		ctx := t.Context()
		if !s.Capabilities().Batch {
			err := begin(t, c, Request{Key: "k"}).CompleteWith(ctx, created, store.Op{Key: "effect", Value: []byte("x"), Cond: store.None()})
			if !errors.Is(err, store.ErrUnsupported) {
				t.Errorf("got %v", err)
			}
			return
		}
		for round := range 10 {
			req := Request{Key: fmt.Sprint(round)}
			var held []*Claim
			for range 6 {
				held = append(held, begin(t, c, req))
				clk.add(time.Minute)
			}
			var mu sync.Mutex
			var wg sync.WaitGroup
			completed := 0
			for i, h := range held {
				wg.Go(func() {
					// A blind write: only the fence guards it.
					err := h.CompleteWith(ctx, Answer{Body: fmt.Append(nil, i)},
						store.Op{Key: fmt.Sprintf("effects/%d/%d", round, i), Value: []byte("x"), Cond: store.None()})
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						completed++
					} else if _, taken := errors.AsType[*TakenOverError](err); !taken {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			effects := 0
			for item, err := range s.List(ctx, store.ListOptions{Prefix: fmt.Sprintf("effects/%d/", round)}) {
				if err != nil || item.Key != fmt.Sprintf("effects/%d/5", round) {
					t.Errorf("got %v, %v", item.Key, err)
				}
				effects++
			}
			if completed != 1 || effects != 1 {
				t.Fatalf("%d completed, %d effects", completed, effects)
			}
		}
		// The conflict of another key of the batch is not a takeover.
		h := begin(t, c, Request{Key: "other"})
		err := h.CompleteWith(ctx, created, store.Op{Key: "effects/0/5", Value: []byte("x"), Cond: store.CreateOnly()})
		if _, taken := errors.AsType[*TakenOverError](err); taken || !errors.Is(err, store.ErrConflict) {
			t.Errorf("got %v", err)
		}
		if err := h.Complete(ctx, created); err != nil {
			t.Error(err)
		}
	})
}

// Many begin at once: one holds.
func TestBeginAtOnce(t *testing.T) {
	stores(t, func(t *testing.T, s *store.Store) {
		c, _ := claims(t, s)
		var mu sync.Mutex
		var wg sync.WaitGroup
		holders := 0
		for range 16 {
			wg.Go(func() {
				held, a, err := c.Begin(t.Context(), Request{Key: "k"})
				mu.Lock()
				defer mu.Unlock()
				if held != nil {
					holders++
				} else if a != nil || !isInProgress(err) {
					t.Errorf("got %v, %v", a, err)
				}
			})
		}
		wg.Wait()
		if holders != 1 {
			t.Errorf("%d holders", holders)
		}
	})
}
