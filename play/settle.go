package play

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/play/app"
	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/report"
)

// settle handles events until the actor is held, paused, waiting or done.
func (r *run) settle(ctx context.Context, a *actor) error {
	sleep := sleepWatch{run: r}
	for r.failed == nil {
		var wait time.Duration
		switch a.phase {
		case running:
			settled, err := r.settleRunning(ctx, a, &sleep)
			if settled || err != nil {
				return err
			}
			wait = sleep.next()
		case serving:
			d, err := r.settleServing(ctx, a)
			if err != nil {
				return err
			}
			wait = d
		case held:
			return r.gather(ctx, a)
		default:
			return nil
		}
		if a.phase != running && a.phase != serving {
			continue
		}
		if err := r.next(ctx, wait); err != nil {
			return err
		}
	}
	return r.failed
}

// next handles one event, or returns after d without one.
func (r *run) next(ctx context.Context, d time.Duration) error {
	select { // without a timer when something is there already
	case ev := <-r.events:
		r.handle(ctx, ev)
		return nil
	case rep := <-r.replies:
		r.replied(rep)
		return nil
	default:
	}
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case ev := <-r.events:
		r.handle(ctx, ev)
	case rep := <-r.replies:
		r.replied(rep)
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// settleServing asks whether the actor's step waits for a lock: at once where
// another open transaction holds something that it wants, else after a while.
func (r *run) settleServing(ctx context.Context, a *actor) (time.Duration, error) {
	if r.world.exact() {
		if r.drain(); a.phase != serving {
			return 0, nil
		}
	}
	age := time.Since(a.released)
	if !r.mayWait(a) && age < askAfter {
		return askAfter - age, nil
	}
	waits, err := a.step.at.Waiting(ctx, []uint64{a.step.ID})
	if err != nil {
		return 0, err
	}
	if len(waits) > 0 && a.phase == serving {
		// The answer may have come while the question was under way.
		r.drain()
		if a.phase == serving {
			r.nowWaiting(a, waits[0])
		}
		return 0, nil
	}
	if r.mayWait(a) {
		return 0, nil
	}
	return askAfter, nil
}

// mayWait reports whether an open transaction of another actor holds a lock
// that the actor's step at the server wants.
func (r *run) mayWait(a *actor) bool {
	if r.world.exact() {
		return true
	}
	f := a.step.Footprint
	for _, b := range r.actors {
		if b == a {
			continue
		}
		for _, locks := range b.locks {
			if f.Unknown && len(locks) > 0 {
				return true
			}
			for _, l := range locks {
				for _, want := range f.Accesses {
					if want.Mode != explore.Read && want.Overlaps(l) {
						return true
					}
				}
			}
		}
	}
	return false
}

func (r *run) nowWaiting(a *actor, w gate.Wait) {
	a.phase, a.blocked = waiting, time.Now()
	var whom []string
	for _, conn := range w.For {
		if o := r.owners[connKey{a.step.at.Name(), conn}]; o != nil {
			whom = append(whom, r.world.name(o.number))
		}
	}
	r.rows[a.row].Kind = "blocked"
	r.rows[a.row].Note = "waits"
	if len(whom) > 0 {
		slices.Sort(whom)
		r.rows[a.row].Note = "waits for " + strings.Join(slices.Compact(whom), " and ")
	}
}

// settleRunning decides what silence of a running actor means.
func (r *run) settleRunning(ctx context.Context, a *actor, s *sleepWatch) (settled bool, err error) {
	if a.reply != nil {
		return true, r.settleTail(ctx, a)
	}
	idle, err := s.asleepFor()
	if err != nil {
		return false, err
	}
	if idle == 0 {
		return false, nil
	}
	if len(r.parked) > 0 {
		// The application sleeps and the focused request has not been
		// answered: the parked step is what it waits for.
		return false, r.assignParked(a)
	}
	if idle >= patience && !r.world.sole(a.number) && r.someoneElse(a) {
		a.phase = asleep
		r.event.Footprint = explore.Anything("a request waited inside the application")
		r.world.waited(a.number, r.event.Step, explore.Lock)
		r.addRow(report.Row{Actor: a.number, Kind: "blocked", Step: "(inside the application)",
			Note: "waits inside the application"})
		return true, nil
	}
	return false, nil
}

// someoneElse reports whether another request is under way, for which this one
// may be waiting.
func (r *run) someoneElse(a *actor) bool {
	return slices.ContainsFunc(r.actors, func(b *actor) bool {
		return b != a && b.phase != fresh && b.phase != done
	})
}

// settleTail waits, after the answer, until the application is quiet: what it
// still sends (a rollback after the answer) belongs to the request.
func (r *run) settleTail(ctx context.Context, a *actor) error {
	if err := r.quiet(ctx, quietLooks); err != nil {
		return err
	}
	if len(a.queue) > 0 {
		a.phase = held
		return r.failed
	}
	a.phase = done
	if len(r.parked) > 0 {
		return r.assignParked(nil)
	}
	return r.failed
}

// gather completes the queue of a request that sends several statements at
// once: when the application is quiet they have all arrived, and are put into an
// order that is the same in every run.
func (r *run) gather(ctx context.Context, a *actor) error {
	if !r.world.parallel() {
		return nil
	}
	if err := r.quiet(ctx, gatherLooks); err != nil {
		return err
	}
	slices.SortStableFunc(a.queue, func(s, t *heldStep) int { return strings.Compare(s.Label, t.Label) })
	return r.failed
}

// quietLooks is how many equal looks in a row make the application quiet. One
// is not enough: what a thread has sent before it fell asleep may still be on
// its way through the gate. A look takes about 0.06 ms; after the end of a
// request it is made for each run, and so costs more than where statements that
// are sent at once must be gathered.
const (
	quietLooks  = 6
	gatherLooks = 20
)

// quiet handles events until the application has been asleep for several looks,
// or for the time that the world allows.
func (r *run) quiet(ctx context.Context, looks int) error {
	end := time.Now().Add(r.world.tail())
	var last []app.Look
	same := 0
	for same < looks && r.failed == nil && time.Now().Before(end) {
		now, err := r.world.look()
		if err != nil {
			break // it has ended; that shows in the answers
		}
		if r.world.busy() || len(r.events)+len(r.replies) > 0 || last != nil && !slices.EqualFunc(last, now, app.Look.SameAs) {
			same = 0
		}
		same++
		last = now
		r.drain()
		if err := ctx.Err(); err != nil {
			return err
		}
		runtime.Gosched() // to the gate's goroutines
	}
	r.world.wasQuiet(same >= looks)
	r.drain()
	return r.failed
}

// assignParked gives the parked steps to whom they belong: to the focused
// request when it has not been answered, else to the one that was asleep.
func (r *run) assignParked(focused *actor) error {
	if len(r.parked) > 1 {
		return inconclusive("a statement could belong to several requests",
			"%d statements came at once: %s", len(r.parked), r.parked[0].Label)
	}
	s := r.parked[0]
	r.parked = nil
	to := focused
	if to == nil {
		sleepers := r.inPhase(asleep)
		if len(sleepers) != 1 {
			return inconclusive("a statement could belong to several requests",
				"%d requests wait inside the application: %s", len(sleepers), s.Label)
		}
		to = sleepers[0]
	}
	r.enqueue(to, s)
	return nil
}

func (r *run) inPhase(p phase) []*actor {
	var in []*actor
	for _, a := range r.actors {
		if a.phase == p {
			in = append(in, a)
		}
	}
	return in
}

// settleOthers lets every actor that the event has set free go on until it is
// held again, one at a time.
func (r *run) settleOthers(ctx context.Context) error {
	for r.failed == nil {
		if lost := slices.IndexFunc(r.actors, func(a *actor) bool { return a.lost && a.phase == running }); lost >= 0 {
			r.turnTo(r.actors[lost])
			if err := r.settle(ctx, r.focus); err != nil {
				return err
			}
			continue
		}
		if err := r.settleSleepers(ctx); err != nil {
			return err
		}
		if a := r.due(); a != nil {
			if err := r.tryAgain(ctx, a); err != nil {
				return err
			}
			continue
		}
		blocked := r.inPhase(waiting)
		if len(blocked) == 0 {
			break
		}
		if i := slices.IndexFunc(blocked, func(a *actor) bool { return a.answer != nil }); i >= 0 {
			if err := r.wake(ctx, blocked[i]); err != nil {
				return err
			}
			continue
		}
		still, err := r.stillWaiting(ctx, blocked)
		if err != nil {
			return err
		}
		if still && r.anyReady() {
			break
		}
		if still && r.world.exact() {
			if expired, err := r.expire(ctx, blocked); err != nil || !expired {
				return err
			}
			continue
		}
		if err := r.next(ctx, time.Millisecond); err != nil {
			// Nobody can go on and the time is up: no progress.
			if !r.anyReady() && ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	return r.failed
}

// stillWaiting reports whether all these actors wait for a lock, and for good:
// with two of them there may be a cycle that the server is about to break.
func (r *run) stillWaiting(ctx context.Context, blocked []*actor) (bool, error) {
	if len(blocked) > 1 && !r.world.exact() {
		last := slices.MaxFunc(blocked, func(a, b *actor) int { return a.blocked.Compare(b.blocked) })
		if d := time.Until(last.blocked.Add(deadlockAfter)); d > 0 {
			if err := r.next(ctx, d); err != nil {
				return false, err
			}
			return false, nil
		}
	}
	byGate := map[gate.Gate][]uint64{}
	for _, a := range blocked {
		byGate[a.step.at] = append(byGate[a.step.at], a.step.ID)
	}
	for g, ids := range byGate {
		waits, err := g.Waiting(ctx, ids)
		if err != nil {
			return false, fmt.Errorf("ask the %s gate who waits: %w", g.Name(), err)
		}
		if len(waits) < len(ids) {
			return false, nil
		}
	}
	r.drain()
	return !slices.ContainsFunc(blocked, func(a *actor) bool { return a.answer != nil }), nil
}

func (r *run) anyReady() bool {
	return slices.ContainsFunc(r.actors, func(a *actor) bool { return a.phase.state() == explore.Ready })
}

// wake lets an actor whose blocked step has been answered go on.
func (r *run) wake(ctx context.Context, a *actor) error {
	if a.number != r.event.Actor {
		r.event.Woke = append(r.event.Woke, a.number)
		r.event.Footprint = r.event.Footprint.Union(a.step.Footprint)
	}
	a.row = r.addRow(report.Row{Actor: a.number, Kind: "woke", Step: a.step.Text, Note: "goes on", Touch: a.step.Footprint.String()})
	r.turnTo(a)
	if err := r.deliver(ctx, a); err != nil {
		return err
	}
	return r.settle(ctx, a)
}

// settleSleepers gives the requests that wait inside the application the time
// to go on, now that something has happened: until the application is asleep.
func (r *run) settleSleepers(ctx context.Context) error {
	s := sleepWatch{run: r}
	for len(r.inPhase(asleep)) > 0 && r.failed == nil {
		if len(r.parked) > 0 {
			if err := r.assignParked(nil); err != nil {
				return err
			}
			continue
		}
		idle, err := s.asleepFor()
		if err != nil {
			return err
		}
		if idle > 0 && (r.anyReady() || len(r.inPhase(waiting)) > 0) {
			return nil
		}
		// With nobody else to go on, a sleeper waits for time to pass.
		if err := r.next(ctx, s.next()); err != nil {
			if ctx.Err() != nil {
				return nil // no progress; the engine sees that nobody is ready
			}
			return err
		}
	}
	return r.failed
}

// sleepWatch tells for how long the application has been asleep.
type sleepWatch struct {
	run   *run
	last  []app.Look
	since time.Time
	begun time.Time
}

// asleepFor is how long, to the last two looks, no thread of the application
// has run; 0 when it may be running. It looks only after a first short time, in
// which nearly every request reaches its next step.
func (s *sleepWatch) asleepFor() (time.Duration, error) {
	now := time.Now()
	if s.begun.IsZero() {
		s.begun = now
	}
	if now.Sub(s.begun) < askAfter {
		return 0, nil
	}
	looks, err := s.run.world.look()
	if err != nil {
		// It has ended. The answers to its requests tell.
		s.last = nil
		return 0, nil
	}
	same := s.last != nil && !s.run.world.busy() && slices.EqualFunc(s.last, looks, app.Look.SameAs)
	s.last = looks
	if !same {
		s.since = now
		return 0, nil
	}
	return now.Sub(s.since), nil
}

// next is when to look again.
func (s *sleepWatch) next() time.Duration {
	if s.last == nil {
		return askAfter
	}
	return time.Millisecond
}
