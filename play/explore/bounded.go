package explore

import (
	"context"
	"errors"
	"fmt"
)

// bounded runs every schedule with at most Options.Preemptions preemptions, up
// to equivalence. Reduction by races is not sound under a bound (the run that
// stands for a trace may need more preemptions than the bound allows), so it
// walks the graph of states instead: two prefixes of the same trace lead to the
// same state, and an edge that has been run once need not be run again.
func (x *explorer) bounded(ctx context.Context) error {
	b := &boundedSearch{x: x, states: map[uint64]*state{}, seen: map[boundKey]int{}}
	err := b.walk(ctx, nil, -1, x.opts.Preemptions)
	if err == nil {
		x.result.Complete = x.result.Inconclusive == 0
	}
	return err
}

// state of the system, named by the trace of the prefix that leads to it.
type state struct {
	actors []Status
	edges  map[int]Event
	failed map[int]bool // choices that stayed inconclusive
}

// boundKey is a state as the bound sees it: who ran last decides what counts
// as a preemption.
type boundKey struct {
	state uint64
	last  int
}

type boundedSearch struct {
	x      *explorer
	states map[uint64]*state
	seen   map[boundKey]int // the most preemptions that were left there, plus one
}

// walk explores everything behind a prefix with that many preemptions left.
func (b *boundedSearch) walk(ctx context.Context, prefix []Event, last, left int) error {
	key := NewTrace(prefix).Key()
	if b.seen[boundKey{key, last}] > left {
		return nil
	}
	b.seen[boundKey{key, last}] = left + 1
	if b.states[key] == nil {
		if err := b.run(ctx, prefix, -1); err != nil {
			return err
		}
	}
	st := b.states[key]
	if st == nil {
		return nil // inconclusive, and counted
	}
	// The last actor first: the first run is then a serial one.
	for i := range st.actors {
		a := (max(last, 0) + i) % len(st.actors)
		cost := 0
		if last >= 0 && a != last && st.actors[last].State == Ready {
			cost = 1
		}
		if st.actors[a].State != Ready || cost > left || st.failed[a] {
			continue
		}
		if _, known := st.edges[a]; !known {
			if err := b.run(ctx, prefix, a); err != nil {
				return err
			}
		}
		e, known := st.edges[a]
		if !known {
			continue
		}
		if err := b.walk(ctx, append(prefix[:len(prefix):len(prefix)], e), a, left-cost); err != nil {
			return err
		}
	}
	return nil
}

// run replays the prefix, takes the choice (if any) and goes on without
// preemption to the end, recording every state and edge on the way.
func (b *boundedSearch) run(ctx context.Context, prefix []Event, choice int) error {
	if err := b.x.budget(ctx); err != nil {
		return err
	}
	var err error
	for try := range tries {
		last := max(choice, 0)
		var path []Event
		p := policy{
			choose: func(depth int, actors []Status) int {
				b.record(path, actors)
				switch {
				case depth < len(prefix):
					return prefix[depth].Actor
				case depth == len(prefix) && choice >= 0:
					return choice
				}
				for i := range actors {
					if a := (last + i) % len(actors); actors[a].State == Ready {
						return a
					}
				}
				return -1
			},
			done: func(depth int, _ []Status, e Event) error {
				if depth < len(prefix) && prefix[depth].Step != e.Step {
					return &InconclusiveError{Reason: "replay diverged",
						Detail: fmt.Sprintf("step %d is %q, before: %q", depth+1, e.Step, prefix[depth].Step)}
				}
				b.states[NewTrace(path).Key()].edges[e.Actor] = e
				path = append(path, e)
				last = e.Actor
				return nil
			},
		}
		var events []Event
		var stuck bool
		events, stuck, _, err = b.x.attempt(ctx, p)
		if errors.Is(err, ErrInconclusive) {
			continue
		}
		if err != nil {
			return err
		}
		if try > 0 {
			b.x.result.Retried++
		}
		b.recordEnd(events)
		return b.x.visit(events, stuck)
	}
	b.x.inconclusive(err)
	if st := b.states[NewTrace(prefix).Key()]; st != nil && choice >= 0 {
		st.failed[choice] = true
	}
	return nil
}

func (b *boundedSearch) record(path []Event, actors []Status) {
	key := NewTrace(path).Key()
	if b.states[key] == nil {
		b.states[key] = &state{actors: append([]Status(nil), actors...), edges: map[int]Event{}, failed: map[int]bool{}}
	}
}

// recordEnd records the state behind the last event, where no actor is ready.
func (b *boundedSearch) recordEnd(events []Event) {
	key := NewTrace(events).Key()
	if b.states[key] == nil {
		b.states[key] = &state{}
	}
}
