package lease_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
)

// In every round a holder is paused past its lease, a successor takes over and
// writes, and the paused one goes on. It still believes in its lease: its own
// clock has not moved, and nothing has told it. The rounds on real processes,
// stopped by signals, are in TestStoppedHolder; together they are above 1,000.
func TestPausedPastLease(t *testing.T) {
	for kind, rounds := range map[string]int{"mem": 760, "file": 80, "sqlite": 80, "postgres": 80} {
		t.Run(kind, func(t *testing.T) {
			r := newPauseRig(t, open(t, kind, "paused"))
			for i := range rounds {
				r.round(t, i)
				if t.Failed() {
					t.Fatalf("in round %d", i)
				}
			}
			t.Logf("%d rounds, %d stale writes refused, %d accepted", rounds, r.refused, r.accepted)
			if r.accepted != 0 || r.refused < rounds {
				t.Errorf("%d accepted, %d refused in %d rounds", r.accepted, r.refused, rounds)
			}
		})
	}
}

type pauseRig struct {
	slow              *paused
	ann, bob          *machine
	stale, fresh      *lease.Guarded
	batch             bool
	refused, accepted int
}

func newPauseRig(t *testing.T, b backend.Backend) *pauseRig {
	r := &pauseRig{slow: newPaused(b), batch: b.Capabilities().Batch}
	r.ann, r.bob = newMachine(t, r.slow, "ann"), newMachine(t, b, "bob")
	var errA, errB error
	r.stale, errA = lease.NewGuarded(r.ann.s, "object")
	r.fresh, errB = lease.NewGuarded(r.bob.s, "object")
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	return r
}

// round pauses ann before a guarded save, inside one, before a batch or inside
// one. Inside means: between the look that found everything in order and the
// write.
func (r *pauseRig) round(t *testing.T, i int) {
	ctx := t.Context()
	l := r.ann.take(t, "job")
	if _, err := r.stale.Load(ctx, l.Token()); err != nil {
		t.Error(err)
	}
	if i%3 == 0 {
		if _, err := r.stale.Save(ctx, l.Token(), fmt.Appendf(nil, "ann in time %d", i)); err != nil {
			t.Error(err)
		}
	}
	inside, batch := i%2 == 1, r.batch && i%4 >= 2
	write := func() error {
		if batch {
			_, err := l.Write(ctx, store.Op{Key: "plain", Value: []byte("ann")})
			return err
		}
		_, err := r.stale.Save(ctx, l.Token(), []byte("ann"))
		return err
	}
	answer := make(chan error, 1)
	if inside {
		r.slow.armed.Store(true)
		go func() { answer <- write() }()
		<-r.slow.reached
	}
	next := r.bob.outwait(t, "job")
	want := fmt.Sprintf("bob %d", i)
	if batch {
		if _, err := next.Write(ctx, store.Op{Key: "plain", Value: []byte(want)}); err != nil {
			t.Error(err)
		}
	} else if i%5 == 0 {
		// Already the load refuses the paused one.
		want = ""
		if i%3 == 0 {
			want = fmt.Sprintf("ann in time %d", i)
		}
		if _, err := r.fresh.Update(ctx, next.Token(), func(lease.Object) ([]byte, error) { return []byte(want), nil }); err != nil {
			t.Error(err)
		}
		if _, err := r.fresh.Load(ctx, next.Token()); err != nil {
			t.Error(err)
		}
	} else if _, err := r.fresh.Save(ctx, next.Token(), []byte(want)); err != nil {
		t.Error(err)
	}
	if inside {
		r.slow.goOn <- struct{}{}
	} else {
		answer <- write()
	}
	r.judge(t, <-answer, batch, want)
	wantError[*lease.LostError](t, "late release", l.Release(ctx))
	if err := next.Renew(ctx); err != nil {
		t.Errorf("the successor: %v", err)
	}
	release(t, next)
}

func (r *pauseRig) judge(t *testing.T, err error, batch bool, want string) {
	t.Helper()
	var got string
	if batch {
		item, rerr := r.bob.s.Get(t.Context(), "plain")
		if rerr != nil {
			t.Error(rerr)
		}
		got = string(item.Value)
		wantError[*lease.LostError](t, "a batch of a past holder", err)
	} else {
		o, rerr := r.fresh.Read(t.Context())
		if rerr != nil {
			t.Error(rerr)
		}
		got = string(o.Value)
		if e := wantError[*lease.StaleError](t, "a save of a past holder", err); e != nil && e.Seen <= e.Token {
			t.Errorf("refused by %d after %d", e.Token, e.Seen)
		}
	}
	if err == nil || got != want {
		r.accepted++
		t.Errorf("a stale write was accepted: the object is %q, want %q", got, want)
		return
	}
	r.refused++
}

// A guarded object keeps its fence over its removal, and takes no plain value
// for its own.
func TestGuardedObject(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			ctx := t.Context()
			s := store.New(open(t, kind, "guarded"), store.Options{})
			g, err := lease.NewGuarded(s, "object")
			if err != nil {
				t.Fatal(err)
			}
			if o, err := g.Read(ctx); err != nil || o.Exists || o.Fence != 0 {
				t.Errorf("before all: %+v, %v", o, err)
			}
			if o, err := g.Load(ctx, 7); err != nil || o.Exists || o.Fence != 7 {
				t.Errorf("first load: %+v, %v", o, err)
			}
			value := "line\nline\x00"
			if _, err := g.Save(ctx, 7, []byte(value)); err != nil {
				t.Error(err)
			}
			o, err := g.Update(ctx, 9, func(o lease.Object) ([]byte, error) { return append(o.Value, '!'), nil })
			if err != nil || string(o.Value) != value+"!" || o.Fence != 9 {
				t.Errorf("update: %+v, %v", o, err)
			}
			if err := g.Remove(ctx, 9); err != nil {
				t.Error(err)
			}
			_, err = g.Save(ctx, 8, []byte("late"))
			stale := wantError[*lease.StaleError](t, "save after removal", err)
			if status, _ := stale.Race(); stale.Seen != 9 || status != 412 {
				t.Errorf("%+v", stale)
			}
			_, err = g.Load(ctx, 8)
			wantError[*lease.StaleError](t, "load after removal", err)
			if o, err := g.Read(ctx); err != nil || o.Exists || o.Fence != 9 {
				t.Errorf("after all: %+v, %v", o, err)
			}
			_, err = g.Save(ctx, 0, nil)
			wantError[*store.InvalidError](t, "save without a token", err)
			if _, err := s.Put(ctx, "object", []byte("plain"), store.None()); err != nil {
				t.Fatal(err)
			}
			_, err = g.Save(ctx, 10, nil)
			wantError[*store.CorruptError](t, "save over a plain value", err)
		})
	}
}

// The conflict of a batch that is not about the lease is the caller's, and
// leaves the lease.
func TestWriteConflict(t *testing.T) {
	ctx := t.Context()
	ann := newMachine(t, open(t, "sqlite", ""), "ann")
	l := ann.take(t, "job")
	versions, err := l.Write(ctx, store.Op{Key: "x", Value: []byte("1"), Cond: store.CreateOnly()}, store.Op{Key: "y", Value: []byte("1")})
	if err != nil || len(versions) != 2 {
		t.Fatalf("%v, %v", versions, err)
	}
	if item, err := ann.s.Get(ctx, "x"); err != nil || item.Version != versions[0] {
		t.Errorf("%+v, %v", item, err)
	}
	_, err = l.Write(ctx, store.Op{Key: "x", Value: []byte("2"), Cond: store.CreateOnly()})
	conflict := wantError[*store.ConflictError](t, "write", err)
	if conflict != nil && conflict.Key != "x" {
		t.Errorf("conflict of %q", conflict.Key)
	}
	if err := l.Renew(ctx); err != nil || l.Context().Err() != nil {
		t.Errorf("after the conflict: %v", err)
	}
	release(t, l)
}

// FuzzGuarded: whatever lies under the key, a read gives an object or says
// that it is none, and what is saved is read.
func FuzzGuarded(f *testing.F) {
	f.Add([]byte("holdfast fence 1 value\nx"))
	f.Add([]byte("holdfast fence -9 empty\n"))
	f.Add([]byte("holdfast fence 99999999999999999999 value\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		ctx := context.Background()
		s := newMachine(t, open(t, "mem", ""), "").s
		g, err := lease.NewGuarded(s, "object")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(ctx, "object", raw, store.None()); err != nil {
			t.Fatal(err)
		}
		o, err := g.Read(ctx)
		var corrupt *store.CorruptError
		if err != nil && !errors.As(err, &corrupt) {
			t.Fatal(err)
		}
		if g, err = lease.NewGuarded(s, "saved"); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Save(ctx, max(o.Fence, 1), raw); err != nil {
			t.Fatal(err)
		}
		if o, err = g.Read(ctx); err != nil || string(o.Value) != string(raw) {
			t.Fatalf("%q, %v", o.Value, err)
		}
	})
}
