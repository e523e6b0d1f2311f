//go:build unix

package counter_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/counter"
	"github.com/holdfast-dev/holdfast/internal/worktest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/mem"
)

// clock is a time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func quota(t *testing.T, s *store.Store, now func() time.Time) *counter.Quota {
	t.Helper()
	q, err := counter.NewQuota(s, counter.QuotaOptions{Prefix: "q", Limit: 10, TTL: time.Hour, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestQuota(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	defer s.Close()
	c := &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	q := quota(t, s, c.time)
	ctx := t.Context()
	usage := func(want string) {
		t.Helper()
		u, err := q.Usage(ctx, "seats")
		if got := fmt.Sprintf("%d %d %d", u.Used, u.Held, u.Left); err != nil || got != want {
			t.Errorf("used, held, left: %s, %v, want %s", got, err, want)
		}
	}
	reserve := func(id string, n int64, want bool) counter.Reservation {
		t.Helper()
		r, err := q.Reserve(ctx, "seats", counter.Request{ID: id, Amount: n})
		if err != nil || r.Granted != want {
			t.Errorf("reserve %d: %+v, %v", n, r, err)
		}
		return r
	}
	settle := func(what string, f func() (counter.Outcome, error), want counter.Outcome) {
		t.Helper()
		if got, err := f(); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", what, got, err, want)
		}
	}
	confirm := func(id string) func() (counter.Outcome, error) {
		return func() (counter.Outcome, error) { return q.Confirm(ctx, "seats", id) }
	}
	release := func(id string) func() (counter.Outcome, error) {
		return func() (counter.Outcome, error) { return q.Release(ctx, "seats", id) }
	}
	reserve("a", 4, true)
	reserve("b", 6, true)
	if r := reserve("c", 1, false); r.Left != 0 || r.Err() == nil {
		t.Errorf("%+v", r)
	}
	usage("0 10 0")
	// The same reservation again is the same one; another amount is a mistake.
	reserve("a", 4, true)
	if _, err := q.Reserve(ctx, "seats", counter.Request{ID: "a", Amount: 5}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("another amount: %v", err)
	}
	usage("0 10 0")
	settle("confirm", confirm("a"), counter.Confirmed)
	settle("confirm again", confirm("a"), counter.Confirmed)
	usage("4 6 0")
	settle("release a confirmed one", release("a"), counter.Confirmed)
	settle("release", release("b"), counter.Released)
	settle("release again", release("b"), counter.Lapsed)
	settle("confirm a released one", confirm("b"), counter.Lapsed)
	settle("release what never was", release("x"), counter.Lapsed)
	usage("4 0 6")

	reserve("d", 6, true)
	c.pass(time.Hour - 1)
	reserve("e", 1, false)
	c.pass(1)
	settle("confirm after expiry", confirm("d"), counter.Lapsed)
	reserve("e", 6, true)
	settle("release after expiry", release("d"), counter.Lapsed)
	usage("4 6 0")
	c.pass(time.Hour)
	settle("a confirmation that is forgotten", confirm("a"), counter.Lapsed)

	if r, err := q.GiveBack(ctx, "seats", 5); err != nil || r.Applied || r.Value != 4 {
		t.Errorf("give back more than is used: %v, %v", r, err)
	}
	if r, err := q.GiveBack(ctx, "seats", 3); err != nil || !r.Applied || r.Value != 1 {
		t.Errorf("give back: %v, %v", r, err)
	}
	usage("1 0 9")
	if _, err := q.Reserve(ctx, "seats", counter.Request{Amount: 0}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("nothing: %v", err)
	}
}

// Reservations, confirmations, releases and crashes (a reservation that nobody
// comes back to) at once: never more than the limit is confirmed and held, and
// in the end everything that was not confirmed is free again.
func TestQuotaInParallel(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := open(t, address(t, kind))
			c := &clock{now: time.Now()}
			q := quota(t, s, c.time)
			ctx := patience(t)
			var confirmed, refused atomic.Int64
			together(8, func(i int) {
				for n := range 6 {
					r, err := q.Reserve(ctx, "seats", counter.Request{Amount: 1 + int64(i%2)})
					if err != nil {
						t.Error(err)
						return
					}
					if !r.Granted {
						refused.Add(1)
						continue
					}
					var out counter.Outcome
					switch (i + n) % 3 {
					case 0:
						out, err = q.Confirm(ctx, "seats", r.ID)
						if out == counter.Confirmed {
							confirmed.Add(r.Amount)
						}
					case 1:
						_, err = q.Release(ctx, "seats", r.ID)
					}
					if err != nil {
						t.Error(err)
					}
					if u, err := q.Usage(ctx, "seats"); err != nil || u.Used+u.Held > 10 || u.Left < 0 {
						t.Errorf("%+v, %v", u, err)
					}
				}
			})
			c.pass(2 * time.Hour)
			u, err := q.Usage(ctx, "seats")
			if err != nil || u.Used != confirmed.Load() || u.Held != 0 || u.Left != 10-confirmed.Load() {
				t.Errorf("%+v, %v, want %d used and nothing held (%d refusals)", u, err, confirmed.Load(), refused.Load())
			}
		})
	}
}

// A holder is killed, another one is paused past its time. The first one's share
// goes back; the second one's is given to somebody else meanwhile, and when it
// goes on, by a clock that says that it is in time, its confirmation is refused.
func TestQuotaHoldersCrashAndPause(t *testing.T) {
	for _, kind := range shared {
		t.Run(kind, func(t *testing.T) {
			url := address(t, kind)
			s := open(t, url)
			killed, paused := worktest.Start(t, "hold", url), worktest.Start(t, "hold", url)
			killed.Expect("ready")
			paused.Expect("ready")
			killed.Ask("reserve 4", "reserved")
			id := paused.Ask("reserve 6", "reserved")
			killed.Kill()
			paused.Stop()

			soon := quota(t, s, time.Now)
			ctx := patience(t)
			if r, err := soon.Reserve(ctx, "seats", counter.Request{Amount: 1}); err != nil || r.Granted {
				t.Errorf("before the expiry: %+v, %v", r, err)
			}
			later := quota(t, s, func() time.Time { return time.Now().Add(2 * time.Hour) })
			r, err := later.Reserve(ctx, "seats", counter.Request{Amount: 10})
			if err != nil || !r.Granted {
				t.Fatalf("after the expiry: %+v, %v", r, err)
			}
			paused.Continue()
			if got := paused.Ask("confirm "+id, "confirm"); got != counter.Lapsed.String() {
				t.Errorf("the paused holder's confirmation: %s", got)
			}
			if out, err := later.Confirm(ctx, "seats", r.ID); err != nil || out != counter.Confirmed {
				t.Errorf("the new holder's confirmation: %v, %v", out, err)
			}
			if u, err := later.Usage(ctx, "seats"); err != nil || u.Used != 10 || u.Left != 0 {
				t.Errorf("%+v, %v", u, err)
			}
			if lines := paused.End(); len(lines) > 0 {
				t.Errorf("the holder says %s", strings.Join(lines, "; "))
			}
		})
	}
}

func TestQuotaOpenIsBounded(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	defer s.Close()
	q, err := counter.NewQuota(s, counter.QuotaOptions{Prefix: "q", Limit: 10, MaxOpen: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		_, err := q.Reserve(t.Context(), "x", counter.Request{ID: fmt.Sprint(i), Amount: 1})
		if errors.Is(err, store.ErrInvalid) != (i == 2) {
			t.Errorf("reservation %d: %v", i, err)
		}
	}
	open, err := q.Open(t.Context(), "x")
	if err != nil || len(open) != 2 || open[1].ID != "1" {
		t.Errorf("open: %v, %v", open, err)
	}
}
