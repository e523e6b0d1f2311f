package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
	"github.com/holdfast-dev/holdfast/store/mem"
)

// One holder at a time; free after release; the token grows; waiters see who
// holds it.
func TestAcquireRelease(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			b := open(t, kind, "basics")
			ann, bob := newMachine(t, b, "ann"), newMachine(t, b, "bob")
			l := ann.take(t, "job")
			_, err := bob.TryAcquire(t.Context(), "job")
			held := wantError[*lease.HeldError](t, "take a held lease", err)
			if held.Holder != "ann" || held.Token != l.Token() || held.Remaining != ttl {
				t.Errorf("held: %+v", held)
			}
			if err := l.Renew(t.Context()); err != nil {
				t.Error(err)
			}
			release(t, l)
			release(t, l) // again is ok
			if !errors.Is(context.Cause(l.Context()), lease.ErrReleased) {
				t.Errorf("the context ended with %v", context.Cause(l.Context()))
			}
			if err := l.Renew(t.Context()); !errors.Is(err, lease.ErrReleased) {
				t.Errorf("renew after release: %v", err)
			}
			next := bob.take(t, "job")
			if next.Token() <= l.Token() {
				t.Errorf("token %d after %d", next.Token(), l.Token())
			}
			release(t, next)
		})
	}
}

// Real goroutines on real clocks: never two inside, and everybody gets in.
func TestExclusion(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			b := open(t, kind, "exclusion")
			var inside, entered atomic.Int64
			var last atomic.Int64
			var wg sync.WaitGroup
			for w := range 8 {
				wg.Go(func() {
					m, err := lease.New(store.New(b, store.Options{}), lease.Options{TTL: time.Minute, Holder: fmt.Sprint(w), Poll: 5 * time.Millisecond})
					if err != nil {
						t.Error(err)
						return
					}
					for range 6 {
						err := m.Do(t.Context(), "job", func(ctx context.Context, l *lease.Lease) error {
							if inside.Add(1) != 1 {
								t.Error("two hold the lease")
							}
							if before := last.Swap(int64(l.Token())); before >= int64(l.Token()) {
								t.Errorf("token %d after %d", l.Token(), before)
							}
							entered.Add(1)
							inside.Add(-1)
							return ctx.Err()
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			if entered.Load() != 48 {
				t.Errorf("%d entered, want 48", entered.Load())
			}
		})
	}
}

// A lease is taken over only when it was seen unchanged for its whole TTL:
// not earlier, and not while it is renewed.
func TestTakenOverAfterUnchangedTTL(t *testing.T) {
	b := mem.New()
	ann, bob := newMachine(t, b, "ann"), newMachine(t, b, "bob")
	l := ann.take(t, "job")
	defer func() { _ = l.Release(t.Context()) }()
	try := func(after time.Duration) error {
		bob.clock.Advance(after)
		next, err := bob.TryAcquire(t.Context(), "job")
		if err == nil {
			release(t, next)
		}
		return err
	}
	wantError[*lease.HeldError](t, "first look", try(1000*time.Hour))
	wantError[*lease.HeldError](t, "before the end of the TTL", try(ttl-1))
	if err := l.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantError[*lease.HeldError](t, "after a renewal", try(1))
	wantError[*lease.HeldError](t, "before the end of the new TTL", try(ttl-1))
	if err := try(1); err != nil {
		t.Errorf("after the TTL: %v", err)
	}
}

// The renewal keeps the lease over many TTLs, for an observer with a clock of
// its own.
func TestRenewsItself(t *testing.T) {
	b := mem.New()
	ann, bob := newMachine(t, b, "ann"), newMachine(t, b, "bob")
	l := ann.take(t, "job")
	for range 40 {
		before, err := ann.Inspect(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		// Two wait: the renewal and the watchdog.
		ann.sleepers(t, 2)
		ann.clock.Advance(ttl / 3)
		for now := before; now.Version == before.Version; {
			if now, err = bob.Inspect(t.Context(), "job"); err != nil {
				t.Fatal(err)
			}
		}
		bob.clock.Advance(ttl / 3)
		_, err = bob.TryAcquire(t.Context(), "job")
		wantError[*lease.HeldError](t, "take a renewed lease", err)
	}
	if l.Context().Err() != nil {
		t.Errorf("lost: %v", context.Cause(l.Context()))
	}
	release(t, l)
}

// What is lost is told by the context, with its cause: taken over, deleted, or
// not renewed in time because the store does not answer.
func TestLossIsSignalled(t *testing.T) {
	lost := func(t *testing.T, l *lease.Lease, why string) {
		t.Helper()
		e := wantError[*lease.LostError](t, "cause", ended(t, l.Context()))
		if e != nil && !strings.Contains(e.Why, why) {
			t.Errorf("lost because %q, want %q", e.Why, why)
		}
	}
	t.Run("taken over", func(t *testing.T) {
		b := mem.New()
		ann, bob := newMachine(t, b, "ann"), newMachine(t, b, "bob")
		l := ann.take(t, "job")
		next := bob.outwait(t, "job")
		ann.sleepers(t, 2)
		ann.clock.Advance(ttl / 3)
		lost(t, l, "somebody else")
		e := wantError[*lease.LostError](t, "release", l.Release(t.Context()))
		if e != nil && (e.Current != next.Token() || e.Holder != "bob") {
			t.Errorf("successor: %+v", e)
		}
		release(t, next)
	})
	t.Run("deleted", func(t *testing.T) {
		ann := newMachine(t, mem.New(), "ann")
		l := ann.take(t, "job")
		if err := ann.s.Delete(t.Context(), "leases/lease/job", store.None()); err != nil {
			t.Fatal(err)
		}
		wantError[*lease.LostError](t, "renew", l.Renew(t.Context()))
		lost(t, l, "deleted")
		release(t, l)
	})
	t.Run("the store hangs", func(t *testing.T) {
		b := &hanging{Backend: mem.New(), asked: make(chan struct{}, 1)}
		ann := newMachine(t, &declaring{Backend: b, put: backend.Enforced{CreateOnly: true, IfVersion: true}}, "ann")
		l := ann.take(t, "job")
		b.hang.Store(true)
		ann.sleepers(t, 2)
		ann.clock.Advance(ttl / 3)
		<-b.asked
		ann.clock.Advance(ttl)
		lost(t, l, "renewed in time")
		b.hang.Store(false)
		release(t, l)
	})
}

// hanging answers no write while hang is set.
type hanging struct {
	backend.Backend
	hang  atomic.Bool
	asked chan struct{}
}

func (h *hanging) Put(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
	if h.hang.Load() {
		h.asked <- struct{}{}
		<-ctx.Done()
		return "", fmt.Errorf("put %q: nothing was written: %w", req.Key, context.Cause(ctx))
	}
	return h.Backend.Put(ctx, req)
}

// A release that arrives late, or is sent again, frees nobody else.
func TestLateUnlock(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			b := open(t, kind, "unlock")
			ann, bob, eve := newMachine(t, b, "ann"), newMachine(t, b, "bob"), newMachine(t, b, "eve")
			old := ann.take(t, "job")
			next := bob.outwait(t, "job")
			wantError[*lease.LostError](t, "late release", old.Release(t.Context()))
			wantError[*lease.LostError](t, "late release again", old.Release(t.Context()))
			wantError[*lease.LostError](t, "late release by token", ann.Release(t.Context(), "job", old.Token()))
			_, err := eve.TryAcquire(t.Context(), "job")
			held := wantError[*lease.HeldError](t, "take", err)
			if held != nil && held.Token != next.Token() {
				t.Errorf("held with %d, want %d", held.Token, next.Token())
			}
			if err := next.Renew(t.Context()); err != nil {
				t.Errorf("the new holder: %v", err)
			}
			// The right token frees it, from anywhere, and once more does no harm.
			for range 2 {
				if err := eve.Release(t.Context(), "job", next.Token()); err != nil {
					t.Errorf("release by token: %v", err)
				}
			}
			release(t, eve.take(t, "job"))
			_ = next.Release(t.Context())
		})
	}
}

// A release paused between its look and its write meets a new version.
func TestLateUnlockInside(t *testing.T) {
	b := mem.New()
	slow := newPaused(b)
	ann, late, bob := newMachine(t, b, "ann"), newMachine(t, slow, "ann"), newMachine(t, b, "bob")
	old := ann.take(t, "job")
	slow.armed.Store(true)
	answer := make(chan error, 1)
	go func() { answer <- late.Release(t.Context(), "job", old.Token()) }()
	<-slow.reached
	next := bob.outwait(t, "job")
	slow.goOn <- struct{}{}
	wantError[*lease.LostError](t, "late release", <-answer)
	if err := next.Renew(t.Context()); err != nil {
		t.Errorf("the new holder: %v", err)
	}
	release(t, next)
	_ = old.Release(t.Context())
}

// Steal takes over what was seen, and nothing else.
func TestSteal(t *testing.T) {
	b := mem.New()
	ann, bob := newMachine(t, b, "ann"), newMachine(t, b, "bob")
	l := ann.take(t, "job")
	seen, err := bob.Inspect(t.Context(), "job")
	if err != nil || !seen.Held || seen.Holder != "ann" {
		t.Fatalf("%+v, %v", seen, err)
	}
	if err := l.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = bob.Steal(t.Context(), seen)
	wantError[*lease.HeldError](t, "steal a renewed lease", err)
	if seen, err = bob.Inspect(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	next, err := bob.Steal(t.Context(), seen)
	if err != nil || next.Token() <= l.Token() {
		t.Fatalf("steal: %v", err)
	}
	wantError[*lease.LostError](t, "renew", l.Renew(t.Context()))
	_, err = bob.Steal(t.Context(), lease.Info{Name: "job"})
	wantError[*store.InvalidError](t, "steal what was not seen", err)
	release(t, next)
}

// Do gives f a context that ends with the loss, and tells of a loss that f
// has not noticed.
func TestDo(t *testing.T) {
	b := mem.New()
	ann, bob := newMachine(t, b, "ann"), newMachine(t, b, "bob")
	err := ann.Do(t.Context(), "job", func(ctx context.Context, l *lease.Lease) error {
		seen, err := bob.Inspect(ctx, "job")
		if err != nil {
			return err
		}
		next, err := bob.Steal(ctx, seen)
		if err != nil {
			return err
		}
		defer func() { _ = next.Release(ctx) }()
		wantError[*lease.LostError](t, "renew", l.Renew(ctx))
		wantError[*lease.LostError](t, "cause", ended(t, ctx))
		return nil
	})
	wantError[*lease.LostError](t, "Do", err)
	failed := errors.New("f failed")
	if err := ann.Do(t.Context(), "job2", func(context.Context, *lease.Lease) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	release(t, bob.take(t, "job2"))
	// The end of the caller's context does not keep the lease.
	ctx, cancel := context.WithCancel(t.Context())
	if err := ann.Do(ctx, "job3", func(ctx context.Context, _ *lease.Lease) error { cancel(); return ctx.Err() }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	release(t, bob.take(t, "job3"))
}

// A wait ends with its context and says who holds the lease.
func TestAcquireWaits(t *testing.T) {
	b := mem.New()
	ann := newMachine(t, b, "ann")
	l := ann.take(t, "job")
	m, err := lease.New(store.New(b, store.Options{}), lease.Options{TTL: time.Hour, Poll: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = m.Acquire(ctx, "job")
	held := wantError[*lease.HeldError](t, "wait", err)
	if held != nil && (held.Holder != "ann" || !errors.Is(err, context.DeadlineExceeded)) {
		t.Errorf("got %v", err)
	}
	if status, title := held.Race(); status != 423 || title == "" {
		t.Errorf("answered %d %q", status, title)
	}
	got := make(chan error, 1)
	go func() {
		next, err := m.Acquire(t.Context(), "job")
		if err == nil {
			err = next.Release(t.Context())
		}
		got <- err
	}()
	release(t, l)
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// Several leases are taken in one order, whatever order they are asked for in:
// opposite callers do not wait for each other.
func TestOrdered(t *testing.T) {
	b := mem.New()
	m, err := lease.New(store.New(b, store.Options{}), lease.Options{TTL: time.Hour, Poll: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var inside atomic.Int64
	var wg sync.WaitGroup
	bounded, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for w := range 4 {
		wg.Go(func() {
			names := []string{"x", "y", "x"}
			if w%2 == 1 {
				names = []string{"y", "x"}
			}
			for range 25 {
				set, err := lease.Ordered(bounded, m, names...)
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 || len(set.Tokens()) != 2 {
					t.Error("two hold the leases")
				}
				inside.Add(-1)
				if err := set.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	// What can not be had whole is not kept in part; a loss of one ends all.
	l, err := m.Acquire(t.Context(), "y")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = lease.Ordered(ctx, m, "y", "x")
	wantError[*lease.HeldError](t, "take with one held", err)
	release(t, l)
	set, err := lease.Ordered(t.Context(), m, "y", "x")
	if err != nil {
		t.Fatal(err)
	}
	seen, err := m.Inspect(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	thief, err := m.Steal(t.Context(), seen)
	if err != nil {
		t.Fatal(err)
	}
	err = set.Release(t.Context())
	wantError[*lease.LostError](t, "release of a stolen one", err)
	release(t, thief)
	y, err := m.TryAcquire(t.Context(), "y")
	if err != nil {
		t.Fatal(err)
	}
	release(t, y)
}

// Stores that do not enforce the conditions are refused.
func TestRefusals(t *testing.T) {
	weak := store.New(&declaring{Backend: mem.New(), put: backend.Enforced{CreateOnly: true}}, store.Options{})
	_, err := lease.New(weak, lease.Options{})
	wantError[*store.UnsupportedError](t, "a store without if-version", err)
	_, err = lease.NewGuarded(weak, "x")
	wantError[*store.UnsupportedError](t, "a guarded object there", err)
	files := newMachine(t, open(t, "file", ""), "ann")
	l := files.take(t, "job")
	_, err = l.Write(t.Context(), store.Op{Key: "x", Value: []byte("v")})
	wantError[*store.UnsupportedError](t, "a batch on files", err)
	release(t, l)
	s := store.New(mem.New(), store.Options{})
	for _, o := range []lease.Options{{Prefix: "x/"}, {TTL: -1}, {TTL: time.Millisecond}, {Prefix: "\x00"}} {
		_, err := lease.New(s, o)
		wantError[*store.InvalidError](t, fmt.Sprintf("%+v", o), err)
	}
	m, err := lease.New(s, lease.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.TryAcquire(t.Context(), "")
	wantError[*store.InvalidError](t, "an empty name", err)
}

// declaring declares less than its backend does.
type declaring struct {
	backend.Backend
	put backend.Enforced
}

func (d *declaring) Capabilities() backend.Capabilities {
	caps := d.Backend.Capabilities()
	caps.Put = d.put
	caps.Add, caps.Batch = false, false
	return caps
}
