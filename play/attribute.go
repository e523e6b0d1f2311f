package play

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/report"
)

// handle takes in one event of a gate.
func (r *run) handle(ctx context.Context, ev arrival) {
	switch ev.Kind {
	case gate.Held:
		r.arrived(ctx, &heldStep{Step: ev.Step, at: ev.from})
	case gate.Paused:
		if a := r.serving(ev); a != nil {
			a.phase = paused
			r.rows[a.row].Kind = "pause"
			r.rows[a.row].Note = "has its snapshot, held before its effect"
		}
	case gate.Answered:
		r.answered(ctx, ev)
	case gate.Closed:
		r.closed(ev)
	case gate.Failed:
		r.fail(inconclusive(fmt.Sprintf("the %s gate can not go on", ev.from.Name()), "%v", ev.Err))
	}
}

func (r *run) fail(err error) {
	if r.failed == nil {
		r.failed = err
	}
}

// serving finds the actor whose step at the server the event is about.
func (r *run) serving(ev arrival) *actor {
	for _, a := range r.actors {
		if a.step != nil && a.step.at == ev.from && a.step.ID == ev.ID {
			return a
		}
	}
	return nil
}

// arrived decides whose a held step is.
func (r *run) arrived(ctx context.Context, s *heldStep) {
	key := connKey{s.at.Name(), s.Conn}
	f := r.focus
	if i := r.world.belongs(s.Step); i >= 0 && !s.Quiet {
		if r.actors[i].phase == fresh {
			r.world.stray(s.Label)
			r.pass(ctx, s)
			return
		}
		r.enqueue(r.actors[i], s)
		return
	}
	switch {
	case s.Quiet, r.owners[key] == nil && r.world.background(s.Label):
		r.pass(ctx, s)
	case r.owners[key] != nil:
		r.enqueue(r.owners[key], s)
	case f == nil || f.phase == fresh:
		// Nothing has been asked of the application in this run.
		r.world.stray(s.Label)
		r.pass(ctx, s)
	case len(r.inPhase(asleep)) > 0 && f.phase == running:
		r.parked = append(r.parked, s)
	case len(r.inPhase(asleep)) > 0:
		r.parked = append(r.parked, s)
		if err := r.assignParked(nil); err != nil {
			r.fail(err)
		}
	default:
		r.enqueue(f, s)
	}
}

func (r *run) pass(ctx context.Context, s *heldStep) {
	for _, t := range s.Writes {
		r.dirty[t] = true
	}
	if s.Footprint.Unknown && s.Writes == nil {
		r.dirtyAll = true
	}
	if err := s.at.Pass(ctx, s.ID); err != nil {
		r.fail(inconclusive("a statement could not pass", "%v", err))
	}
}

// enqueue makes a held step the actor's next, or the one after those it has.
func (r *run) enqueue(a *actor, s *heldStep) {
	r.owners[connKey{s.at.Name(), s.Conn}] = a
	a.queue = append(a.queue, s)
	if (len(a.queue) > 1 || a.phase == serving) && !r.world.parallel() {
		r.world.sendsInParallel()
		r.fail(inconclusive("a request sends several statements at once", "%s: %s", r.world.name(a.number), s.Label))
		return
	}
	switch a.phase {
	case running, done:
		a.phase = held
		if r.polls(a, s) {
			a.phase = polling
		}
	case asleep:
		a.phase = held
		r.sleeperWoke(a)
		r.addRow(report.Row{Actor: a.number, Kind: "woke", Step: "(inside the application)", Note: "goes on"})
	}
}

// answered keeps the answer, and hands it on where its actor is the one that
// may run.
func (r *run) answered(ctx context.Context, ev arrival) {
	a := r.serving(ev)
	if a == nil {
		return // of a step that was passed
	}
	a.answer = ev.Answer
	if ev.Step != nil {
		r.made(a, ev)
	}
	key := connKey{a.step.at.Name(), a.step.Conn}
	if ev.Answer.Code != "" {
		// An error aborts the open transaction at once: its locks end here, and
		// not with the ROLLBACK that follows.
		for _, l := range a.locks[key] {
			l.Mode = explore.Unlock
			r.event.Footprint.Accesses = append(r.event.Footprint.Accesses, l)
		}
		delete(a.locks, key)
		if !ev.Answer.Open {
			delete(r.owners, key)
		}
	} else if ev.Answer.Open {
		for _, acc := range a.step.Footprint.Accesses {
			if acc.Mode == explore.Lock || acc.Mode == explore.Share || acc.Mode == explore.Write {
				a.locks[key] = append(a.locks[key], acc)
			}
		}
		if a.step.Footprint.Unknown {
			a.locks[key] = append(a.locks[key], explore.Access{Mode: explore.Lock})
		}
	} else {
		delete(a.locks, key)
		delete(r.owners, key)
	}
	if ev.Answer.Code != "" {
		a.codes = append(a.codes, ev.Answer.Code)
	}
	if a.step.half && a.phase == serving {
		// It ended without its second part: nothing to stop for in between.
		r.event.Footprint = r.event.Footprint.Union(a.step.Footprint)
	}
	if a.phase == serving && r.focus == a {
		if err := r.deliver(ctx, a); err != nil {
			r.fail(err)
		}
	}
}

// deliver hands the kept answer to the application: the actor runs again.
func (r *run) deliver(ctx context.Context, a *actor) error {
	s := a.step
	row := &r.rows[a.row]
	if row.Note != "" {
		row.Note += ": "
	}
	row.Note += a.answer.Summary
	a.step, a.answer = nil, nil
	a.phase = running
	if len(a.queue) > 0 {
		a.phase = held
	}
	if err := s.at.Deliver(ctx, s.ID); err != nil {
		return inconclusive("an answer could not be delivered", "%v", err)
	}
	return nil
}

// closed: a connection has ended. Between steps that is the application's right.
// A step of it is lost with it, because the application has ended or has given it
// up; which of the two, the answer to the request will tell.
func (r *run) closed(ev arrival) {
	key := connKey{ev.from.Name(), ev.Conn}
	delete(r.owners, key)
	gone := func(s *heldStep) bool { return s.at == ev.from && s.Conn == ev.Conn }
	for _, a := range r.actors {
		if a.killed {
			continue
		}
		delete(a.locks, key)
		if a.step != nil && gone(a.step) {
			a.step, a.answer, a.lost = nil, nil, true
		}
		if slices.ContainsFunc(a.queue, gone) {
			a.queue, a.lost = slices.DeleteFunc(a.queue, gone), true
		}
		if a.lost && a.step == nil && len(a.queue) == 0 && a.phase != done {
			a.phase = running
		}
	}
}

// replied takes in the answer to a request.
func (r *run) replied(rep reply) {
	a := r.actors[rep.actor]
	a.over = true
	if a.killed {
		return
	}
	a.reply = &rep.response
	r.world.acknowledged(a.number)
	r.addRow(report.Row{Actor: a.number, Kind: report.RowResponse, Step: rep.response.String()})
	switch a.phase {
	case asleep:
		a.phase = done
		r.sleeperWoke(a)
	case waiting, serving, held, paused:
		// Answered before its statements were: they go on as its tail.
	}
	if a.lost && rep.response.Status != 0 {
		r.fail(inconclusive("the application gave up a statement that was held",
			"%s was answered %d; raise the application's time-outs for statements", r.world.name(a.number), rep.response.Status))
	}
}

// sleeperWoke notes that the event under way let a request go on that waited
// inside the application.
func (r *run) sleeperWoke(a *actor) {
	if a.number == r.event.Actor {
		return
	}
	r.event.Woke = append(r.event.Woke, a.number)
	r.world.waited(r.event.Actor, r.event.Step, explore.Unlock)
}
