package play

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/play/app"
	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/oracle"
	"github.com/holdfast-dev/holdfast/play/report"
)

// phase is where an actor is, more exactly than explore.State.
type phase uint8

const (
	fresh   phase = iota // its request has not been sent
	running              // inside the application
	held                 // at a gate, with its next step
	paused               // inside a statement, after its snapshot
	serving              // its step is at the server, the answer is expected
	waiting              // its step is at the server and waits for a lock
	asleep               // waits inside the application
	polling              // tries again and again what fails until another actor acts
	done                 // answered, and nothing more to come
)

func (p phase) state() explore.State {
	switch p {
	case fresh, held, paused:
		return explore.Ready
	case done:
		return explore.Done
	}
	return explore.Blocked
}

// heldStep is a step with the gate that holds it.
type heldStep struct {
	*gate.Step
	at gate.Gate
	// half: released in two parts, and the second is still to come.
	half bool
}

// arrival is an event with the gate that sent it.
type arrival struct {
	from gate.Gate
	gate.Event
}

// connKey names a connection over all gates.
type connKey struct {
	gate string
	conn uint64
}

// actor is one request in a run.
type actor struct {
	number int
	phase  phase
	queue  []*heldStep // held; the first is its next step
	step   *heldStep   // at the server, or paused
	answer *gate.Answer
	reply  *oracle.Response
	// lost: a connection with a step of it has ended. cut: the run was given up
	// before it was answered.
	lost, cut bool
	// killed: its process was killed, so that nothing more comes from it.
	killed bool
	// over: whoever sent its request has an answer, or knows that none comes.
	over  bool
	codes []string
	// locks are the accesses by which its open transactions may make others
	// wait, by connection.
	locks    map[connKey][]explore.Access
	released time.Time // its step, to the server
	blocked  time.Time // its step was first seen to wait
	row      int       // of its latest step in the timeline
	// tries are its steps that changed nothing, since another actor last did
	// something that they depend on.
	tries map[string]*try
}

// requestStep is the label of the first step of every actor.
const requestStep = "send the request"

// label names the actor's next step for the engine.
func (a *actor) label() string {
	switch {
	case a.phase == fresh:
		return requestStep
	case a.phase == paused:
		return "rest of " + a.step.Shape
	case a.phase == held, a.phase == polling:
		return a.queue[0].Shape
	}
	return ""
}

// boundary is what a run needs of the world around it.
type boundary interface {
	// asks is what an actor sends, for people, and send sends it and waits for
	// the answer.
	asks(actor int) string
	send(ctx context.Context, actor int) oracle.Response
	// turned is told whose steps are to be expected now.
	turned(actor int)
	// acknowledged is told that an actor has its answer.
	acknowledged(actor int)
	// belongs tells whose a step is by where it comes from; -1 where requests
	// share the application. sole: an actor's application is all its own, so
	// that it waits for no other request inside it.
	belongs(s *gate.Step) int
	sole(actor int) bool
	// exact: the gate makes the steps itself, so that each is answered, or known
	// to wait, when it has been let through.
	exact() bool
	// look at all instances of the application at once.
	look() ([]app.Look, error)
	// busy reports whether a gate has something under way of which no event tells.
	busy() bool
	// background reports whether a step is one that the application sends on
	// its own. stray is told of one that came while nothing had been asked.
	background(label string) bool
	stray(label string)
	name(actor int) string
	// tail is how long to wait for the application to become quiet, and wasQuiet
	// is told whether it became so.
	tail() time.Duration
	wasQuiet(bool)
	// parallel reports whether requests send several statements at once, which
	// sendsInParallel tells.
	parallel() bool
	sendsInParallel()
	// waited is told of a step that took (Lock) or gave back (Unlock) something
	// inside the application for which a request has waited, and inside gives
	// what is known of a step.
	waited(actor int, step string, m explore.Mode)
	inside(actor int, step string) []explore.Access
}

// times of a run. They are not used to guess what happened, only to decide when
// to look.
const (
	// askAfter: a step that could not be foreseen to wait for a lock is asked
	// about after this time without an answer.
	askAfter = 2 * time.Millisecond
	// deadlockAfter is longer than the server's deadlock_timeout of 1 ms. A
	// step that may close a cycle is let through only when the waiters before
	// it have had their check, so that the victim is always the last one.
	deadlockAfter = 3 * time.Millisecond
	// patience: an application that has been asleep for so long, while other
	// requests are under way, is taken to wait for one of them.
	patience = 20 * time.Millisecond
	// tail bounds the wait for an application to become quiet. On a loaded
	// machine a new connection can take a good part of it. For an application
	// that has never become quiet restlessTail is enough.
	tail         = 500 * time.Millisecond
	restlessTail = 5 * time.Millisecond
)

// run is one execution: the explore.Execution of the player.
type run struct {
	world  boundary
	events chan arrival
	split  bool // release splittable steps in two parts
	limit  time.Duration
	actors []*actor
	owners map[connKey]*actor
	// focus is the one actor that may be running inside the application.
	focus *actor
	// parked steps came while it was open whose they are.
	parked  []*heldStep
	replies chan reply
	wg      sync.WaitGroup
	cancel  context.CancelFunc
	ctx     context.Context // of the requests

	rows       []report.Row
	dirty      map[string]bool
	dirtyAll   bool
	splittable map[string]bool // tables that splittable steps write
	unknown    map[string]string
	event      *explore.Event // the event under way
	failed     error          // the run has become inconclusive
}

type reply struct {
	actor    int
	response oracle.Response
}

func newRun(ctx context.Context, w boundary, events chan arrival, actors int, split bool, step time.Duration) *run {
	r := &run{world: w, events: events, split: split, limit: step,
		owners: map[connKey]*actor{}, replies: make(chan reply, 2*actors), // an actor may ask twice
		dirty: map[string]bool{}, splittable: map[string]bool{}, unknown: map[string]string{}}
	r.ctx, r.cancel = context.WithCancel(ctx)
	for i := range actors {
		r.actors = append(r.actors, newActor(i))
	}
	return r
}

func newActor(number int) *actor {
	return &actor{number: number, locks: map[connKey][]explore.Access{}, tries: map[string]*try{}}
}

// Actors implements explore.Execution.
func (r *run) Actors() []explore.Status {
	s := make([]explore.Status, len(r.actors))
	for i, a := range r.actors {
		s[i] = explore.Status{State: a.phase.state(), Step: a.label()}
	}
	return s
}

func inconclusive(reason, format string, args ...any) error {
	return &explore.InconclusiveError{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// Step implements explore.Execution: one actor takes its step, and everything
// that follows from it settles.
func (r *run) Step(ctx context.Context, i int) (explore.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	a := r.actors[i]
	e := explore.Event{Actor: i, Step: a.label()}
	r.event = &e
	r.drain()
	if r.failed == nil {
		r.failed = r.begin(ctx, a)
	}
	if r.failed == nil {
		r.failed = r.settle(ctx, a)
	}
	if r.failed == nil {
		r.failed = r.settleOthers(ctx)
	}
	e.Footprint.Accesses = append(e.Footprint.Accesses, r.world.inside(i, e.Step)...)
	if r.failed != nil && errors.Is(r.failed, context.DeadlineExceeded) {
		r.failed = inconclusive("step timed out", "%s: %q did not settle within %v", r.world.name(i), e.Step, r.limit)
	}
	e.Blocked = a.phase == waiting || a.phase == asleep || a.phase == polling
	return e, r.failed
}

// turnTo makes an actor the one that may be running inside the application.
func (r *run) turnTo(a *actor) {
	r.focus = a
	r.world.turned(a.number)
}

// begin lets the actor's step through.
func (r *run) begin(ctx context.Context, a *actor) error {
	r.turnTo(a)
	switch a.phase {
	case fresh:
		r.send(a)
		return nil
	case paused:
		r.event.Footprint = a.step.Rest
		a.phase, a.released = serving, time.Now()
		a.step.half = false
		a.row = r.addRow(report.Row{Actor: a.number, Kind: "step", Step: "… its effect: " + a.step.Text, Touch: a.step.Rest.String()})
		return a.step.at.Resume(ctx, a.step.ID)
	}
	return r.release(ctx, a, report.RowStep)
}

// release lets the first of the actor's held steps through.
func (r *run) release(ctx context.Context, a *actor, kind string) error {
	s := a.queue[0]
	a.queue = a.queue[1:]
	a.step = s
	s.half = r.split && s.Splittable
	touch := s.Footprint
	text := s.Text
	if s.half {
		touch = s.First
		text = "… its snapshot: " + text
	}
	if a.number == r.event.Actor {
		r.event.Footprint = r.event.Footprint.Union(touch)
	}
	r.note(s)
	a.row = r.addRow(report.Row{Actor: a.number, Kind: kind, Step: text, Touch: touch.String()})
	if err := r.deadlockPause(ctx, touch); err != nil {
		return err
	}
	a.phase, a.released = serving, time.Now()
	return s.at.Release(ctx, s.ID, s.half)
}

// note records what the step may change, and what is not known of it.
func (r *run) note(s *heldStep) {
	if s.Footprint.Unknown {
		r.unknown[s.Label] = s.Footprint.Why
		if s.Writes == nil {
			r.dirtyAll = true
		}
	}
	for _, t := range s.Writes {
		r.dirty[t] = true
		if s.Splittable {
			r.splittable[t] = true
		}
	}
}

func (r *run) addRow(row report.Row) int {
	r.rows = append(r.rows, row)
	return len(r.rows) - 1
}

// send starts the actor's request in a goroutine of its own, which End waits for.
func (r *run) send(a *actor) {
	a.phase = running
	a.row = r.addRow(report.Row{Actor: a.number, Kind: report.RowRequest, Step: r.world.asks(a.number)})
	r.wg.Go(func() { r.replies <- reply{a.number, r.world.send(r.ctx, a.number)} })
}

// deadlockPause waits until every waiter has had the server's deadlock check,
// before a step that might close a cycle. The server checks once per wait, at
// deadlock_timeout after its begin: without the pause, whichever waiter has its
// check first after the cycle is closed would be the victim.
func (r *run) deadlockPause(ctx context.Context, f explore.Footprint) error {
	locks := f.Unknown || slices.ContainsFunc(f.Accesses, func(a explore.Access) bool { return a.Mode != explore.Read })
	if !locks || r.world.exact() {
		return nil
	}
	var last time.Time
	for _, a := range r.actors {
		if a.phase == waiting && a.blocked.After(last) {
			last = a.blocked
		}
	}
	if last.IsZero() {
		return nil
	}
	return r.collect(ctx, time.Until(last.Add(deadlockAfter)))
}

// collect handles events for a time.
func (r *run) collect(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return r.failed
	}
	t := time.NewTimer(d)
	defer t.Stop()
	for r.failed == nil {
		select {
		case ev := <-r.events:
			r.handle(ctx, ev)
		case rep := <-r.replies:
			r.replied(rep)
		case <-t.C:
			return r.failed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return r.failed
}

// drain handles what has already arrived.
func (r *run) drain() {
	for r.failed == nil {
		select {
		case ev := <-r.events:
			r.handle(r.ctx, ev)
		case rep := <-r.replies:
			r.replied(rep)
		default:
			return
		}
	}
}

// End implements explore.Execution. It gives up what is still under way and
// waits for the requests. The state that the run leaves is the caller's to
// observe.
func (r *run) End(ctx context.Context, _ bool) error {
	r.drain()
	if !r.allDone() {
		r.dirtyAll = true
		for _, a := range r.actors {
			a.cut = a.reply == nil
		}
		r.cancel()
		for _, g := range r.gates() {
			if err := g.Abort(ctx); err != nil {
				return fmt.Errorf("give up a run at the %s gate: %w", g.Name(), err)
			}
		}
	}
	r.wg.Wait()
	r.cancel()
	return nil
}

func (r *run) allDone() bool {
	return !slices.ContainsFunc(r.actors, func(a *actor) bool { return a.phase != done && a.phase != fresh })
}

// gates lists the gates that this run has met.
func (r *run) gates() []gate.Gate {
	var gates []gate.Gate
	add := func(s *heldStep) {
		if s != nil && !slices.Contains(gates, s.at) {
			gates = append(gates, s.at)
		}
	}
	for _, a := range r.actors {
		add(a.step)
		for _, s := range a.queue {
			add(s)
		}
	}
	for _, s := range r.parked {
		add(s)
	}
	return gates
}

// responses by actor; nil for those whose request was not sent.
func (r *run) responses() []*oracle.Response {
	out := make([]*oracle.Response, len(r.actors))
	for i, a := range r.actors {
		if a.reply != nil {
			resp := *a.reply
			resp.Codes, resp.Broken = a.codes, resp.Status == 0 && !a.cut
			out[i] = &resp
		} else if a.phase != fresh {
			out[i] = &oracle.Response{Err: "no answer", Codes: a.codes}
		}
	}
	return out
}

// makeUndelivered lets the actor's next step happen, but not be heard of.
func (r *run) makeUndelivered(ctx context.Context, actor int) error {
	a := r.actors[actor]
	s := a.queue[0]
	a.queue, a.step, a.phase = a.queue[1:], s, serving
	r.note(s)
	a.row = r.addRow(report.Row{Actor: actor, Kind: report.RowStep, Step: s.Text, Touch: s.Footprint.String()})
	r.event, r.focus = &explore.Event{Actor: actor, Step: s.Shape}, nil // nobody is delivered to
	if err := s.at.Release(ctx, s.ID, false); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	for a.answer == nil && r.failed == nil {
		if waits, err := s.at.Waiting(ctx, []uint64{s.ID}); err != nil || len(waits) > 0 {
			return err // it waits for a lock, and is killed as it waits
		}
		if err := r.next(ctx, askAfter); err != nil {
			return err
		}
	}
	return r.failed
}

// sendAgain puts an actor back before its request.
func (r *run) sendAgain(actor int) {
	a := r.actors[actor]
	*a = *newActor(actor)
}

// expectChange makes every try of a polling actor worth trying again.
func (r *run) expectChange() {
	for _, a := range r.actors {
		for _, t := range a.tries {
			t.due = true
		}
	}
}

// strike takes an actor out of the run whose process is about to be killed. sent:
// it has sent its request.
func (r *run) strike(n int) (sent bool) {
	a := r.actors[n]
	sent = a.phase != fresh
	a.killed, a.phase, a.queue, a.step = true, done, nil, nil
	clear(a.locks)
	maps.DeleteFunc(r.owners, func(_ connKey, b *actor) bool { return b == a })
	return sent
}

// forget waits until it is known that a killed actor gets no answer: it must not
// be taken for that to a second request.
func (r *run) forget(ctx context.Context, actor int, sent bool) error {
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	for sent && !r.actors[actor].over {
		if err := r.next(ctx, r.limit); err != nil {
			return err
		}
	}
	r.drain()
	return r.failed
}
