package explore

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Dependent reports whether the order of two events can be seen: they share an
// actor (a woken actor counts: its step ended inside the event) or their
// footprints conflict.
func (e Event) Dependent(f Event) bool {
	return e.sharesActor(f) || e.Footprint.Conflicts(f.Footprint)
}

func (e Event) has(actor int) bool {
	return e.Actor == actor || slices.Contains(e.Woke, actor)
}

func (e Event) sharesActor(f Event) bool {
	if f.has(e.Actor) {
		return true
	}
	return slices.ContainsFunc(e.Woke, f.has)
}

// Trace is a run's events together with their happens-before order: the
// transitive closure of Dependent in the order of the run.
type Trace struct {
	Events []Event
	before []bitset // before[j] has i: event i happens before event j
}

// NewTrace computes the happens-before order of a run.
func NewTrace(events []Event) *Trace {
	t := &Trace{Events: events, before: make([]bitset, len(events))}
	for j := range events {
		b := newBitset(len(events))
		for i := j - 1; i >= 0; i-- {
			if !b.has(i) && events[i].Dependent(events[j]) {
				b.set(i)
				b.or(t.before[i])
			}
		}
		t.before[j] = b
	}
	return t
}

// Before reports whether event i happens before event j.
func (t *Trace) Before(i, j int) bool { return t.before[j].has(i) }

// Race is a pair of dependent events that could have come in the other order:
// nothing between them orders them, and the first did not enable the second.
//
// The second may have woken the first's actor: an UPDATE that waits for a row
// (first) and the COMMIT that ends the wait (second) are a race, because after
// the COMMIT the same UPDATE starts from another snapshot.
type Race struct{ First, Second int }

// Races lists the reversible races, in the order of the run.
func (t *Trace) Races() []Race {
	var races []Race
	for j, ej := range t.Events {
		for i := range j {
			if !t.Before(i, j) || t.Events[i].has(ej.Actor) || t.between(i, j) {
				continue
			}
			races = append(races, Race{i, j})
		}
	}
	return races
}

// between reports whether some event lies between i and j in happens-before.
func (t *Trace) between(i, j int) bool {
	for k := i + 1; k < j; k++ {
		if t.Before(i, k) && t.Before(k, j) {
			return true
		}
	}
	return false
}

// reversal is the sequence that, run from just before the race's first event,
// has the second event without the first: all that does not happen after the
// first, then the second.
func (t *Trace) reversal(r Race) []Event {
	var v []Event
	for k := r.First + 1; k < len(t.Events); k++ {
		if !t.Before(r.First, k) {
			v = append(v, t.Events[k])
		}
	}
	return append(v, t.Events[r.Second])
}

// Key names the Mazurkiewicz trace: two runs have equal keys exactly when one
// can be had from the other by swapping independent neighbours (up to hash
// collisions of 64 bits).
func (t *Trace) Key() uint64 {
	// Each event is named by its actor and its number in that actor's program;
	// the trace is the set of the names with their predecessors.
	name := make([]uint64, len(t.Events))
	lines := make([]uint64, len(t.Events))
	preds := make([]uint64, 0, len(t.Events))
	for j, e := range t.Events {
		number := uint64(0)
		for i := range j {
			if t.Events[i].Actor == e.Actor {
				number++
			}
		}
		h := newHash().number(uint64(e.Actor)).number(number).text(e.Step)
		if e.Blocked {
			h = h.number(1)
		}
		name[j] = uint64(h)
		preds = preds[:0]
		for i := range j {
			if t.Before(i, j) {
				preds = append(preds, name[i])
			}
		}
		slices.Sort(preds)
		for _, p := range preds {
			h = h.number(p)
		}
		lines[j] = uint64(h)
	}
	slices.Sort(lines)
	h := newHash()
	for _, l := range lines {
		h = h.number(l)
	}
	return uint64(h)
}

// hash is FNV-1a, which unlike hash/maphash is the same in every process.
type hash uint64

func newHash() hash { return 14695981039346656037 }

func (h hash) number(n uint64) hash {
	for range 8 {
		h = (h ^ hash(n&0xff)) * 1099511628211
		n >>= 8
	}
	return h
}

func (h hash) text(s string) hash {
	for i := range len(s) {
		h = (h ^ hash(s[i])) * 1099511628211
	}
	return h.number(uint64(len(s)))
}

// Schedule is the run's own sequence of choices.
func (t *Trace) Schedule() Schedule {
	s := make(Schedule, len(t.Events))
	for i, e := range t.Events {
		s[i] = e.Actor
	}
	return s
}

// Shuffled is a random schedule of the same trace. With truthful footprints it
// ends in the same outcome, which makes it an audit of the footprints.
func (t *Trace) Shuffled(rng *rand.Rand) Schedule {
	done := newBitset(len(t.Events))
	s := make(Schedule, 0, len(t.Events))
	for len(s) < len(t.Events) {
		free := t.free(done)
		j := free[rng.IntN(len(free))]
		done.set(j)
		s = append(s, t.Events[j].Actor)
	}
	return s
}

// free lists the events not done whose predecessors are all done.
func (t *Trace) free(done bitset) []int {
	var free []int
	for j := range t.Events {
		if !done.has(j) && done.contains(t.before[j]) {
			free = append(free, j)
		}
	}
	return free
}

// Simplest is the schedule of the same trace with the fewest context switches
// (among these the first in lexicographic order). It is exact: a breadth-first
// search over the prefixes of the trace by the number of switches.
func (t *Trace) Simplest() Schedule {
	type state struct {
		done  string
		actor int
	}
	type entry struct {
		done bitset
		path Schedule
	}
	seen := map[state]bool{}
	layer := []entry{{done: newBitset(len(t.Events))}}
	for len(layer) > 0 {
		var next []entry
		// Run every entry on without a switch as far as it goes; each stop is
		// a place to switch from.
		for len(layer) > 0 {
			e := layer[0]
			layer = layer[1:]
			if len(e.path) == len(t.Events) {
				return e.path
			}
			for _, j := range t.free(e.done) {
				actor := t.Events[j].Actor
				done := e.done.clone()
				done.set(j)
				st := state{done.String(), actor}
				if seen[st] {
					continue
				}
				n := entry{done, append(slices.Clip(e.path), actor)}
				if len(e.path) > 0 && e.path[len(e.path)-1] != actor {
					next = append(next, n)
					continue
				}
				seen[st] = true
				layer = append(layer, n)
			}
		}
		// Mark the switched ones only now: one reached without a switch wins.
		for _, n := range next {
			st := state{n.done.String(), n.path[len(n.path)-1]}
			if !seen[st] {
				seen[st] = true
				layer = append(layer, n)
			}
		}
	}
	return t.Schedule()
}

// bitset is a fixed-size set of small numbers.
type bitset []uint64

func newBitset(n int) bitset    { return make(bitset, (n+63)/64) }
func (b bitset) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b bitset) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b bitset) clone() bitset  { return slices.Clone(b) }
func (b bitset) String() string { return fmt.Sprint([]uint64(b)) }
func (b bitset) or(c bitset) {
	for i := range c {
		b[i] |= c[i]
	}
}

func (b bitset) contains(c bitset) bool {
	for i := range c {
		if c[i]&^b[i] != 0 {
			return false
		}
	}
	return true
}
