package outbox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/store"
)

// collector is a publisher that remembers.
type collector struct {
	mu   sync.Mutex
	got  []string
	full []Delivery
	// refuse fails a message whose payload it holds.
	refuse map[string]bool
}

func (c *collector) publish(_ context.Context, d Delivery) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse[string(d.Payload)] {
		return errors.New("the receiver does not want \x00" + string(d.Payload))
	}
	c.got = append(c.got, string(d.Payload))
	c.full = append(c.full, d)
	return nil
}

func (c *collector) taken() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := strings.Join(c.got, " ")
	c.got = nil
	return out
}

func TestPublish(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		ids := r.add(t, Message{Key: "a", Topic: "orders", Header: map[string]string{"trace": "ä\n1"}, Payload: []byte("a1\x00\xff")}, text("a", "a2"), text("", "free"))
		if len(ids) != 3 || ids[0] >= ids[1] {
			t.Errorf("ids %v", ids)
		}
		undo := errors.New("undo")
		if err := r.inTx(t.Context(), func(tx guard.Handle) error {
			_, err := r.o.Add(t.Context(), tx, text("a", "never"), text("", "never"))
			return errors.Join(err, undo)
		}); !errors.Is(err, undo) {
			t.Fatal(err)
		}
		r.add(t, text("a", ""), text("a", "a4"))
		if b := r.backlog(t); b.Waiting != 5 || b.Dead != 0 || b.Oldest < 0 || b.Oldest > time.Minute {
			t.Errorf("backlog %+v", b)
		}
		c := &collector{}
		relay := r.newRelay(t, RelayOptions{}, c.publish)
		if s := once(t, relay); s != (Stats{Claimed: 5, Published: 5}) {
			t.Errorf("stats %+v", s)
		}
		if s := once(t, relay); s != (Stats{}) {
			t.Errorf("stats %+v", s)
		}
		var a []Delivery
		for _, d := range c.full {
			if d.Key == "a" {
				a = append(a, d)
			} else if d.Key != "" || string(d.Payload) != "free" {
				t.Errorf("got %+v", d)
			}
		}
		if len(a) != 4 || string(a[0].Payload) != "a1\x00\xff" || a[0].Topic != "orders" || a[0].Header["trace"] != "ä\n1" ||
			a[0].ID != ids[0] || string(a[1].Payload) != "a2" || len(a[2].Payload) != 0 || string(a[3].Payload) != "a4" {
			t.Errorf("got %+v", a)
		}
		for _, d := range c.full {
			if d.Try != 1 || time.Since(d.Added).Abs() > time.Minute {
				t.Errorf("try %d, added %s", d.Try, d.Added)
			}
		}
		if b := r.backlog(t); b != (Backlog{}) {
			t.Errorf("backlog %+v", b)
		}
		// IDs do not begin again when the table is empty.
		if again := r.add(t, text("a", "a5")); again[0] <= ids[2] {
			t.Errorf("id %d after %v", again, ids)
		}
	})
}

// A message that fails stops its key, and no other.
func TestFailureStopsItsKey(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		r.add(t, text("a", "a1"), text("a", "a2"), text("a", "a3"), text("b", "b1"), text("b", "b2"))
		c := &collector{refuse: map[string]bool{"a2": true}}
		relay := r.newRelay(t, RelayOptions{Parallel: 1}, c.publish)
		if s := once(t, relay); s != (Stats{Claimed: 5, Published: 3, Failed: 1}) || c.taken() != "a1 b1 b2" {
			t.Errorf("stats %+v", s)
		}
		r.leasesEnd(t)
		if s := once(t, relay); s.Failed != 1 || s.Published != 0 || c.taken() != "" {
			t.Errorf("stats %+v", s)
		}
		c.refuse = nil
		r.leasesEnd(t)
		if s := once(t, relay); s != (Stats{Claimed: 2, Published: 2}) || c.taken() != "a2 a3" {
			t.Errorf("stats %+v", s)
		}
		if d := c.full[len(c.full)-2:]; d[0].Try != 3 || d[1].Try != 1 {
			t.Errorf("tries %d, %d", d[0].Try, d[1].Try)
		}
	})
}

// During its wait after a failure, a message still stops its key.
func TestBackoffKeepsTheOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		r.add(t, text("a", "a1"), text("a", "a2"))
		c := &collector{refuse: map[string]bool{"a1": true}}
		relay, err := r.relay(c.publish, RelayOptions{Backoff: time.Hour, MaxBackoff: time.Hour, Logger: quick(RelayOptions{}).Logger})
		if err != nil {
			t.Fatal(err)
		}
		once(t, relay)
		c.refuse = nil
		if s := once(t, relay); s.Claimed != 0 || c.taken() != "" {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestDeadLetters(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		ids := r.add(t, text("a", "a1"), text("a", "a2"), text("a", "a3"), text("", "free"), text("b", "b1"))
		c := &collector{refuse: map[string]bool{"a1": true, "free": true}}
		relay := r.newRelay(t, RelayOptions{MaxTries: 2}, c.publish)
		for range 4 {
			once(t, relay)
			r.leasesEnd(t)
		}
		if got := c.taken(); got != "b1" {
			t.Errorf("published %q: the dead letter must stop its key", got)
		}
		if b := r.backlog(t); b.Waiting != 2 || b.Dead != 2 {
			t.Errorf("backlog %+v", b)
		}
		dead, err := r.o.Dead(t.Context(), r.h, 0, 10)
		if err != nil || len(dead) != 2 || dead[0].ID != ids[0] || dead[0].Key != "a" || dead[0].Tries != 2 ||
			dead[0].LastError != "the receiver does not want ?a1" || dead[1].Key != "" || string(dead[1].Payload) != "free" {
			t.Fatalf("dead letters %+v, %v", dead, err)
		}
		if page, err := r.o.Dead(t.Context(), r.h, dead[0].ID, 1); err != nil || len(page) != 1 || page[0].ID != dead[1].ID {
			t.Errorf("dead letters %+v, %v", page, err)
		}
		if err := r.o.Requeue(t.Context(), r.h, ids[1]); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a message that is not dead: %v", err)
		}
		if err := r.o.Discard(t.Context(), r.h, ids[1]); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a message that is not dead: %v", err)
		}
		if err := errors.Join(r.o.Requeue(t.Context(), r.h, ids[0]), r.o.Discard(t.Context(), r.h, ids[3])); err != nil {
			t.Fatal(err)
		}
		c.refuse = nil
		if s := once(t, relay); s.Published != 3 || c.taken() != "a1 a2 a3" {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestSkipDead(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		r.add(t, text("a", "a1"), text("a", "a2"), text("a", "a3"), text("a", "a4"))
		c := &collector{refuse: map[string]bool{"a1": true, "a3": true}}
		relay := r.newRelay(t, RelayOptions{MaxTries: 1, OnDead: SkipDead}, c.publish)
		for range 5 {
			once(t, relay)
		}
		if got := c.taken(); got != "a2 a4" {
			t.Errorf("published %q", got)
		}
		if b := r.backlog(t); b.Dead != 2 || b.Waiting != 0 {
			t.Errorf("backlog %+v", b)
		}
	})
}

// A message whose publication ends the process each time becomes a dead letter
// as well.
func TestTriesWithoutResult(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		r.add(t, text("a", "a1"), text("a", "a2"))
		c := &collector{}
		relay := r.newRelay(t, RelayOptions{MaxTries: 3}, c.publish)
		for range 3 {
			if got, err := relay.claim(t.Context(), "a crashed relay", "", 10); err != nil || len(got) != 1 || len(got[0]) != 2 {
				t.Fatalf("got %v, %v", got, err)
			}
			r.leasesEnd(t)
		}
		if s := once(t, relay); s != (Stats{Claimed: 2, Dead: 1}) || c.taken() != "" {
			t.Errorf("stats %+v", s)
		}
		if dead, err := r.o.Dead(t.Context(), r.h, 0, 1); err != nil || len(dead) != 1 || !strings.Contains(dead[0].LastError, "each of 3 tries") {
			t.Errorf("dead letters %+v, %v", dead, err)
		}
	})
}

// Two transactions with the same key: the second waits in Add for the end of the
// first, so that it can not commit before it with a later id.
func TestAddWaitsForTheSameKey(t *testing.T) {
	r, err := openPostgres(t.Context(), postgresDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	if err := r.o.Create(t.Context(), r.h); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var first, second []int64
	var wg sync.WaitGroup
	committed := false
	err = r.inTx(ctx, func(tx guard.Handle) (err error) {
		first, err = r.o.Add(ctx, tx, text("a", "first"))
		if err != nil {
			return err
		}
		wg.Go(func() {
			if err := r.inTx(ctx, func(tx guard.Handle) (err error) {
				second, err = r.o.Add(ctx, tx, text("a", "second"))
				if !committed {
					t.Error("the second Add did not wait")
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		})
		// Another key does not wait.
		r.add(t, text("b", "other"))
		for waiting := 0; waiting == 0; {
			if err := r.h.QueryRow(ctx, "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&waiting); err != nil {
				return err
			}
		}
		var visible int
		if err := r.h.QueryRow(ctx, "SELECT count(*) FROM holdfast_outbox WHERE lane = 'ka'").Scan(&visible); err != nil || visible != 0 {
			t.Errorf("%d visible, %v", visible, err)
		}
		committed = true
		return nil
	})
	wg.Wait()
	if err != nil || second[0] <= first[0] {
		t.Errorf("ids %v, %v, %v", first, second, err)
	}
}

// Many processes that start at once on an empty database.
func TestCreateAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		if _, err := r.h.Exec(t.Context(), "DROP TABLE holdfast_outbox"); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := r.o.Create(t.Context(), r.h); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r.add(t, text("a", "x"))
	})
}

// Transactions that add to the same keys in opposite orders do not deadlock.
func TestAddOfSeveralKeys(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 10 {
					m := []Message{text("a", "x"), text("b", "x"), text("c", "x"), text("", "x")}
					if i%2 == 0 {
						slices.Reverse(m)
					}
					if err := r.inTx(t.Context(), func(tx guard.Handle) error {
						_, err := r.o.Add(t.Context(), tx, m...)
						return err
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if b := r.backlog(t); b.Waiting != 8*10*4 {
			t.Errorf("backlog %+v", b)
		}
	})
}

func TestRefusedArguments(t *testing.T) {
	if _, err := New(guard.MySQL, Options{}); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	if _, err := New(guard.SQLite, Options{Table: "a b"}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	o, err := New(guard.SQLite, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewRelaySQL(o, nil, nil, RelayOptions{}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if _, err := NewRelayPgx(o, nil, func(context.Context, Delivery) error { return nil }, RelayOptions{}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if _, err := o.Add(t.Context(), guard.SQL(nil, guard.Postgres), text("a", "")); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	for _, key := range []string{strings.Repeat("k", 256), "a\x00", "\xff"} {
		if _, err := o.Add(t.Context(), guard.SQL(nil, guard.SQLite), text(key, "")); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: %v", key, err)
		}
	}
}
