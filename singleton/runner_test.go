package singleton

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/fakeclock"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/mem"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// server is started once for the package; nil where it can not be.
var server *pgtest.Server

// patience is when a test gives up on something that should happen at once.
const patience = 20 * time.Second

const ttl = 10 * time.Second

var noon = time.Date(2026, 5, 5, 12, 0, 0, 0, time.UTC)

// instance is one instance of an application, with clocks of its own: one that
// says when ticks are due, and one that leases are measured by. On the first,
// nobody waits but the loop of the job, so the test knows when that sleeps.
type instance struct {
	*Runner
	clock, lapse *fakeclock.Clock
	events       chan Event
	stop         func()
}

// newInstance makes an instance on b that is not running yet. A nil clock
// stands at noon.
func newInstance(t *testing.T, b backend.Backend, clock *fakeclock.Clock, holder string, jobs ...Job) *instance {
	t.Helper()
	if clock == nil {
		clock = fakeclock.New(noon)
	}
	in := &instance{clock: clock, lapse: fakeclock.New(noon), events: make(chan Event, 10_000)}
	s := store.New(b, store.Options{})
	var err error
	in.Runner, err = New(s, Options{TTL: ttl, Clock: clock, OnEvent: func(e Event) { in.events <- e }}, jobs...)
	if err != nil {
		t.Fatal(err)
	}
	in.leases, err = lease.New(s, lease.Options{Prefix: "singleton", TTL: ttl, Holder: holder, Clock: in.lapse})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// start runs the instance until stop or the end of the test.
func (in *instance) start(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- in.Run(ctx) }()
	in.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("the runner ended with %v", err)
		}
	})
	t.Cleanup(func() { in.stop() })
}

// until moves both clocks by step whenever the loop sleeps, until an event of
// this kind comes, and returns that. Step 0 leaves the clocks alone.
func (in *instance) until(t *testing.T, kind EventKind, step time.Duration) Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		asleep := make(chan struct{})
		stopped, stop := context.WithCancel(ctx)
		go func() {
			if step > 0 && in.clock.Waiting(stopped, 1) == nil {
				close(asleep)
			}
		}()
		select {
		case e := <-in.events:
			stop()
			if e.Kind == kind {
				return e
			}
			if e.Kind == Trouble {
				t.Logf("trouble: %v", e.Err)
			}
		case <-asleep:
			stop()
			// What the loop said before it slept comes first.
			if len(in.events) == 0 {
				in.clock.Advance(step)
				in.lapse.Advance(step)
			}
		case <-ctx.Done():
			stop()
			t.Fatalf("no event %q", kind)
		}
	}
}

func (in *instance) last(t *testing.T, name string) (State, Entry) {
	t.Helper()
	s, err := in.Inspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Last) == 0 {
		return s, Entry{}
	}
	return s, s.Last[len(s.Last)-1]
}

// begun makes the record of a job with its cursor at noon.
func begun(t *testing.T, b backend.Backend, jobs ...Job) {
	t.Helper()
	in := newInstance(t, b, nil, "first")
	for _, j := range jobs {
		if err := in.Reset(t.Context(), j.Name, noon); err != nil {
			t.Fatal(err)
		}
	}
}

// effects counts starts by tick.
type effects struct {
	mu sync.Mutex
	of map[time.Time]int
}

func (e *effects) run(_ context.Context, r Run) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil {
		e.of = map[time.Time]int{}
	}
	e.of[r.Tick]++
	return nil
}

// Five instances, all due at the same moment: every tick has one effect.
func TestOneEffectPerTick(t *testing.T) {
	for _, kind := range []string{"mem", "file", "sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			var b backend.Backend = mem.New()
			var err error
			switch kind {
			case "file":
				b, err = file.Open(t.Context(), t.TempDir(), file.Options{NoSync: true})
			case "sqlite":
				b, err = sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), sqlite.Options{})
			case "postgres":
				b, err = postgres.Open(t.Context(), pgtest.Need(t, server).URL("postgres"), postgres.Options{Table: "ticks"})
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = b.Close() })
			var did effects
			j := Job{Name: "job", Schedule: "* * * * *", Run: did.run}
			begun(t, b, j)
			// They share the clock of the ticks, so that all are due at the same
			// moment; that of the leases stands still.
			clock := fakeclock.New(noon)
			events := make(chan Event, 10_000)
			for i := range 5 {
				in := newInstance(t, b, clock, fmt.Sprint(i), j)
				in.opts.OnEvent = func(e Event) { events <- e }
				in.start(t)
			}
			const ticks = 20
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for i := range ticks {
				// All five sleep until the tick, or before another look at a run.
				if err := clock.Waiting(ctx, 5); err != nil {
					t.Fatal(err)
				}
				tick := noon.Add(time.Duration(i+1) * time.Minute)
				clock.Advance(tick.Sub(clock.Now()))
				for e := (Event{}); e.Kind != Ended; {
					select {
					case e = <-events:
					case <-ctx.Done():
						t.Fatalf("tick %s is not run", tick)
					}
					if e.Kind != Ended && e.Kind != Started || !e.Tick.Equal(tick) {
						t.Errorf("at tick %s: %+v", tick, e)
					}
				}
			}
			did.mu.Lock()
			defer did.mu.Unlock()
			for tick, n := range did.of {
				if n != 1 {
					t.Errorf("tick %s: %d effects", tick, n)
				}
			}
			if len(did.of) != ticks {
				t.Errorf("%d ticks had effects, want %d", len(did.of), ticks)
			}
		})
	}
}

// A runner stands still in the middle of a tick. Another one calls the tick
// vanished, does not run it again, and goes on with the next; the first one's
// note that it is done comes late and is refused.
func TestVanished(t *testing.T) {
	b := mem.New()
	entered, goOn := make(chan Run, 1), make(chan struct{})
	slow := Job{Name: "job", Schedule: "* * * * *", Run: func(ctx context.Context, r Run) error {
		entered <- r
		<-goOn
		return nil
	}}
	var did effects
	quick := slow
	quick.Run = did.run
	begun(t, b, slow)
	ann, bob := newInstance(t, b, nil, "ann", slow), newInstance(t, b, nil, "bob", quick)
	ann.start(t)
	ann.until(t, Started, time.Minute)
	first := <-entered
	bob.start(t)
	gone := bob.until(t, Gone, time.Second)
	if !gone.Tick.Equal(first.Tick) || gone.Attempt != 1 {
		t.Errorf("gone: %+v", gone)
	}
	next := bob.until(t, Ended, time.Second)
	if !next.Tick.After(first.Tick) {
		t.Errorf("tick %s was run again by a job that is at most once", next.Tick)
	}
	close(goOn)
	late := ann.until(t, Trouble, 0)
	var stale *lease.StaleError
	if !errors.As(late.Err, &stale) {
		t.Errorf("the late note: %v, want *StaleError", late.Err)
	}
	s, _ := bob.last(t, "job")
	if e := s.Last[0]; !e.Tick.Equal(first.Tick) || e.Status != Vanished || e.Holder != "ann" {
		t.Errorf("the record: %+v", e)
	}
	did.mu.Lock()
	defer did.mu.Unlock()
	if did.of[first.Tick] != 0 {
		t.Errorf("%d effects of bob for the tick of ann", did.of[first.Tick])
	}
}

// With Rerun the tick is run again, as often as it says, with a higher token:
// the first one's effect, if it carries its token, comes to nothing.
func TestRerun(t *testing.T) {
	b := mem.New()
	g, err := lease.NewGuarded(store.New(b, store.Options{}), "effect")
	if err != nil {
		t.Fatal(err)
	}
	effect := func(ctx context.Context, r Run, who string) error {
		_, err := g.Save(ctx, r.Token, fmt.Append(nil, who))
		return err
	}
	entered, goOn := make(chan Run, 1), make(chan struct{})
	slow := Job{Name: "job", Schedule: "@daily", Rerun: 1, Run: func(ctx context.Context, r Run) error {
		entered <- r
		<-goOn
		return effect(context.WithoutCancel(ctx), r, "ann")
	}}
	quick := slow
	quick.Run = func(ctx context.Context, r Run) error { return effect(ctx, r, "bob") }
	begun(t, b, slow)
	ann, bob := newInstance(t, b, nil, "ann", slow), newInstance(t, b, nil, "bob", quick)
	ann.clock.Advance(12 * time.Hour)
	ann.start(t)
	first := <-entered
	bob.clock.Advance(12 * time.Hour)
	bob.start(t)
	again := bob.until(t, Ended, time.Second)
	if !again.Tick.Equal(first.Tick) || again.Attempt != 2 || again.Err != nil {
		t.Errorf("the second run: %+v", again)
	}
	close(goOn)
	var stale *lease.StaleError
	if e := ann.until(t, Ended, 0); !errors.As(e.Err, &stale) {
		t.Errorf("the effect of the first run: %v, want *StaleError", e.Err)
	}
	if o, err := g.Read(t.Context()); err != nil || string(o.Value) != "bob" {
		t.Errorf("the effect is %q, %v", o.Value, err)
	}
	bob.stop() // the end is noted after it is told
	if s, e := bob.last(t, "job"); len(s.Last) != 2 || e.Status != Done || e.Attempt != 2 || e.Token <= first.Token {
		t.Errorf("the record: %+v", s)
	}
}

// Rerun is bounded: a tick that takes its runners down is given up.
func TestRerunIsBounded(t *testing.T) {
	b := mem.New()
	j := Job{Name: "job", Schedule: "@daily", Rerun: 2}
	begun(t, b, j)
	clock := fakeclock.New(noon.Add(12 * time.Hour))
	j.Run = func(ctx context.Context, r Run) error { <-ctx.Done(); return ctx.Err() }
	for attempt := 1; attempt <= 3; attempt++ {
		mortal := &mortal{Backend: b}
		in := newInstance(t, mortal, clock, "x", j)
		in.start(t)
		if e := in.until(t, Started, time.Second); e.Attempt != attempt {
			t.Fatalf("attempt %d, want %d", e.Attempt, attempt)
		}
		mortal.dead.Store(true)
		in.stop()
	}
	in := newInstance(t, b, clock, "x", j)
	in.start(t)
	gone := in.until(t, Gone, time.Second)
	next := in.until(t, Started, time.Minute)
	if gone.Attempt != 3 || !next.Tick.Equal(gone.Tick.Add(24*time.Hour)) || next.Attempt != 1 {
		t.Errorf("after %+v came %+v", gone, next)
	}
}

// mortal is a backend whose process dies: from then on it writes nothing.
type mortal struct {
	backend.Backend
	dead atomic.Bool
}

func (m *mortal) Capabilities() backend.Capabilities {
	caps := m.Backend.Capabilities()
	caps.Add, caps.Batch, caps.Watch = false, false, false
	return caps
}

func (m *mortal) Put(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
	if m.dead.Load() {
		return "", errors.New("the process is dead")
	}
	return m.Backend.Put(ctx, req)
}

// hooked is a backend that calls before each write of a job's record.
type hooked struct {
	mortal
	hook func(value []byte) error
}

func (h *hooked) Put(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
	if strings.Contains(req.Key, "/job/") {
		if err := h.hook(req.Value); err != nil {
			return "", err
		}
	}
	return h.Backend.Put(ctx, req)
}

// An instance is paused between its look and its claim while another one runs
// the tick: its claim is refused, and it runs nothing.
func TestPausedBeforeClaim(t *testing.T) {
	b := mem.New()
	reached, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := &hooked{mortal: mortal{Backend: b}, hook: func(value []byte) error {
		once.Do(func() { close(reached); <-goOn })
		return nil
	}}
	var did effects
	j := Job{Name: "job", Schedule: "@daily", Run: did.run}
	begun(t, b, j)
	ann, bob := newInstance(t, slow, nil, "ann", j), newInstance(t, b, nil, "bob", j)
	ann.clock.Advance(12 * time.Hour)
	bob.clock.Advance(12 * time.Hour)
	ann.start(t)
	<-reached
	bob.start(t)
	bob.until(t, Ended, time.Second)
	close(goOn)
	var stale *lease.StaleError
	if e := ann.until(t, Trouble, 0); !errors.As(e.Err, &stale) {
		t.Errorf("the late claim: %v, want *StaleError", e.Err)
	}
	ann.stop()
	if len(did.of) != 1 || did.of[noon.Add(12*time.Hour)] != 1 {
		t.Errorf("effects: %v", did.of)
	}
}

// A claim whose answer is lost is not run by who made it, whether it took
// effect or not: it is a vanished one then, or the tick is still to be claimed.
func TestUnknownClaim(t *testing.T) {
	for _, done := range []bool{false, true} {
		t.Run(fmt.Sprintf("done=%v", done), func(t *testing.T) {
			b := mem.New()
			lost := false
			lossy := &hooked{mortal: mortal{Backend: b}}
			lossy.hook = func(value []byte) error {
				if lost || !strings.Contains(string(value), "claimed") {
					return nil
				}
				lost = true
				if done {
					item, err := b.Get(t.Context(), "singleton/job/job")
					if err != nil {
						return err
					}
					req := backend.PutRequest{Key: item.Key, Value: value, Cond: backend.IfVersion(item.Version), Nonce: backend.NewNonce()}
					if _, err := b.Put(t.Context(), req); err != nil {
						return err
					}
				}
				return &backend.UnknownOutcomeError{Op: "put", Undurable: true, Err: errors.New("the connection broke")}
			}
			var did effects
			j := Job{Name: "job", Schedule: "@daily", Run: did.run}
			begun(t, b, j)
			in := newInstance(t, lossy, nil, "ann", j)
			in.start(t)
			if e := in.until(t, Trouble, time.Hour); !errors.Is(e.Err, store.ErrUnknownOutcome) {
				t.Errorf("got %v", e.Err)
			}
			want := Ended
			if done {
				want = Gone
			}
			e := in.until(t, want, time.Second)
			in.stop()
			if n := did.of[e.Tick]; n > 1 || done == (n == 1) {
				t.Errorf("%d effects of tick %s", n, e.Tick)
			}
		})
	}
}
