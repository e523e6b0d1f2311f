package explore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/play/explore"
)

// machine is a small multi-version store with row locks, the System on which
// the searches are checked against brute force: plain shared cells, mutexes and
// READ COMMITTED transactions whose UPDATE waits for the row, as in PostgreSQL.
type machine struct {
	programs [][]op
	// lie changes a footprint before the engine sees it: the wrong footprints
	// that the self-test must catch.
	lie func(explore.Footprint) explore.Footprint
	// fail makes a step inconclusive, when it returns true.
	fail func(actor, pc int) bool
	// ended is told the outcome of each complete run.
	ended func(outcome string)
}

type opKind int

const (
	opRead   opKind = iota // reg += committed cell (or own uncommitted)
	opWrite                // cell = reg + k, visible at once (autocommit without lock)
	opUpdate               // takes the row's lock, cell = cell + reg + k; publishes at once outside a transaction
	opBegin
	opCommit
	opAbort
	opLock   // mutex
	opUnlock // mutex
	opLocal  // touches nothing
)

type op struct {
	kind opKind
	cell int
	k    int
	// ifOdd runs the op only when the register is odd: control flow that
	// depends on what was read.
	ifOdd bool
}

func (o op) String() string {
	names := [...]string{"read", "write", "update", "begin", "commit", "abort", "lock", "unlock", "local"}
	s := names[o.kind] + " c" + strconv.Itoa(o.cell) + " k" + strconv.Itoa(o.k)
	if o.ifOdd {
		s += " ifOdd"
	}
	return s
}

type actor struct {
	pc      int
	reg     int
	inTx    bool
	held    []int       // row locks
	pending map[int]int // uncommitted values
	waits   bool
	dead    bool // lost a deadlock: takes no more steps
}

type run struct {
	m      *machine
	cells  []int
	rows   []int // who holds the row lock, -1
	mutex  []int
	actors []actor
}

const cells = 3

func (m *machine) Begin(context.Context) (explore.Execution, error) {
	r := &run{m: m, cells: make([]int, cells), rows: []int{-1, -1, -1}, mutex: []int{-1, -1, -1},
		actors: make([]actor, len(m.programs))}
	for i := range r.actors {
		r.actors[i].pending = map[int]int{}
		r.skip(i)
	}
	return r, nil
}

// skip passes over the ops that control flow leaves out.
func (r *run) skip(i int) {
	a, p := &r.actors[i], r.m.programs[i]
	for a.pc < len(p) && p[a.pc].ifOdd && a.reg%2 == 0 {
		a.pc++
	}
}

func (r *run) Actors() []explore.Status {
	s := make([]explore.Status, len(r.actors))
	for i, a := range r.actors {
		switch {
		case a.waits:
			s[i] = explore.Status{State: explore.Blocked}
		case a.dead || a.pc >= len(r.m.programs[i]):
			s[i] = explore.Status{State: explore.Done}
		default:
			s[i] = explore.Status{State: explore.Ready, Step: r.m.programs[i][a.pc].String()}
		}
	}
	return s
}

func access(m explore.Mode, object string, n int) explore.Access {
	return explore.Access{Mode: m, Object: object, From: int64(n), To: int64(n) + 1}
}

// footprint of the actor's next op, before it runs.
func (r *run) footprint(i int) explore.Footprint {
	a := &r.actors[i]
	var acc []explore.Access
	switch o := r.m.programs[i][a.pc]; o.kind {
	case opRead:
		acc = append(acc, access(explore.Read, "cell", o.cell))
	case opWrite:
		acc = append(acc, access(explore.Write, "cell", o.cell))
	case opUpdate:
		acc = append(acc, access(explore.Lock, "cell", o.cell))
		if !a.inTx {
			acc = append(acc, access(explore.Publish, "cell", o.cell))
		}
	case opCommit, opAbort:
		mode := explore.Publish
		if o.kind == opAbort {
			mode = explore.Unlock
		}
		for _, c := range a.held {
			acc = append(acc, access(mode, "cell", c))
		}
	case opLock:
		acc = append(acc, access(explore.Lock, "mutex", o.cell))
	case opUnlock:
		acc = append(acc, access(explore.Unlock, "mutex", o.cell))
	}
	f := explore.Footprint{Accesses: acc}
	if r.m.lie != nil {
		f = r.m.lie(f)
	}
	return f
}

func (r *run) Step(_ context.Context, i int) (explore.Event, error) {
	a := &r.actors[i]
	o := r.m.programs[i][a.pc]
	if r.m.fail != nil && r.m.fail(i, a.pc) {
		return explore.Event{}, &explore.InconclusiveError{Reason: "test"}
	}
	e := explore.Event{Actor: i, Step: o.String(), Footprint: r.footprint(i)}
	if r.blocked(i, o) {
		a.waits = true
		e.Blocked = true
		if r.cycle(i) {
			// The one that closes the cycle is the victim, as in PostgreSQL.
			a.waits, e.Blocked, a.dead = false, false, true
			e.Footprint = e.Footprint.Union(r.release(i, &e))
		}
		return e, nil
	}
	e.Footprint = e.Footprint.Union(r.perform(i, o, &e))
	return e, nil
}

func (r *run) blocked(i int, o op) bool {
	switch o.kind {
	case opUpdate, opWrite:
		return r.rows[o.cell] >= 0 && r.rows[o.cell] != i
	case opLock:
		return r.mutex[o.cell] >= 0
	}
	return false
}

// cycle reports whether following who waits for whom leads back to i.
func (r *run) cycle(i int) bool {
	seen := map[int]bool{}
	for j := i; r.actors[j].waits && !seen[j]; {
		seen[j] = true
		o := r.m.programs[j][r.actors[j].pc]
		if o.kind == opLock {
			j = r.mutex[o.cell]
		} else {
			j = r.rows[o.cell]
		}
		if j == i {
			return true
		}
	}
	return false
}

// perform does the op and returns the footprints of the actors it woke.
func (r *run) perform(i int, o op, e *explore.Event) explore.Footprint {
	a := &r.actors[i]
	woken := explore.Footprint{}
	switch o.kind {
	case opRead:
		v, own := a.pending[o.cell]
		if !own {
			v = r.cells[o.cell]
		}
		a.reg += v
	case opWrite:
		r.cells[o.cell] = a.reg + o.k
	case opUpdate:
		v, own := a.pending[o.cell]
		if !own {
			v = r.cells[o.cell]
		}
		a.pending[o.cell] = v + a.reg + o.k
		r.rows[o.cell] = i
		if !slices.Contains(a.held, o.cell) {
			a.held = append(a.held, o.cell)
		}
		if !a.inTx {
			woken = r.finish(i, true, e)
		}
	case opBegin:
		a.inTx = true
	case opCommit, opAbort:
		a.inTx = false
		woken = r.finish(i, o.kind == opCommit, e)
	case opLock:
		r.mutex[o.cell] = i
	case opUnlock:
		if r.mutex[o.cell] == i {
			r.mutex[o.cell] = -1
			woken = r.wake(e)
		}
	}
	a.pc++
	r.skip(i)
	return woken
}

func (r *run) finish(i int, commit bool, e *explore.Event) explore.Footprint {
	a := &r.actors[i]
	for _, c := range a.held {
		if commit {
			r.cells[c] = a.pending[c]
		}
		r.rows[c] = -1
		delete(a.pending, c)
	}
	a.held = nil
	return r.wake(e)
}

// release ends all that a deadlock's victim holds.
func (r *run) release(i int, e *explore.Event) explore.Footprint {
	for m, by := range r.mutex {
		if by == i {
			r.mutex[m] = -1
		}
	}
	var held explore.Footprint
	for _, c := range r.actors[i].held {
		held.Accesses = append(held.Accesses, access(explore.Unlock, "cell", c))
	}
	held.Accesses = append(held.Accesses, explore.Access{Mode: explore.Unlock, Object: "mutex"})
	return held.Union(r.finish(i, false, e))
}

// wake completes the waiting steps that can go on, lowest actor first.
func (r *run) wake(e *explore.Event) explore.Footprint {
	var f explore.Footprint
	for j := range r.actors {
		b := &r.actors[j]
		if !b.waits {
			continue
		}
		o := r.m.programs[j][b.pc]
		if r.blocked(j, o) {
			continue
		}
		f = f.Union(r.footprint(j))
		b.waits = false
		e.Woke = append(e.Woke, j)
		f = f.Union(r.perform(j, o, e))
	}
	return f
}

func (r *run) End(_ context.Context, complete bool) error {
	if complete && r.m.ended != nil {
		var b strings.Builder
		fmt.Fprint(&b, r.cells)
		for i, a := range r.actors {
			fmt.Fprintf(&b, " %d:%d/%v/%v", i, a.reg, a.waits, a.dead)
		}
		r.m.ended(b.String())
	}
	return nil
}

// program makes a random machine.
func program(rng *rand.Rand, actors, length int) *machine {
	m := &machine{}
	for range actors {
		var p []op
		inTx, held := false, -1
		for len(p) < 1+rng.IntN(length) {
			o := op{cell: rng.IntN(cells - 1), k: 1 + rng.IntN(3), ifOdd: rng.IntN(8) == 0}
			switch n := rng.IntN(10); {
			case n < 3:
				o.kind = opRead
			case n < 6:
				o.kind = opUpdate
			case n < 7:
				o.kind = opLocal
			case n < 8 && !inTx:
				o.kind, o.ifOdd, inTx = opBegin, false, true
			case n < 9 && inTx:
				o.kind, o.ifOdd, inTx = opCommit, false, false
				if rng.IntN(4) == 0 {
					o.kind = opAbort
				}
			case held < 0:
				o.kind, o.ifOdd, held = opLock, false, o.cell
			default:
				o.kind, o.ifOdd, o.cell, held = opUnlock, false, held, -1
			}
			p = append(p, o)
		}
		if inTx {
			p = append(p, op{kind: opCommit})
		}
		if held >= 0 {
			p = append(p, op{kind: opUnlock, cell: held})
		}
		m.programs = append(m.programs, p)
	}
	return m
}
