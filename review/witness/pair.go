package witness

import (
	"maps"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// Meeting says whether and how two entries run at once.
type Meeting struct {
	OK       bool
	Separate bool   // in different processes
	Why      string // the evidence, or why not
}

func perProcess(e *effect.Entry) int {
	if e.PerProcess != 0 {
		return e.PerProcess
	}
	switch e.Kind {
	case effect.HTTP, effect.GRPC, effect.Consumer, effect.Goroutine:
		return effect.Many
	case effect.Library:
		return 0
	}
	return 1
}

func (p *Problem) processes(e *effect.Entry) int {
	switch {
	case e.Processes != 0:
		return e.Processes
	case e.Kind == effect.Main:
		return effect.Many
	case p.Deploy.Replicas == 0:
		return 1
	}
	return p.Deploy.Replicas
}

// Meet says whether two entries (or two instances of one) can run at once.
func (p *Problem) Meet(i, j int) Meeting {
	a, b := &p.Entries[i], &p.Entries[j]
	if a.Kind == effect.Library || b.Kind == effect.Library {
		return Meeting{Why: "single writer: no caller in scope runs it concurrently"}
	}
	many := p.processes(a) != 1 && p.processes(b) != 1
	command := a.Kind == effect.Main || b.Kind == effect.Main
	startup := a.Kind == effect.Startup || b.Kind == effect.Startup
	switch {
	case i == j && a.Kind == effect.Main:
		return Meeting{OK: many, Separate: true, Why: "a command that may run twice at once"}
	case command:
		if p.processes(a) == 1 || p.processes(b) == 1 {
			// A command beside a service is another process in any case.
			other := a
			if a.Kind == effect.Main {
				other = b
			}
			return Meeting{OK: other.Kind != effect.Main, Separate: true, Why: "a command beside a running service"}
		}
		return Meeting{OK: true, Separate: true, Why: "two commands that may run at once"}
	case many:
		return Meeting{OK: true, Separate: true, Why: p.replicas()}
	case startup:
		return Meeting{Why: "runs before the service answers, in one process"}
	case i == j && perProcess(a) == 1:
		return Meeting{Why: "single writer: one at a time in one process"}
	}
	return Meeting{OK: true, Why: evidence(a)}
}

func (p *Problem) replicas() string {
	if p.Deploy.Evidence != "" {
		return "several processes: " + p.Deploy.Evidence
	}
	return "several processes"
}

func evidence(e *effect.Entry) string {
	if e.Evidence != "" {
		return e.Evidence
	}
	switch e.Kind {
	case effect.HTTP, effect.GRPC:
		return "a handler: the server runs it once per request, at the same time"
	case effect.Consumer:
		return "a consumer: several messages at once"
	case effect.Goroutine:
		return "started in a goroutine"
	}
	return "runs beside the others"
}

// Pair searches two instances of entries i and j for schedules that end badly.
func (p *Problem) Pair(i, j int) []*Witness {
	m := p.Meet(i, j)
	if !m.OK {
		return nil
	}
	seen := p.prints[i].conflicts(p.prints[j], p.opts.Blind || p.opts.Notes && i == j)
	if len(seen) == 0 {
		return nil
	}
	s := p.pair(i, j, seen, m.Separate)
	if len(s.out) == 0 && !m.Separate && p.Deploy.Rolling && p.opts.Notes {
		s = p.pair(i, j, seen, true)
		for _, w := range s.out {
			w.Rollout = true
		}
	}
	return s.out
}

// pair searches one pair in one process or in two.
func (p *Problem) pair(i, j int, seen map[string]bool, separate bool) *search {
	procs := []int{0, 0}
	if separate {
		procs[1] = 1
	}
	worlds, limit := p.opts.bounds()
	if i != j {
		// Each entry meets itself as well: what shows only between two different
		// ones shows early.
		worlds, limit = max(worlds/3, 1), max(limit/3, 1)
	}
	s := &search{p: p, codes: p.sliced(i, j, seen), procs: procs, seen: seen, limit: limit, found: map[string]bool{}}
	s.explore(worlds)
	if p.prints[i].stale && p.prints[j].stale {
		// A pause may come anywhere, also before an effect that only one has.
		s.fault, s.seen, s.limit = &fault{kind: expire}, nil, s.runs+limit/4
		s.explore(4)
		s.fault, s.seen = nil, seen
	}
	if p.prints[i].tx && p.prints[j].tx && i == j && len(s.out) == 0 {
		s.pool, s.limit = 2, s.runs+limit/8
		s.poolDry()
		s.pool = 0
	}
	if separate && p.prints[i].vars && p.prints[j].vars && len(s.out) == 0 {
		s.memory()
	}
	if i == j {
		s.hangs()
	}
	return s
}

// sliced compiles what of two entries matters where they meet.
func (p *Problem) sliced(i, j int, seen map[string]bool) []*code {
	wanted := func(s *effect.Step) bool {
		switch s.Op {
		case effect.Begin, effect.Commit, effect.Rollback, effect.Wait, effect.Send, effect.Ack:
			return true
		case effect.Write, effect.Rename:
			// What only one of them writes can be the damage, too: a refund after a
			// check of something shared.
			if s.On != nil && s.On.Kind != effect.VarKind {
				return true
			}
		}
		return s.On != nil && seen[string(s.On.Kind)+":"+s.On.Name] || s.To != nil && seen[string(s.To.Kind)+":"+s.To.Name]
	}
	a := compile(slice(&p.Entries[i], wanted))
	if i == j {
		return []*code{a, a}
	}
	return []*code{a, compile(slice(&p.Entries[j], wanted))}
}

// poolDry looks for actors that hold the last connections and ask for one more.
func (s *search) poolDry() {
	all := s.seen
	s.seen = nil // beginning a transaction is a point of its own here
	defer func() { s.seen = all }()
	w := newWorld(nil)
	s.pool = 0
	good, _, ok := s.specification(w)
	s.pool = 2
	if !ok {
		return
	}
	for at := range 4 {
		r, done := s.do(w, plan{at: []int{at}, to: []int{1}}, -1, false)
		if !done && r.openTxs() == 2 && s.keep(w, plan{at: []int{at}, to: []int{1}}, Deadlock, good, nil) {
			return
		}
	}
}

// memory compares one process with two: an outcome that changes although
// nothing overlaps shows memory that the instances are assumed to share.
func (s *search) memory() {
	var prefix []bool
	for range 8 {
		w := newWorld(prefix)
		apart, ok1 := s.do(w, plan{}, -1, false)
		procs := s.procs
		s.procs = []int{0, 0}
		together, ok2 := s.do(w, plan{}, -1, false)
		s.procs = procs
		if ok1 && ok2 && !apart.stuck && !together.stuck && apart.alarm == nil && together.alarm == nil {
			a, t := apart.outcome().durable(), together.outcome().durable()
			if (!maps.Equal(a.rows, t.rows) || moreSucceed(a, t)) && usesVar(apart) {
				s.keepMemory(w, a, t)
				return
			}
		}
		next, more := w.next()
		if !more {
			return
		}
		prefix = next
	}
}

// moreSucceed says that an actor succeeds apart that is refused together.
func moreSucceed(apart, together outcome) bool {
	for i, f := range together.failed {
		if f && !apart.failed[i] {
			return true
		}
	}
	return false
}

func usesVar(r *run) bool {
	for table := range r.st.rows {
		if len(table) > 4 && table[:4] == "var:" {
			return true
		}
	}
	return false
}

// durable leaves out what lives in a process.
func (o outcome) durable() outcome {
	out := outcome{rows: map[string]string{}, failed: o.failed}
	for k, v := range o.rows {
		if len(k) < 4 || k[:4] != "var:" {
			out.rows[k] = v
		}
	}
	return out
}

func (s *search) keepMemory(w *world, apart, together outcome) {
	damage := apart.differs(together)
	before := len(s.out)
	s.keep(w, plan{}, Memory, []outcome{together, together}, damage)
	if len(s.out) == before {
		return
	}
	wit := s.out[before]
	wit.Expected = []string{"in one process: " + tell(together, damage)}
	wit.Got = "in two processes: " + tell(apart, damage)
	for _, e := range wit.Events {
		if e.Step != nil && e.Step.On != nil && e.Step.On.Kind == effect.VarKind {
			wit.Read, wit.On = e.Step, e.Step.On
			break
		}
	}
}

// hangs looks for actors that wait as long as something outside takes: a call
// over the network, inside a transaction or under a lock.
func (s *search) hangs() {
	w := newWorld(nil)
	for pc := range s.codes[0].ins {
		in := &s.codes[0].ins[pc]
		if in.kind != insEffect || in.step.Op != effect.Send || in.step.On == nil || in.step.On.Kind != effect.RemoteKind && in.step.On.Kind != effect.TopicKind {
			continue
		}
		s.fault = &fault{kind: hang, step: in.step}
		r, done := s.do(w, plan{}, -1, false)
		if done || r.stuck || r.alarm != nil || r.actors[0].done || r.actors[1].done {
			continue
		}
		a, b := r.actors[0].at(), r.actors[1].at()
		if a != in.step || b == nil || b == in.step {
			continue
		}
		s.keepHang(w, in.step, b)
	}
	s.fault = nil
}

// at is the step an actor stands before.
func (a *actor) at() *effect.Step { return a.code.ins[a.pc].step }

func (s *search) keepHang(w *world, call, waits *effect.Step) {
	r, _ := s.do(w, plan{}, -1, true)
	wit := &Witness{Kind: Hang, Events: r.events, On: waits.On, Write: call, Other: waits,
		Expected: []string{"the lock is held for as long as the database takes"},
		Got:      "B, and everyone who needs the same lock, waits as long as " + call.On.Name + " takes to answer"}
	for i, a := range r.actors[:2] {
		wit.Actors = append(wit.Actors, Actor{Name: a.name, Entry: s.codes[i].entry, Process: s.procs[i]})
	}
	wit.Events = append(wit.Events, Event{Actor: 1, Step: waits, Result: "waits for A"})
	id := "hang " + call.Pos.String()
	if !s.found[id] {
		s.found[id] = true
		s.out = append(s.out, wit)
	}
}

// External searches entry i against writers that are not in the program: a
// Kubernetes object always has some (other controllers, people), whatever the
// number of instances of this one.
func (p *Problem) External(i int) []*Witness {
	e := &p.Entries[i]
	if e.Kind == effect.Library {
		return nil
	}
	var out []*Witness
	done := map[string]bool{}
	e.Body.Walk(func(s *effect.Step) bool {
		if s.Op != effect.Write || s.On == nil || s.On.Kind != effect.ObjectKind || done[s.On.Name] {
			return true
		}
		done[s.On.Name] = true
		other := &effect.Entry{ID: "another writer of " + s.On.Name, Kind: effect.Reconcile, Body: effect.Block{
			{Op: effect.Read, Bind: "o", On: &effect.Resource{Kind: s.On.Kind, Name: s.On.Name}},
			{Op: effect.Write, Mode: effect.Update, On: &effect.Resource{Kind: s.On.Kind, Name: s.On.Name}, Set: theirs(s),
				Where: []effect.Cond{{Col: "version", Op: "==", Val: effect.Var("o", "version")}}},
		}}
		_, limit := p.opts.bounds()
		sr := &search{p: p, codes: []*code{p.codes[i], compile(other)}, procs: []int{0, 1}, limit: limit / 4, found: map[string]bool{},
			seen: map[string]bool{string(s.On.Kind) + ":" + s.On.Name: true}}
		sr.explore(4)
		out = append(out, sr.out...)
		return true
	})
	return out
}

// theirs is what the other writer changes: the same fields, from what it read.
func theirs(s *effect.Step) []effect.Assign {
	out := []effect.Assign{}
	for _, a := range s.Set {
		v := effect.Apply("theirs", effect.Var("o", a.Col))
		if a.Col == "*" {
			v = effect.Apply("theirs", effect.Var("o"))
		}
		out = append(out, effect.Assign{Col: a.Col, Val: v})
	}
	return out
}
