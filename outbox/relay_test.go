package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A relay whose lease has run out can neither acknowledge nor fail nor give back
// what its successor holds.
func TestLateRelay(t *testing.T) {
	for _, outcome := range []string{"publishes", "fails", "stops"} {
		t.Run(outcome, func(t *testing.T) {
			everywhere(t, func(t *testing.T, r *rig) {
				r.add(t, text("a", "a1"), text("a", "a2"))
				inside, goOn := make(chan struct{}), make(chan struct{})
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				late := r.newRelay(t, RelayOptions{}, func(_ context.Context, d Delivery) error {
					if string(d.Payload) == "a1" {
						close(inside)
						<-goOn
					}
					switch outcome {
					case "fails":
						return errors.New("no")
					case "stops":
						stop()
						return ctx.Err()
					}
					return nil
				})
				var lateStats Stats
				var wg sync.WaitGroup
				wg.Go(func() {
					var err error
					if lateStats, err = late.Once(ctx); err != nil {
						t.Error(err)
					}
				})
				<-inside
				r.leasesEnd(t)
				// The successor is inside publish while the late one comes to its
				// end, and fails then: the messages must still be there.
				successor := r.newRelay(t, RelayOptions{}, func(context.Context, Delivery) error {
					close(goOn)
					wg.Wait()
					return errors.New("not now")
				})
				if s := once(t, successor); s != (Stats{Claimed: 2, Failed: 1}) {
					t.Errorf("successor: %+v", s)
				}
				if want := map[string]int{"publishes": 2, "fails": 1, "stops": 0}[outcome]; lateStats.Lost != want || lateStats.Published != 0 || lateStats.Failed != 0 {
					t.Errorf("late: %+v, want %d lost", lateStats, want)
				}
				if b := r.backlog(t); b.Waiting != 2 {
					t.Errorf("backlog %+v", b)
				}
				c := &collector{}
				r.leasesEnd(t)
				once(t, r.newRelay(t, RelayOptions{}, c.publish))
				if got := c.taken(); got != "a1 a2" {
					t.Errorf("published %q", got)
				} else if c.full[0].Try != 3 {
					t.Errorf("try %d", c.full[0].Try)
				}
			})
		})
	}
}

// Several relays at once, with failures, while messages are added: everything is
// published, each key in order, and without a crash exactly once.
func TestRelaysAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		const keys, each, relays = 7, 30, 4
		var mu sync.Mutex
		seen := map[string][]string{}
		total := 0
		ctx, stop := context.WithCancel(t.Context())
		publish := func(_ context.Context, d Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			if rand.IntN(10) == 0 {
				return errors.New("no")
			}
			seen[d.Key] = append(seen[d.Key], string(d.Payload))
			if total++; total == (keys+1)*each {
				stop()
			}
			return nil
		}
		var wg sync.WaitGroup
		for range relays {
			relay := r.newRelay(t, RelayOptions{Poll: time.Millisecond, Keys: 3, Run: 4, MaxTries: 1000}, publish)
			wg.Go(func() {
				if err := relay.Run(ctx); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		for k := range keys {
			wg.Go(func() {
				for i := range each {
					r.add(t, text(fmt.Sprint("key", k), fmt.Sprint(i)))
				}
			})
		}
		wg.Go(func() {
			for i := range each {
				r.add(t, text("", fmt.Sprint(i)))
			}
		})
		wg.Wait()
		for key, got := range seen {
			want := make([]string, each)
			for i := range want {
				want[i] = fmt.Sprint(i)
			}
			if key == "" {
				slices.Sort(got)
				slices.Sort(want)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%q: %v", key, got)
			}
		}
		if b := r.backlog(t); b != (Backlog{}) {
			t.Errorf("backlog %+v", b)
		}
	})
}

// Keys that can not be published, however many, do not hide one that can.
func TestBlockedKeysHideNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		var messages []Message
		refuse := map[string]bool{}
		for i := range 50 {
			messages = append(messages, text(fmt.Sprintf("blocked%02d", i), fmt.Sprint(i)))
			refuse[fmt.Sprint(i)] = true
		}
		r.add(t, append(messages, text("z", "z1"), text("z", "z2"))...)
		c := &collector{refuse: refuse}
		relay := r.newRelay(t, RelayOptions{MaxTries: 1, Keys: 2, Run: 1}, c.publish)
		for range 60 {
			if once(t, relay).Claimed == 0 {
				break
			}
		}
		if got := c.taken(); got != "z1 z2" {
			t.Errorf("published %q", got)
		}
		// A busy key at the front leaves room for others.
		r.add(t, text("a", "a1"), text("a", "a2"), text("a", "a3"), text("z", "z3"))
		for range 2 {
			if s := once(t, r.carry(relay, 1)); s.Published != 1 {
				t.Errorf("stats %+v", s)
			}
		}
		if got := c.taken(); !strings.Contains(got, "z3") {
			t.Errorf("published %q", got)
		}
	})
}

// carry sets how many keys a relay claims from now on.
func (r *rig) carry(relay *Relay, keys int) *Relay {
	relay.opts.Keys = keys
	return relay
}

// A relay that is told to stop gives back what it has not published, at once and
// without counting a try.
func TestStopGivesBack(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		r.add(t, text("a", "a1"), text("a", "a2"), text("b", "b1"))
		ctx, stop := context.WithCancel(t.Context())
		relay := r.newRelay(t, RelayOptions{Parallel: 1}, func(ctx context.Context, d Delivery) error {
			stop()
			<-ctx.Done()
			return ctx.Err()
		})
		if err := relay.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		c := &collector{}
		if s := once(t, r.newRelay(t, RelayOptions{Parallel: 1}, c.publish)); s.Published != 3 || c.taken() != "a1 a2 b1" {
			t.Errorf("stats %+v", s)
		}
		for _, d := range c.full {
			if d.Try != 1 {
				t.Errorf("%s: try %d", d.Payload, d.Try)
			}
		}
	})
}

// A publisher that hangs loses its context before the lease ends, and the
// message counts as failed.
func TestPublishEndsWithTheLease(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		r.add(t, text("a", "a1"), text("a", "a2"))
		relay := r.newRelay(t, RelayOptions{Lease: 200 * time.Millisecond}, func(ctx context.Context, d Delivery) error {
			<-ctx.Done()
			return ctx.Err()
		})
		// On a busy machine a claim may outlast its own lease; then nothing is
		// tried.
		for tried := 0; tried == 0; {
			s := once(t, relay)
			if s.Published != 0 {
				t.Fatalf("stats %+v", s)
			}
			tried = s.Failed + s.Lost
		}
	})
}

func TestWake(t *testing.T) {
	r, err := openSQLite(t.TempDir() + "/o.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	if err := r.o.Create(t.Context(), r.h); err != nil {
		t.Fatal(err)
	}
	published := make(chan string)
	relay := r.newRelay(t, RelayOptions{Poll: time.Hour}, func(_ context.Context, d Delivery) error {
		published <- string(d.Payload)
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = relay.Run(ctx) })
	for i := range 3 {
		r.add(t, text("", fmt.Sprint(i)))
		relay.Wake()
		if got := <-published; got != fmt.Sprint(i) {
			t.Errorf("got %s", got)
		}
	}
	stop()
	wg.Wait()
}
