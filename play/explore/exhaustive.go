package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// frame is one state on the path that the exhaustive search is at.
type frame struct {
	// plan are the sequences still to be run from this state, the one that is
	// being run not among them.
	plan *wakeup
	// sleep are the actors whose next step from this state need not be run
	// again, with that step's event.
	sleep map[int]Event
	// chosen is the choice taken from this state; event is what it led to.
	chosen int
	event  Event
	ran    bool // event is known
	// others are the actors that were ready as well, should the choice turn
	// out to be inconclusive.
	others []int
	// below are the planned sequences behind the choice, for the next frame.
	below *wakeup
}

// exhaustive is optimal dynamic partial-order reduction as a loop over runs:
// each run replays the path, takes the one new choice at its end, and goes on
// freely; then its races are turned into plans, and the deepest state that has
// a plan left is taken up next.
func (x *explorer) exhaustive(ctx context.Context) error {
	d := &dpor{result: &x.result}
	for {
		if err := x.budget(ctx); err != nil {
			return err
		}
		if err := x.exhaustiveRun(ctx, d); err != nil {
			return err
		}
		if !d.backtrack() {
			x.result.Complete = x.result.Inconclusive == 0
			return nil
		}
	}
}

// exhaustiveRun makes the run of the current path, several times where it is
// inconclusive.
func (x *explorer) exhaustiveRun(ctx context.Context, d *dpor) error {
	fixed := len(d.path)
	var events []Event
	var err error
	for try := range tries {
		var stuck, finished bool
		d.path = d.path[:fixed]
		d.forget()
		events, stuck, finished, err = x.attempt(ctx, policy{choose: d.choose, done: d.done})
		if errors.Is(err, ErrInconclusive) {
			continue
		}
		if err != nil {
			return err
		}
		if try > 0 {
			x.result.Retried++
		}
		d.plan(NewTrace(events))
		if !finished {
			x.result.Redundant++
			x.progress()
			return nil
		}
		return x.visit(events, stuck)
	}
	x.inconclusive(err)
	if len(d.path) == 0 {
		return err // not even the first step: the system can not be run
	}
	d.plan(NewTrace(events))
	d.giveUp()
	return nil
}

// dpor is the path of the exhaustive search.
type dpor struct {
	path   []*frame
	last   int // the actor that went last, to go on with it where free
	result *Result
}

// forget drops what the choice at the end of the path led to, before it is run
// (again).
func (d *dpor) forget() {
	if n := len(d.path); n > 0 {
		d.path[n-1].ran = false
	}
	d.last = 0
}

func (d *dpor) choose(depth int, actors []Status) int {
	if depth < len(d.path) {
		f := d.path[depth]
		if f.ran && actors[f.chosen].State == Ready && actors[f.chosen].Step != f.event.Step {
			return len(actors) // not the recorded step: a divergence
		}
		return f.chosen
	}
	f := d.extend(depth)
	for f.take() {
		if actors[f.chosen].State == Ready {
			d.push(f, actors)
			return f.chosen
		}
		d.result.Infeasible++
	}
	for i := range actors {
		a := (d.last + i) % len(actors)
		if _, asleep := f.sleep[a]; actors[a].State == Ready && !asleep {
			f.chosen, f.below = a, &wakeup{}
			d.push(f, actors)
			return a
		}
	}
	return -1
}

func (d *dpor) push(f *frame, actors []Status) {
	for a, s := range actors {
		if s.State == Ready && a != f.chosen {
			f.others = append(f.others, a)
		}
	}
	d.path = append(d.path, f)
}

// extend makes the frame of the state behind the last one on the path.
func (d *dpor) extend(depth int) *frame {
	f := &frame{plan: &wakeup{}, sleep: map[int]Event{}}
	if depth == 0 {
		return f
	}
	above := d.path[depth-1]
	// A copy: the run may have to be made again.
	f.plan = &wakeup{children: slices.Clone(above.below.children)}
	for q, e := range above.sleep {
		if !e.Dependent(above.event) {
			f.sleep[q] = e
		}
	}
	return f
}

// take makes the first planned branch the choice; false when none is left.
func (f *frame) take() bool {
	if len(f.plan.children) == 0 {
		return false
	}
	c := f.plan.children[0]
	f.plan.children = f.plan.children[1:]
	f.chosen, f.below, f.ran = c.event.Actor, &wakeup{children: c.children}, false
	return true
}

func (d *dpor) done(depth int, _ []Status, e Event) error {
	f := d.path[depth]
	if f.ran && (f.event.Blocked != e.Blocked || !slices.Equal(f.event.Woke, e.Woke)) {
		return &InconclusiveError{Reason: "replay diverged", Detail: fmt.Sprintf(
			"step %d (%s) blocked=%v woke=%v, before: blocked=%v woke=%v",
			depth+1, e.Step, e.Blocked, e.Woke, f.event.Blocked, f.event.Woke)}
	}
	f.event, f.ran = e, true
	d.last = e.Actor
	return nil
}

// giveUp ends the choice at the end of the path, whose runs were inconclusive:
// what it touches is unknown, so every other actor is planned in its place.
func (d *dpor) giveUp() {
	f := d.path[len(d.path)-1]
	if f.ran {
		return
	}
	f.event = Event{Actor: f.chosen, Footprint: Anything("its runs were inconclusive")}
	for _, a := range f.others {
		if _, asleep := f.sleep[a]; !asleep {
			f.plan.insert([]Event{{Actor: a, Footprint: Anything("never run")}})
		}
	}
}

// plan turns every race of the run into a planned sequence at the state before
// its first event, unless a sleeping actor covers it.
func (d *dpor) plan(t *Trace) {
	for _, r := range t.Races() {
		f := d.path[r.First]
		v := t.reversal(r)
		if f.covered(v) {
			continue
		}
		f.plan.insert(v)
	}
}

func (f *frame) covered(v []Event) bool {
	for _, e := range f.sleep {
		if ok, _ := weakInitial(e, v); ok {
			return true
		}
	}
	return false
}

// backtrack puts the finished choices to sleep, from the end of the path, and
// stops at the first state that has a planned branch left, with that branch as
// its choice. It returns false when nothing is left.
func (d *dpor) backtrack() bool {
	for n := len(d.path); n > 0; n-- {
		f := d.path[n-1]
		f.sleep[f.chosen] = f.event
		d.path = d.path[:n]
		if f.take() {
			return true
		}
	}
	return false
}
