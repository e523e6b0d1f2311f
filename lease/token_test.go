package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
	"github.com/holdfast-dev/holdfast/store/mem"
)

// Tokens grow over release, collection and deletion by hand, and over the end
// of a block.
func TestTokenSurvivesDeletion(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			b := open(t, kind, "tokens")
			if kind == "mem" {
				// A store without a native add counts by compare-and-set.
				b = &declaring{Backend: b, put: backend.Enforced{CreateOnly: true, IfVersion: true}}
			}
			ann := newMachine(t, b, "ann")
			rounds := 300
			if kind != "mem" {
				rounds = 40
			}
			var last lease.Token
			for i := range rounds {
				l := ann.take(t, "job")
				if l.Token() <= last {
					t.Fatalf("round %d: token %d after %d", i, l.Token(), last)
				}
				last = l.Token()
				release(t, l)
				switch i % 7 {
				case 3:
					if n, err := ann.Collect(t.Context()); n != 1 || err != nil {
						t.Fatalf("collected %d, %v", n, err)
					}
					if info, err := ann.Inspect(t.Context(), "job"); err != nil || info.Version != "" {
						t.Fatalf("after the collection: %+v, %v", info, err)
					}
				case 5:
					if err := ann.s.Delete(t.Context(), "leases/lease/job", store.None()); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// The schedule of the package comment: a creator that is paused after creating
// the record, through a whole life and collection of the lease.
func TestTokenOfSlowCreator(t *testing.T) {
	b := mem.New()
	slow := newPaused(b)
	ann, bob := newMachine(t, slow, "ann"), newMachine(t, b, "bob")
	slow.armed.Store(true) // before the record is created
	got := make(chan lease.Token, 1)
	go func() {
		l, err := ann.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Error(err)
			got <- 0
			return
		}
		release(t, l)
		got <- l.Token()
	}()
	<-slow.reached
	l := bob.take(t, "job")
	release(t, l)
	if n, err := bob.Collect(t.Context()); n != 1 || err != nil {
		t.Fatalf("collected %d, %v", n, err)
	}
	slow.goOn <- struct{}{}
	if token := <-got; token <= l.Token() {
		t.Errorf("token %d after %d", token, l.Token())
	}
}

// Many acquire while others collect and delete: what each sees under the lease
// only grows.
func TestTokensUnderCollection(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			b := open(t, kind, "collection")
			ctx, stop := context.WithCancel(t.Context())
			var collector, wg sync.WaitGroup
			collected, rounds := 0, 25
			if kind == "file" {
				rounds = 8 // each goes through locked files many times
			}
			collector.Go(func() {
				m := newMachine(t, b, "collector")
				for ctx.Err() == nil {
					n, err := m.Collect(ctx)
					collected += n
					if err != nil && ctx.Err() == nil {
						t.Error(err)
						return
					}
				}
			})
			var mu sync.Mutex
			last := map[string]lease.Token{}
			for w := range 4 {
				wg.Go(func() {
					m := newMachine(t, b, fmt.Sprint(w))
					for n := 0; n < rounds; {
						name := fmt.Sprint("job ", n%2)
						l, err := m.TryAcquire(t.Context(), name)
						var held *lease.HeldError
						if errors.As(err, &held) {
							continue
						}
						if err != nil {
							t.Error(err)
							return
						}
						n++
						mu.Lock()
						if l.Token() <= last[name] {
							t.Errorf("token %d after %d", l.Token(), last[name])
						}
						last[name] = l.Token()
						mu.Unlock()
						release(t, l)
					}
				})
			}
			wg.Wait()
			stop()
			collector.Wait()
			t.Logf("%d records were collected", collected)
			if collected == 0 {
				t.Error("nothing was collected: the test is empty")
			}
		})
	}
}

// A lost counter is noticed by the records that are there.
func TestLostCounter(t *testing.T) {
	ann := newMachine(t, mem.New(), "ann")
	var last lease.Token
	for i := range 300 {
		l := ann.take(t, "job")
		if l.Token() <= last {
			t.Fatalf("token %d after %d", l.Token(), last)
		}
		last = l.Token()
		release(t, l)
		if i == 140 {
			if err := ann.s.Delete(t.Context(), "leases/tokens", store.None()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// blind loses answers: of the next write, done or not, and of the reads that
// the store would settle it with.
type blind struct {
	backend.Backend
	mu    sync.Mutex
	lose  int // writes to lose the answer of
	do    bool
	reads int // reads to fail after that
}

func (b *blind) arm(do bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lose, b.do = 1, do
}

func (b *blind) Put(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lose == 0 {
		return b.Backend.Put(ctx, req)
	}
	b.lose--
	b.reads = 3
	if b.do {
		if _, err := b.Backend.Put(ctx, req); err != nil {
			return "", err
		}
	}
	return "", &backend.UnknownOutcomeError{Op: "put", Key: req.Key, Cond: req.Cond, Nonce: req.Nonce, Err: errors.New("the connection broke")}
}

func (b *blind) Get(ctx context.Context, key string) (backend.Item, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reads > 0 {
		b.reads--
		return backend.Item{}, errors.New("the connection broke")
	}
	return b.Backend.Get(ctx, key)
}

// An unknown outcome is settled by the next look, whichever it was.
func TestUnknownOutcomes(t *testing.T) {
	for _, done := range []bool{false, true} {
		t.Run(fmt.Sprintf("done=%v", done), func(t *testing.T) {
			raw := mem.New()
			b := &blind{Backend: raw}
			all := &declaring{Backend: b, put: backend.Enforced{CreateOnly: true, IfVersion: true}}
			ann, bob := newMachine(t, all, "ann"), newMachine(t, raw, "bob")
			release(t, ann.take(t, "job")) // the record is there

			b.arm(done)
			_, err := ann.TryAcquire(t.Context(), "job")
			if !errors.Is(err, store.ErrUnknownOutcome) {
				t.Fatalf("acquire: %v", err)
			}
			// At once, without a TTL: nobody works under the lost attempt.
			l := ann.take(t, "job")

			b.arm(done)
			if err := l.Renew(t.Context()); !errors.Is(err, store.ErrUnknownOutcome) {
				t.Fatalf("renew: %v", err)
			}
			if l.Context().Err() != nil {
				t.Error("an unknown renewal was taken for a loss")
			}
			if err := l.Renew(t.Context()); err != nil {
				t.Errorf("the next renewal: %v", err)
			}

			b.arm(done)
			if err := l.Release(t.Context()); !errors.Is(err, store.ErrUnknownOutcome) {
				t.Fatalf("release: %v", err)
			}
			release(t, l)
			next := bob.take(t, "job")
			// A release that is repeated after the lease has a new holder.
			if err := next.Renew(t.Context()); err != nil {
				t.Error(err)
			}
			release(t, next)
		})
	}
	// The lost attempt of one is no licence to take what another holds.
	raw := mem.New()
	b := &blind{Backend: raw}
	ann := newMachine(t, &declaring{Backend: b, put: backend.Enforced{CreateOnly: true, IfVersion: true}}, "ann")
	bob := newMachine(t, raw, "bob")
	release(t, ann.take(t, "job"))
	b.arm(false)
	if _, err := ann.TryAcquire(t.Context(), "job"); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Fatalf("acquire: %v", err)
	}
	l := bob.take(t, "job")
	_, err := ann.TryAcquire(t.Context(), "job")
	wantError[*lease.HeldError](t, "take what bob holds", err)
	if err := l.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	release(t, l)
}
