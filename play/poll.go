package play

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/report"
)

// try is a step that was answered and changed nothing, and how often.
type try struct {
	times int
	// code is the error that it failed with, answer the whole answer.
	code, answer string
	footprint    explore.Footprint
	// due: another actor has done something that this depends on.
	due bool
}

// A program that waits for a lock file does so by trying again and again. While
// nobody else does anything that its try depends on, all of them fail alike: the
// program waits, and is not Ready. Else an exhaustive search would never end.
// What is repeated how often before it is taken for a wait:
const (
	pollsExists = 1  // an exclusive creation that failed: nothing else is meant by trying it again
	pollsFailed = 3  // another step that failed
	pollsSame   = 20 // a step that found the same each time
)

// made takes over what an exact gate says of a step that it has made.
func (r *run) made(a *actor, ev arrival) {
	if a.number == r.event.Actor && a.phase == serving && len(r.event.Woke) == 0 {
		// The footprint that it had in fact, and not the foreseen one.
		r.event.Footprint = ev.Step.Footprint
	}
	a.step.Step = ev.Step
	r.rows[a.row].Touch = ev.Step.Footprint.String()
	t := a.tries[ev.Step.Label]
	failed := ev.Answer.Code != ""
	changes := slices.ContainsFunc(ev.Step.Footprint.Accesses, func(x explore.Access) bool { return x.Mode != explore.Read })
	switch {
	case !failed && changes:
		delete(a.tries, ev.Step.Label)
	case t == nil || t.answer != ev.Answer.Summary || t.due:
		a.tries[ev.Step.Label] = &try{times: 1, code: ev.Answer.Code, answer: ev.Answer.Summary, footprint: ev.Step.Footprint}
	default:
		t.times++
	}
	r.disturb(a, ev.Step)
}

// disturb marks the tries that a step may let go another way.
func (r *run) disturb(by *actor, s *gate.Step) {
	for _, b := range r.actors {
		for label, t := range b.tries {
			if (b != by || label != s.Label) && t.footprint.Conflicts(s.Footprint) {
				t.due = true
			}
		}
	}
}

// polls reports whether a step that has arrived is one more of a row of tries.
func (r *run) polls(a *actor, s *heldStep) bool {
	t := a.tries[s.Label]
	if t == nil || t.due || !r.world.exact() {
		return false
	}
	most := pollsSame
	switch t.code {
	case "":
	case "EEXIST":
		most = pollsExists
	default:
		most = pollsFailed
	}
	return t.times >= most
}

// due finds an actor that polls for what has changed, or, when nobody else can
// go on, any that polls: time passes then, and it may give up.
func (r *run) due() *actor {
	pollers := r.inPhase(polling)
	for _, a := range pollers {
		if t := a.tries[a.queue[0].Label]; t == nil || t.due {
			return a
		}
	}
	if len(pollers) > 0 && !r.anyReady() && len(r.inPhase(waiting)) == 0 {
		return pollers[0]
	}
	return nil
}

// tryAgain lets a polling actor make its try within the event under way, and go
// on until it is held again.
func (r *run) tryAgain(ctx context.Context, a *actor) error {
	if a.number != r.event.Actor && !slices.Contains(r.event.Woke, a.number) {
		r.event.Woke = append(r.event.Woke, a.number)
	}
	r.event.Footprint = r.event.Footprint.Union(a.queue[0].Footprint)
	a.phase = held
	r.turnTo(a)
	if err := r.release(ctx, a, report.RowWoke); err != nil {
		return err
	}
	err := r.settle(ctx, a)
	if ctx.Err() != nil && !r.anyReady() {
		return nil // it polls for ever: no progress
	}
	return err
}

// expirer is a gate on which a waiting try can be made to fail.
type expirer interface {
	Expire(ctx context.Context, id uint64) error
}

// expire lets one of the waiting steps fail, when all actors wait: a repeated
// try for a lock would fail until the program gives up. false: they wait for
// good.
func (r *run) expire(ctx context.Context, blocked []*actor) (bool, error) {
	for _, a := range blocked {
		if g, ok := a.step.at.(expirer); ok && g.Expire(ctx, a.step.ID) == nil {
			r.drain()
			return true, nil
		}
	}
	return false, nil
}
