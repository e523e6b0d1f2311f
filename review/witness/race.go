package witness

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// race tells from the trace which steps race: the damaged write, the read that
// it rests on, and the other actor's step between them.
func (r *run) race(w *Witness, damage []string) {
	for _, table := range damage {
		for i := len(r.events) - 1; i >= 0; i-- {
			write := &r.events[i]
			if !write.write || write.table != table {
				continue
			}
			if r.raceAt(w, i, table) {
				return
			}
		}
	}
	// Blind writes that mix: no read is involved.
	for i := len(r.events) - 1; i >= 0; i-- {
		if e := &r.events[i]; e.write && slices.Contains(damage, e.table) {
			w.Write, w.On = e.Step, e.Step.On
			if e.Step.Op == effect.Rename {
				w.On = e.Step.To
			}
			return
		}
	}
}

// raceAt looks for a read before the write with index i, and for another
// actor's write to what was read, after the read.
func (r *run) raceAt(w *Witness, i int, table string) bool {
	write := &r.events[i]
	best := -1
	for j := i - 1; j >= 0; j-- {
		read := &r.events[j]
		if read.Actor != write.Actor || read.write || read.table == "" {
			continue
		}
		if !r.overtaken(j, write.Actor) {
			continue
		}
		if read.table == table {
			best = j
			break
		}
		if best < 0 {
			best = j
		}
	}
	if best < 0 {
		return false
	}
	read := &r.events[best]
	w.Read, w.Write, w.On = read.Step, write.Step, write.Step.On
	if write.Step.Op == effect.Rename {
		w.On = write.Step.To
	}
	for k := best + 1; k < len(r.events); k++ {
		if e := &r.events[k]; e.Actor != write.Actor && e.write && e.table == read.table {
			w.Other = e.Step
			break
		}
	}
	f := follow(w.Actors[write.Actor].Entry, read.Step)
	w.Derived, w.Controls = f.steps[write.Step], f.controls
	return true
}

// overtaken says whether another actor writes, after the read with index j, to
// what was read.
func (r *run) overtaken(j, actor int) bool {
	for k := j + 1; k < len(r.events); k++ {
		if e := &r.events[k]; e.Actor != actor && e.write && e.table == r.events[j].table {
			return true
		}
	}
	return false
}

// flow marks what derives from a read: values, copies, results of calls,
// temporary files and what is published from them.
type flow struct {
	taint    map[string]bool // variables, and "path X" for files
	steps    map[*effect.Step]bool
	controls bool // a condition uses it
}

// follow runs over the entry until nothing new derives.
func follow(e *effect.Entry, read *effect.Step) *flow {
	f := &flow{taint: map[string]bool{}, steps: map[*effect.Step]bool{}}
	if read.Bind == "" {
		return f
	}
	f.taint[read.Bind] = true
	for n := -1; n != len(f.taint)+len(f.steps); {
		n = len(f.taint) + len(f.steps)
		f.block(e.Body, "")
	}
	return f
}

func (f *flow) block(b effect.Block, scope string) {
	for i := range b {
		s := &b[i]
		f.step(s, scope)
		inner := scope
		if s.Op == effect.Scope {
			inner = s.Bind
		}
		f.block(s.Body, inner)
		f.block(s.Else, scope)
	}
}

func (f *flow) step(s *effect.Step, scope string) {
	switch s.Op {
	case effect.Let:
		if f.uses(s.Val) {
			f.taint[s.Name] = true
		}
	case effect.If, effect.Loop:
		f.controls = f.controls || f.uses(s.Val)
	case effect.Return:
		for j := range s.Args {
			if scope != "" && f.uses(&s.Args[j]) {
				f.taint[fmt.Sprintf("%s.%d", scope, j)] = true
			}
		}
	case effect.Write, effect.Send:
		for j := range s.Set {
			if !f.uses(&s.Set[j].Val) {
				continue
			}
			f.steps[s] = true
			for _, k := range s.On.Key {
				f.taint["path "+k.Val.String()] = true
			}
		}
	case effect.Rename:
		for _, k := range s.On.Key {
			f.steps[s] = f.steps[s] || f.taint["path "+k.Val.String()]
		}
		if !f.steps[s] {
			delete(f.steps, s)
		}
	}
}

func (f *flow) uses(v *effect.Value) bool {
	hit := false
	if v != nil {
		v.Paths(func(p string) { hit = hit || tainted(f.taint, p) })
	}
	return hit
}

func tainted(taint map[string]bool, path string) bool {
	for end := len(path); end > 0; end = strings.LastIndexByte(path[:end], '.') {
		if taint[path[:end]] {
			return true
		}
	}
	return false
}

// voids lists the protections on the way that had no effect.
func (r *run) voids(w *Witness, s *search) []Void {
	var out []Void
	add := func(k VoidKind, st *effect.Step, why string) {
		if !slices.ContainsFunc(out, func(v Void) bool { return v.Kind == k && v.Step == st }) {
			out = append(out, Void{k, st, why})
		}
	}
	for i := range r.events {
		e := &r.events[i]
		if e.Step == nil {
			continue
		}
		st := e.Step
		switch {
		case st.Void != "":
			add(VoidOption, st, st.Void)
		case st.Lock != "" && st.Tx == "":
			add(VoidNoTx, st, "outside of a transaction the row lock ends with the statement")
		case st.Lock != "" && e.Result == "not found":
			if w.Write == nil || w.Write.Mode == effect.Insert {
				add(VoidMissing, st, "a row that does not exist can not be locked")
			}
		case st.Op == effect.Lock && st.On.Kind == effect.MutexKind && len(s.procs) == 2 && s.procs[0] != s.procs[1]:
			add(VoidMutex, st, "a mutex holds within one process, and there are several")
		case st.Op == effect.Write && e.Result == "0 rows" && st.Bind == "" && len(st.Where) > 0:
			add(VoidZeroRows, st, "the statement changed no row, and nobody looks")
		case st.Op == effect.Unlock:
			if c := r.commitAfter(i); c != nil {
				add(VoidEarly, st, "the lock is released before the commit makes the change visible")
			}
		}
		for _, c := range st.Where {
			if st.Op == effect.Write && c.Col == "version" && (c.Val.String() == `""` || c.Val.String() == "nil") {
				add(VoidVersion, st, "the version is empty: the store takes the write without a condition")
			}
		}
		if (st == w.Write || st == w.Read) && st.Tx == "" && st.On != nil && st.On.Kind == effect.TableKind && r.txOpen(i) {
			add(VoidOutside, st, "the statement runs beside the open transaction, on another connection")
		}
	}
	return append(out, r.late(w)...)
}

// late finds a lock that the writer takes between the read and the write.
func (r *run) late(w *Witness) []Void {
	if w.Read == nil || w.Write == nil {
		return nil
	}
	from := slices.IndexFunc(r.events, func(e Event) bool { return e.Step == w.Read })
	if from < 0 {
		return nil
	}
	for _, e := range r.events[from+1:] {
		if e.Step == nil || e.Actor != r.events[from].Actor {
			continue
		}
		if e.Step == w.Write {
			break
		}
		if e.Step.Op == effect.Lock && e.Result == "got" {
			return []Void{{VoidLockLate, e.Step, "the lock is taken after the read it should protect"}}
		}
	}
	return nil
}

// commitAfter finds a commit of the same actor after an unlock, with its
// transaction open at the unlock.
func (r *run) commitAfter(i int) *effect.Step {
	if !r.txOpen(i) {
		return nil
	}
	for _, e := range r.events[i+1:] {
		if e.Actor == r.events[i].Actor && e.Step != nil && e.Step.Op == effect.Commit && strings.HasPrefix(e.Result, "committed") {
			return e.Step
		}
	}
	return nil
}

// txOpen says whether the actor of event i has a transaction open there.
func (r *run) txOpen(i int) bool {
	n := 0
	for _, e := range r.events[:i] {
		if e.Actor != r.events[i].Actor || e.Step == nil {
			continue
		}
		switch e.Step.Op {
		case effect.Begin:
			n++
		case effect.Commit, effect.Rollback:
			n--
		}
	}
	return n > 0
}
