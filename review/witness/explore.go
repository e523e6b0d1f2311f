package witness

import (
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// search is the exploration of one pair of actors.
type search struct {
	p     *Problem
	codes []*code
	procs []int
	seen  map[string]bool
	fault *fault
	pool  int
	runs  int
	limit int
	found map[string]bool // damage that has its witness already
	out   []*Witness
}

// outcome is what a run leaves behind.
type outcome struct {
	rows   map[string]string
	failed []bool
}

// differs lists the resources in which two outcomes differ.
func (o outcome) differs(b outcome) []string {
	var out []string
	for k, v := range o.rows {
		if b.rows[k] != v {
			out = append(out, k)
		}
	}
	for k := range b.rows {
		if _, ok := o.rows[k]; !ok {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

func (r *run) outcome() outcome {
	o := outcome{rows: r.st.render()}
	for _, a := range r.actors {
		if a.parent == nil {
			o.failed = append(o.failed, a.failed)
		}
	}
	return o
}

// do runs one plan; only limits it to one actor (-1: all).
func (s *search) do(w *world, pl plan, only int, trace bool) (*run, bool) {
	s.runs++
	r := start(w, s.p, s.codes, s.procs)
	r.seen, r.pool, r.trace = s.seen, s.pool, trace
	if s.fault != nil {
		f := *s.fault
		r.fault = &f
	}
	if only >= 0 {
		r.actors[1-only].done, r.actors[1-only].failed = true, true
	}
	return r, r.play(pl)
}

// explore looks through worlds and schedules: all worlds with one preemption,
// in which nearly everything shows, and then with two as far as the budget
// reaches.
func (s *search) explore(worlds int) {
	before := len(s.out)
	for preemptions := 1; preemptions <= 2 && len(s.out) == before; preemptions++ {
		var prefix []bool
		if preemptions == 2 {
			worlds = min(worlds, 6)
		}
		for n := 0; n < worlds && s.runs < s.limit; n++ {
			w := newWorld(prefix)
			s.world(w, preemptions)
			next, ok := w.next()
			if !ok {
				break
			}
			prefix = next
		}
	}
}

// specification runs the good orders: both serial ones, and each actor alone
// for outcomes in which the other failed.
func (s *search) specification(w *world) (good []outcome, points [2]int, ok bool) {
	fault := s.fault
	s.fault = nil
	defer func() { s.fault = fault }()
	for first := range 2 {
		r, done := s.do(w, plan{first: first}, -1, false)
		if !done || r.stuck || r.alarm != nil {
			return nil, points, false
		}
		good = append(good, r.outcome())
	}
	for only := range 2 {
		r, done := s.do(w, plan{first: only}, only, false)
		if !done || r.stuck || r.alarm != nil {
			return nil, points, false
		}
		points[only] = r.points
		good = append(good, r.outcome())
	}
	return good, points, true
}

func (s *search) world(w *world, preemptions int) {
	good, points, ok := s.specification(w)
	if !ok || !changes(good) {
		return
	}
	if preemptions == 1 {
		s.once(w, good, points)
		return
	}
	for first := range 2 {
		for at := range points[first] {
			for back := at + 1; back <= at+points[1-first]; back++ {
				if s.runs >= s.limit || s.try(w, plan{first: first, at: []int{at, back}, to: []int{1 - first, first}}, good) {
					return
				}
			}
		}
	}
}

// once tries the schedules with one preemption.
func (s *search) once(w *world, good []outcome, points [2]int) {
	for first := range 2 {
		if first == 1 && s.codes[0] == s.codes[1] && s.fault == nil {
			return // the two are alike
		}
		for at := range points[first] {
			if s.try(w, plan{first: first, at: []int{at}, to: []int{1 - first}}, good) {
				return
			}
		}
	}
}

// changes says whether anything happens in a world at all.
func changes(good []outcome) bool {
	return slices.ContainsFunc(good, func(o outcome) bool { return len(o.rows) > 0 })
}

// try plays one schedule and keeps it if it ends badly.
func (s *search) try(w *world, pl plan, good []outcome) bool {
	r, done := s.do(w, pl, -1, false)
	if r.stuck {
		return false
	}
	switch {
	case r.alarm != nil:
		return s.keep(w, pl, r.alarm.kind, good, nil)
	case !done:
		return s.keep(w, pl, Deadlock, good, nil)
	case s.fault != nil && s.fault.kind != expire:
		return false
	}
	got := r.outcome()
	damage := verdictOf(got, good)
	if len(damage) == 0 {
		return false
	}
	return s.keep(w, pl, NonSerial, good, damage)
}

// verdictOf gives the resources that no good order explains. An actor that
// failed counts as one that was not there; what it left behind is damage. The
// same state with other answers is none: no data is lost.
func verdictOf(got outcome, good []outcome) []string {
	var closest []string
	for i, g := range good {
		if i >= 2 && !got.failed[1-(i-2)] {
			continue // the order of one actor alone stands for a failure of the other
		}
		d := got.differs(g)
		if len(d) == 0 {
			return nil
		}
		if closest == nil || len(d) < len(closest) {
			closest = d
		}
	}
	return closest
}

// keep plays the schedule again with a trace and makes the witness.
func (s *search) keep(w *world, pl plan, k Kind, good []outcome, damage []string) bool {
	r, _ := s.do(w, pl, -1, true)
	wit := &Witness{Kind: k, Events: r.events, Crossed: r.crossed}
	for i, a := range r.actors[:len(s.codes)] {
		wit.Actors = append(wit.Actors, Actor{Name: a.name, Entry: s.codes[i].entry, Process: s.procs[i]})
	}
	switch {
	case r.alarm != nil:
		wit.On, wit.Write, wit.Got = r.alarm.on, r.alarm.step, r.alarm.text
		wit.Expected = []string{"the file holds the old or the new content, whole"}
		if k == LostLock {
			wit.Expected = []string{"only the holder of the lock acts"}
		}
	case k == Deadlock:
		r.deadlock(wit)
	default:
		r.race(wit, damage)
		wit.Got = tell(r.outcome(), damage)
		for i, g := range good[:2] {
			order := []string{"A, then B: ", "B, then A: "}[i]
			wit.Expected = append(wit.Expected, order+tell(g, damage))
		}
	}
	wit.Voids = r.voids(wit, s)
	wit.NoSchema = s.noSchema(wit.On)
	id := string(k)
	if wit.On != nil {
		id += " " + string(wit.On.Kind) + ":" + wit.On.Name
	}
	if wit.Write != nil {
		id += " " + wit.Write.Pos.String()
	}
	if s.found[id] {
		return false
	}
	s.found[id] = true
	s.out = append(s.out, wit)
	return true
}

// noSchema says that nothing is known of a table's indexes.
func (s *search) noSchema(on *effect.Resource) bool {
	return on != nil && on.Kind == effect.TableKind && s.p.Schema.Tables[strings.ToLower(on.Name)] == nil
}

// tell writes an outcome, limited to the damaged resources.
func tell(o outcome, damage []string) string {
	var parts []string
	for _, d := range damage {
		text := o.rows[d]
		if text == "" {
			text = "unchanged"
		}
		if d == "sent" {
			parts = append(parts, "sent: "+text)
			continue
		}
		parts = append(parts, plain(d)+": "+text)
	}
	for i, f := range o.failed {
		if f {
			parts = append(parts, string(rune('A'+i))+" fails")
		}
	}
	return strings.Join(parts, "; ")
}

// deadlock notes what each actor waits for.
func (r *run) deadlock(w *Witness) {
	for _, a := range r.actors {
		if a.done || a.code.ins[a.pc].step == nil {
			continue
		}
		s := a.code.ins[a.pc].step
		w.Events = append(w.Events, Event{Actor: a.index, Step: s, Result: "waits, for ever"})
		if w.Write == nil {
			w.Write, w.On = s, s.On
		} else if w.Other == nil {
			w.Other = s
		}
	}
	w.Got = "all wait for each other"
	w.Expected = []string{"one after the other: both end"}
}

// footprint is what an entry touches: resource -> it writes.
type footprint struct {
	touch map[string]bool
	sends bool
	vars  bool
	looks map[string]bool // resources that it reads or checks, or whose state its writes ask for
	tx    bool            // it opens transactions
	stale bool            // it takes locks that may be taken from it
}

func printOf(e *effect.Entry) footprint {
	f := footprint{touch: map[string]bool{}, looks: map[string]bool{}}
	e.Body.Walk(func(s *effect.Step) bool {
		for i, r := range []*effect.Resource{s.On, s.To} {
			if r == nil {
				continue
			}
			name := string(r.Kind) + ":" + r.Name
			changes := i == 1 || s.Op == effect.Write || s.Op == effect.Rename || s.Op == effect.Lock || s.Lock != ""
			if s.Op == effect.Send || s.Op == effect.Ack {
				f.sends = f.sends || s.Op == effect.Send && s.Mode != effect.Get
				continue
			}
			f.touch[name] = f.touch[name] || changes
			f.looks[name] = f.looks[name] || looks(s)
			f.vars = f.vars || r.Kind == effect.VarKind
		}
		f.tx = f.tx || s.Op == effect.Begin
		f.stale = f.stale || s.Op == effect.Lock && s.Stale != ""
		return true
	})
	return f
}

// looks says whether a step learns something of what it is on, or can be seen in
// the middle (locks, files): without one of these on a shared resource the only
// outcome beside the serial ones is that blind writes mix.
func looks(s *effect.Step) bool {
	switch s.Op {
	case effect.Read, effect.Check, effect.Guard, effect.Lock, effect.Rename:
		return true
	case effect.Write:
		switch s.Mode {
		case effect.Insert, effect.Ignore, effect.Create, effect.Truncate, effect.Delete:
			return true
		}
		return len(s.Where) > 0 || s.Bind != "" || s.Tx != ""
	}
	return false
}

// conflicts lists the resources on which two entries may conflict. Unless blind
// writes are wanted, something must be looked at, too.
func (f footprint) conflicts(g footprint, blind bool) map[string]bool {
	out := map[string]bool{}
	data := false
	for name, w := range f.touch {
		if v, ok := g.touch[name]; ok && (w || v) {
			out[name] = true
			data = data || !isLockName(name)
			blind = blind || f.looks[name] || g.looks[name]
		}
	}
	if !blind || !data && !f.sends && len(out) < 2 {
		return nil
	}
	return out
}

func isLockName(name string) bool {
	kind, _, _ := strings.Cut(name, ":")
	switch effect.Kind(kind) {
	case effect.MutexKind, effect.FlockKind, effect.AdvisoryKind, effect.LeaseKind:
		return true
	}
	return false
}
