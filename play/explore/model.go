// Package explore searches the interleavings of a few concurrent actors for
// those that matter, by running them again and again from the same start.
//
// # Model
//
// A [System] can be started any number of times from the same initial state.
// Each start gives an [Execution] with a fixed number of actors. An actor is
// at any moment Ready (it has reached its next step and is held there),
// Blocked (it has begun a step and waits for something that only another
// actor can give, such as a row lock) or Done. The engine chooses a Ready
// actor and lets it take its step; what happened is an [Event]. An event may
// wake blocked actors, and then contains the rest of their steps as well. The
// sequence of choices is a [Schedule]; the same schedule must lead to the same
// events (stateless re-execution with prefix replay).
//
// Two neighbouring events that neither share an actor nor conflict by their
// footprints can be swapped without any actor seeing a difference. Schedules
// that are equal up to such swaps form one Mazurkiewicz trace, and one run of
// each trace is enough. The exhaustive search is optimal dynamic partial-order
// reduction with source sets and wakeup trees (Abdulla, Aronsson, Jonsson,
// Sagonas: "Optimal dynamic partial order reduction", POPL 2014; journal
// version "Source Sets: A Foundation for Optimal Dynamic Partial Order
// Reduction", JACM 2017).
//
// # Promise and limits
//
// With truthful footprints every trace is run at least once. A footprint that
// leaves something out can hide traces; a footprint that claims too much only
// costs runs, and [Footprint.Unknown] conflicts with everything. The package
// knows no protocol: what a step is, and what it touches, is told by the gates.
package explore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Mode says in which way a step touches an object. The modes are those of a
// multi-version database, of which a plain shared memory or file is the simple
// case (Read and Write only).
type Mode uint8

const (
	// Read sees what has been published. It neither waits nor makes wait.
	Read Mode = iota
	// Share takes a shared lock: it waits for Lock and makes Lock wait.
	Share
	// Lock takes an exclusive lock, as an UPDATE does on its row. What it
	// writes is not visible to others before Publish.
	Lock
	// Publish makes earlier writes visible and ends their locks (COMMIT).
	Publish
	// Unlock ends locks and makes nothing visible (ROLLBACK).
	Unlock
	// Write is seen by everybody at once: Lock and Publish in one.
	Write
)

var modeNames = [...]string{"read", "share", "lock", "publish", "unlock", "write"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// MarshalText gives the mode's name.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads a mode's name.
func (m *Mode) UnmarshalText(b []byte) error {
	i := slices.Index(modeNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("unknown access mode %q: use one of %s", b, strings.Join(modeNames[:], ", "))
	}
	*m = Mode(i)
	return nil
}

// conflicts[a][b] is true where the order of a and b on one object can be seen.
//
// Read/Lock is false: under multi-version concurrency a reader does not see an
// uncommitted write and does not wait for it. Unlock/Unlock is false: who
// releases last carries the wake-up, and that event then also has the waiter's
// own access, which does conflict.
var conflicts = [6][6]bool{
	Read:    {Publish: true, Write: true},
	Share:   {Lock: true, Publish: true, Unlock: true, Write: true},
	Lock:    {Share: true, Lock: true, Publish: true, Unlock: true, Write: true},
	Publish: {Read: true, Share: true, Lock: true, Publish: true, Unlock: true, Write: true},
	Unlock:  {Share: true, Lock: true, Publish: true, Write: true},
	Write:   {Read: true, Share: true, Lock: true, Publish: true, Unlock: true, Write: true},
}

// Access is one object that a step touches, and how.
type Access struct {
	Mode Mode `json:"mode"`
	// Object names the resource (a table, a file, a key). The name must be the
	// same in every run.
	Object string `json:"object"`
	// Where restricts the access to the part of the object with these
	// attribute values (column id = "1"). Two accesses are disjoint when some
	// attribute is in both and its values differ. Empty is the whole object.
	Where map[string]string `json:"where,omitempty"`
	// From and To restrict the access to the bytes [From, To). To = 0 is the
	// whole object.
	From int64 `json:"from,omitempty"`
	To   int64 `json:"to,omitempty"`
}

func (a Access) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", a.Mode, a.Object)
	if len(a.Where) > 0 {
		b.WriteByte('[')
		for i, k := range slices.Sorted(maps.Keys(a.Where)) {
			if i > 0 {
				b.WriteByte(' ')
			}
			fmt.Fprintf(&b, "%s=%s", k, a.Where[k])
		}
		b.WriteByte(']')
	}
	if a.To > 0 {
		fmt.Fprintf(&b, "[%d:%d]", a.From, a.To)
	}
	return b.String()
}

// Overlaps reports whether the two accesses may touch a common part.
func (a Access) Overlaps(b Access) bool {
	if a.Object != b.Object {
		return false
	}
	if a.To > 0 && b.To > 0 && (a.To <= b.From || b.To <= a.From) {
		return false
	}
	for k, v := range a.Where {
		if w, ok := b.Where[k]; ok && v != w {
			return false
		}
	}
	return true
}

// Conflicts reports whether the order of the two accesses can be seen.
func (a Access) Conflicts(b Access) bool {
	return conflicts[a.Mode][b.Mode] && a.Overlaps(b)
}

// Footprint is all that a step touches. The zero Footprint touches nothing and
// commutes with everything but Unknown.
type Footprint struct {
	// Unknown conflicts with everything: the safe answer when a gate can not
	// tell what a step does. Why says the reason, for the report.
	Unknown  bool     `json:"unknown,omitempty"`
	Why      string   `json:"why,omitempty"`
	Accesses []Access `json:"accesses,omitempty"`
}

// Anything is the footprint that conflicts with everything.
func Anything(why string) Footprint { return Footprint{Unknown: true, Why: why} }

// Conflicts reports whether the order of two steps with these footprints can
// be seen.
func (f Footprint) Conflicts(g Footprint) bool {
	if f.Unknown || g.Unknown {
		return true
	}
	for _, a := range f.Accesses {
		for _, b := range g.Accesses {
			if a.Conflicts(b) {
				return true
			}
		}
	}
	return false
}

// Union is what the two touch together.
func (f Footprint) Union(g Footprint) Footprint {
	u := Footprint{Unknown: f.Unknown || g.Unknown, Why: f.Why}
	if u.Why == "" {
		u.Why = g.Why
	}
	u.Accesses = append(slices.Clip(slices.Clone(f.Accesses)), g.Accesses...)
	return u
}

func (f Footprint) String() string {
	if f.Unknown {
		return "anything (" + f.Why + ")"
	}
	s := make([]string, len(f.Accesses))
	for i, a := range f.Accesses {
		s[i] = a.String()
	}
	return strings.Join(s, ", ")
}

// State is where an actor stands between two events.
type State uint8

const (
	// Ready: held at its next step, which can be let through.
	Ready State = iota
	// Blocked: its step has begun and waits for another actor.
	Blocked
	// Done: it takes no more steps.
	Done
)

func (s State) String() string { return [...]string{"ready", "blocked", "done"}[s] }

// Status is one actor between two events.
type Status struct {
	State State
	// Step names the step the actor is held at. It must be the same whenever
	// the same schedule is replayed; a difference is a divergence.
	Step string
}

// Event is what one choice led to.
type Event struct {
	Actor int    `json:"actor"`
	Step  string `json:"step"`
	// Footprint is what the step touched, the completed steps of the actors it
	// woke included.
	Footprint Footprint `json:"footprint"`
	// Woke are the actors whose blocked steps this event completed.
	Woke []int `json:"woke,omitempty"`
	// Blocked: the step has begun and now waits; a later event completes it.
	Blocked bool `json:"blocked,omitempty"`
}

// System is something that can be run again and again from one initial state.
type System interface {
	// Begin restores the initial state and brings every actor to its first step.
	Begin(ctx context.Context) (Execution, error)
}

// Execution is one run in progress. Its methods are called by one goroutine.
type Execution interface {
	// Actors tells where each actor stands now.
	Actors() []Status
	// Step lets one Ready actor take its step and returns when every actor is
	// Ready, Blocked or Done again. An error that wraps [ErrInconclusive] ends
	// this run only; any other error ends the search.
	Step(ctx context.Context, actor int) (Event, error)
	// End is called once for each execution. complete is false when the run is
	// given up before every actor was done.
	End(ctx context.Context, complete bool) error
}

// Schedule is a sequence of choices: which actor takes the next step.
type Schedule []int

// Switches counts the context switches: places where another actor goes on.
func (s Schedule) Switches() int {
	n := 0
	for i := 1; i < len(s); i++ {
		if s[i] != s[i-1] {
			n++
		}
	}
	return n
}

func (s Schedule) String() string {
	b := make([]string, len(s))
	for i, a := range s {
		b[i] = string(rune('A' + a))
	}
	return strings.Join(b, " ")
}
