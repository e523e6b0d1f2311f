package idempotency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
	"github.com/holdfast-dev/holdfast/store/mem"
)

type account struct {
	Balance  int
	Payments []string
}

func payInto(who string, n int) func(*account) (Answer, error) {
	return func(a *account) (Answer, error) {
		a.Balance += n
		a.Payments = append(a.Payments, who)
		return Answer{Status: 200, Body: fmt.Append(nil, a.Balance, "\x00by ", who)}, nil
	}
}

// stores opens one store of each kind.
func stores(t *testing.T, f func(t *testing.T, s *store.Store)) {
	for _, kind := range []string{"mem", "file", "sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			address := map[string]string{"mem": "mem:", "file": "file:" + t.TempDir(), "sqlite": "sqlite:" + filepath.Join(t.TempDir(), "s.db")}[kind]
			if kind == "postgres" {
				address = database(t, pgtest.Need(t, server))
			}
			s, err := store.Open(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			f(t, s)
		})
	}
}

// Copies at once on one object, together with other requests: each has its
// effect once, and all copies get the same answer.
func TestObjectCopiesAtOnce(t *testing.T) {
	stores(t, func(t *testing.T, s *store.Store) {
		o, err := NewObjects[account](s, ObjectOptions{Prefix: "accounts"})
		if err != nil {
			t.Fatal(err)
		}
		const keys, copies = 6, 5
		var mu sync.Mutex
		answers := map[string]map[string]int{}
		var wg sync.WaitGroup
		for i := range keys * copies {
			wg.Go(func() {
				key := fmt.Sprint(i % keys)
				got, err := o.Do(t.Context(), "alice", Request{Scope: "s", Key: key}, payInto(fmt.Sprint(i), 10))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if answers[key] == nil {
					answers[key] = map[string]int{}
				}
				answers[key][string(got.Body)]++
			})
		}
		wg.Wait()
		a, err := o.Load(t.Context(), "alice")
		if err != nil || a.Balance != 10*keys || len(a.Payments) != keys {
			t.Errorf("got %+v, %v", a, err)
		}
		for key, bodies := range answers {
			if len(bodies) != 1 {
				t.Errorf("%s: %v", key, bodies)
			}
		}
	})
}

func TestObjects(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	now := time.Unix(1_800_000_000, 0)
	o, err := NewObjects[account](s, ObjectOptions{Prefix: "accounts", MaxKeys: 3, TTL: MinTTL, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := o.Load(ctx, "alice"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	first, err := o.Do(ctx, "alice", Request{Key: "1", Fingerprint: []byte("a")}, payInto("x", 1))
	if err != nil || first.Replayed {
		t.Fatal(first, err)
	}
	if again, err := o.Do(ctx, "alice", Request{Key: "1", Fingerprint: []byte("a")}, payInto("y", 1)); err != nil || !again.Replayed || !reflect.DeepEqual(again.Answer, first.Answer) {
		t.Errorf("got %+v, %v", again, err)
	}
	if got, err := o.Do(ctx, "alice", Request{Key: "1", Fingerprint: []byte("b")}, payInto("y", 1)); !isMismatch(err) || got.Attempts != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	broken := &store.ConflictError{Key: "of something else"}
	if got, err := o.Do(ctx, "alice", Request{Key: "2"}, func(*account) (Answer, error) { return created, broken }); err != broken || got.Attempts != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := o.Update(ctx, "alice", func(a *account) error { a.Balance += 100; return nil }); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"2", "3"} {
		if _, err := o.Do(ctx, "alice", Request{Key: key}, payInto("x", 1)); err != nil {
			t.Fatal(err)
		}
	}
	// Full: an unexpired key is never dropped, and copies are still answered.
	full, is := errors.AsType[*FullError](doErr(o.Do(ctx, "alice", Request{Key: "4"}, payInto("x", 1))))
	if !is || full.Keys != 3 {
		t.Errorf("got %v", full)
	}
	if got, err := o.Do(ctx, "alice", Request{Key: "3"}, payInto("x", 1)); err != nil || !got.Replayed {
		t.Errorf("got %+v, %v", got, err)
	}
	now = now.Add(MinTTL)
	if got, err := o.Do(ctx, "alice", Request{Key: "4"}, payInto("x", 1)); err != nil || got.Replayed {
		t.Errorf("got %+v, %v", got, err)
	}
	if a, err := o.Load(ctx, "alice"); err != nil || a.Balance != 104 {
		t.Errorf("got %+v, %v", a, err)
	}
	if _, err := NewObjects[account](s, ObjectOptions{Prefix: "x", TTL: time.Hour}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func doErr(_ Result, err error) error { return err }

// lossy loses the answers to writes: after, before or instead of them.
type lossy struct {
	backend.Backend
	mode string
	lost int
	// late is a write that will take effect later.
	late backend.PutRequest
}

func (l *lossy) Put(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
	if l.lost == 0 {
		return l.Backend.Put(ctx, req)
	}
	l.lost--
	gone := &backend.UnknownOutcomeError{Op: "put", Key: req.Key, Cond: req.Cond, Nonce: req.Nonce, Err: io.ErrUnexpectedEOF}
	switch l.mode {
	case "took effect and was replaced":
		// The nonce is gone when the store reads back: only the key in the
		// object tells.
		v, err := l.Backend.Put(ctx, req)
		if err != nil {
			return "", err
		}
		if _, err = l.Backend.Put(ctx, backend.PutRequest{Key: req.Key, Value: req.Value, Cond: backend.IfVersion(v), Nonce: backend.NewNonce()}); err != nil {
			return "", err
		}
	case "later":
		l.late = req
	}
	return "", gone
}

func (l *lossy) Get(ctx context.Context, key string) (backend.Item, error) {
	item, err := l.Backend.Get(ctx, key)
	if l.late.Key != "" {
		// It arrives behind the read of the next round.
		late := l.late
		l.late = backend.PutRequest{}
		_, _ = l.Backend.Put(ctx, late)
	}
	return item, err
}

// A lost answer of the store: one effect, whatever became of the write.
func TestObjectLostAnswer(t *testing.T) {
	for _, mode := range []string{"took effect and was replaced", "did not", "later"} {
		for _, exists := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, exists=%v", mode, exists), func(t *testing.T) {
				l := &lossy{Backend: mem.New(), mode: mode}
				o, err := NewObjects[account](store.New(l, store.Options{}), ObjectOptions{Prefix: "accounts"})
				if err != nil {
					t.Fatal(err)
				}
				if exists {
					if err := o.Update(t.Context(), "alice", func(*account) error { return nil }); err != nil {
						t.Fatal(err)
					}
				}
				l.lost = 1
				if _, err := o.Do(t.Context(), "alice", Request{Key: "k"}, payInto("x", 10)); err != nil {
					t.Fatal(err)
				}
				if a, err := o.Load(t.Context(), "alice"); err != nil || a.Balance != 10 {
					t.Errorf("got %+v, %v", a, err)
				}
			})
		}
	}
	t.Run("never known", func(t *testing.T) {
		l := &lossy{Backend: mem.New(), mode: "did not", lost: 1000}
		o, err := NewObjects[account](store.New(l, store.Options{}), ObjectOptions{Prefix: "accounts", Retry: store.Retry{Attempts: 3}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = o.Do(t.Context(), "alice", Request{Key: "k"}, payInto("x", 10))
		if _, unknown := errors.AsType[*UnknownOutcomeError](err); !unknown {
			t.Errorf("got %v", err)
		}
	})
}
