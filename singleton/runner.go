package singleton

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/store"
)

// Options are for [New]. The zero value is useful. All instances must agree on
// Prefix.
type Options struct {
	// Prefix is where the records and leases live; empty means "singleton".
	Prefix string
	// TTL is after which time without a sign of life a runner counts as
	// vanished; 0 means 15 s.
	TTL time.Duration
	// Holder names this instance to people; empty means host and process.
	Holder string
	// Poll is how often an instance looks whether a run of another one is
	// over; 0 means a fifth of TTL.
	Poll time.Duration
	// OnEvent is told what happens, from the goroutines of the jobs; nil means
	// nobody is.
	OnEvent func(Event)
	// Clock is for tests; nil means lease.SystemClock.
	Clock lease.Clock
}

// EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	Started EventKind = "started"
	Ended   EventKind = "ended"    // with Err if the job failed
	Skips   EventKind = "skipped"  // ticks were left out; Skipped says how many
	Gone    EventKind = "vanished" // another instance's run of Tick vanished
	Trouble EventKind = "trouble"  // the store failed, or the lease was lost; it is tried again
	Ahead   EventKind = "ahead"    // the cursor, Tick, is in the future of this clock
)

// Event is something that happened to a job.
type Event struct {
	Kind    EventKind
	Job     string
	Tick    time.Time
	Attempt int
	Skipped int
	Err     error
}

// Runner runs jobs together with the other instances. It is safe for
// concurrent use.
type Runner struct {
	s      *store.Store
	opts   Options
	leases *lease.Manager
	jobs   []*scheduled
}

// lookAgain bounds how long a runner sleeps, so that it notices when the wall
// clock was set.
const lookAgain = 30 * time.Second

// skew is how far the cursor may be ahead before it is an event.
const skew = time.Minute

// New returns a runner of jobs on s. Mistakes in jobs are *store.InvalidError;
// stores without the conditions are refused with *store.UnsupportedError.
func New(s *store.Store, opts Options, jobs ...Job) (*Runner, error) {
	opts.Prefix = cmp.Or(opts.Prefix, "singleton")
	opts.TTL = cmp.Or(opts.TTL, 15*time.Second)
	opts.Poll = cmp.Or(opts.Poll, opts.TTL/5)
	if opts.Clock == nil {
		opts.Clock = lease.SystemClock{}
	}
	if opts.OnEvent == nil {
		opts.OnEvent = func(Event) {}
	}
	leases, err := lease.New(s, lease.Options{Prefix: opts.Prefix, TTL: opts.TTL, Holder: opts.Holder, Clock: opts.Clock})
	if err != nil {
		return nil, err
	}
	r := &Runner{s: s, opts: opts, leases: leases}
	names := map[string]bool{}
	for _, j := range jobs {
		job, err := newScheduled(j, opts.Clock.Now())
		if err != nil {
			return nil, err
		}
		if names[j.Name] {
			return nil, &store.InvalidError{Op: "new runner", What: fmt.Sprintf("job %q", j.Name), Why: "it is there twice"}
		}
		names[j.Name] = true
		r.jobs = append(r.jobs, job)
	}
	return r, nil
}

func (r *Runner) now() time.Time         { return r.opts.Clock.Now().Round(0).UTC() }
func (r *Runner) key(name string) string { return r.opts.Prefix + "/job/" + name }

func (r *Runner) object(name string) (*lease.Guarded, error) {
	return lease.NewGuarded(r.s, r.key(name))
}

// Run takes part in all jobs until ctx ends, waits for those that this instance
// is running, and returns the cause of ctx. Their contexts end with it; a job
// that returns then is noted with what it returned.
func (r *Runner) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, job := range r.jobs {
		wg.Go(func() { r.loop(ctx, job) })
	}
	<-ctx.Done()
	wg.Wait()
	return context.Cause(ctx)
}

// Inspect reads the record of a job. A job that has none was never looked at.
func (r *Runner) Inspect(ctx context.Context, name string) (State, error) {
	g, err := r.object(name)
	if err != nil {
		return State{}, err
	}
	o, err := g.Read(ctx)
	if err != nil || !o.Exists {
		return State{}, err
	}
	return decode(r.key(name), o)
}

// Reset moves the cursor of a job to cursor, back or forth, waiting for a run
// that is going on. To move it back lets ticks run that have run already.
func (r *Runner) Reset(ctx context.Context, name string, cursor time.Time) error {
	g, err := r.object(name)
	if err != nil {
		return err
	}
	return r.leases.Do(ctx, name, func(ctx context.Context, l *lease.Lease) error {
		_, err := r.change(ctx, g, name, l.Token(), func(s *State) error {
			s.Cursor = cursor.UTC().Round(0)
			return nil
		})
		return err
	})
}

// change is the one place where a record is written.
func (r *Runner) change(ctx context.Context, g *lease.Guarded, name string, token lease.Token, f func(*State) error) (State, error) {
	var out State
	_, err := g.Update(ctx, token, func(o lease.Object) ([]byte, error) {
		// The first instance ever begins now.
		s := State{Cursor: r.now()}
		if o.Exists {
			var err error
			if s, err = decode(r.key(name), o); err != nil {
				return nil, err
			}
		}
		if err := f(&s); err != nil {
			return nil, err
		}
		out = s
		return s.encode()
	})
	return out, err
}

// loop takes part in one job.
func (r *Runner) loop(ctx context.Context, job *scheduled) {
	failures := 0
	for ctx.Err() == nil {
		wait, err := r.step(ctx, job)
		if err != nil && ctx.Err() == nil {
			r.opts.OnEvent(Event{Kind: Trouble, Job: job.Name, Err: err})
			failures = min(failures+1, 5)
			wait = r.opts.Poll<<failures + rand.N(r.opts.Poll)
		} else {
			failures = 0
		}
		fired, stop := r.opts.Clock.After(min(wait, lookAgain))
		select {
		case <-fired:
		case <-ctx.Done():
			stop()
		}
	}
}

// step looks at the job, does what is due if it gets the lease, and returns
// when to look again.
func (r *Runner) step(ctx context.Context, job *scheduled) (time.Duration, error) {
	g, err := r.object(job.Name)
	if err != nil {
		return 0, err
	}
	o, err := g.Read(ctx)
	if err != nil {
		return 0, err
	}
	if o.Exists {
		s, err := decode(r.key(job.Name), o)
		if err != nil {
			return 0, err
		}
		if wait := r.rest(job, s); wait > 0 {
			return wait, nil
		}
	}
	l, err := r.leases.TryAcquire(ctx, job.Name)
	var held *lease.HeldError
	if errors.As(err, &held) {
		return min(r.opts.Poll/2+rand.N(r.opts.Poll), max(held.Remaining, time.Millisecond)), nil
	}
	if err != nil {
		return 0, err
	}
	return 0, errors.Join(r.serve(ctx, job, g, l), r.release(ctx, l))
}

// rest is for how long there is nothing to do: 0 when a tick is due or a
// claimed one is not over.
func (r *Runner) rest(job *scheduled, s State) time.Duration {
	if s.open() != nil {
		return 0
	}
	now := r.now()
	if s.Cursor.Sub(now) > skew {
		r.opts.OnEvent(Event{Kind: Ahead, Job: job.Name, Tick: s.Cursor})
	}
	next := job.next(s.Cursor)
	if next.IsZero() {
		return lookAgain
	}
	return next.Sub(now)
}

// release gives the lease up, also when the runner is ending. Its loss was
// noticed at the record already, if it matters.
func (r *Runner) release(ctx context.Context, l *lease.Lease) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releasePatience)
	defer cancel()
	err := l.Release(ctx)
	var lost *lease.LostError
	if errors.As(err, &lost) {
		return nil
	}
	return err
}

// releasePatience bounds the last writes of a runner that is ending.
const releasePatience = 5 * time.Second
