package witness

import (
	"fmt"
	"maps"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// run is one execution of some actors in one world.
type run struct {
	st      *state
	actors  []*actor
	events  []Event
	seen    map[string]bool // resources whose effects are scheduling points; nil: all
	fault   *fault
	crossed bool
	blind   bool   // blind writes count as looking: their mixing is wanted, too
	iso     string // of transactions that ask for none
	pool    int    // connections; 0 is no bound
	alarm   *alarm
	stuck   bool // a loop passed its bound: nothing can be said
	steps   int
	points  int
	trace   bool
	expired bool // a lock has been taken by its age
}

// alarm is a bad state that shows itself at one step.
type alarm struct {
	kind Kind
	text string
	step *effect.Step
	on   *effect.Resource
}

const (
	maxSteps  = 2000
	maxRounds = 3
)

// start makes the actors ready.
func start(w *world, p *Problem, codes []*code, processes []int) *run {
	r := &run{st: newState(w, p.Schema), iso: p.Deploy.Isolation, blind: p.opts.Notes || p.opts.Blind}
	for i, c := range codes {
		a := &actor{name: string(rune('A' + i)), index: i, process: processes[i], code: c, run: r}
		a.reset()
		r.actors = append(r.actors, a)
	}
	if len(codes) == 2 && codes[0] == codes[1] && len(codes[0].crosses) > 0 {
		r.crossed = w.ask("the second has its keys the other way round", false)
	}
	return r
}

func (a *actor) reset() {
	a.env, a.loops = map[string]*binding{}, map[int]int{}
	a.handles, a.lost = map[string]*row{}, map[string]*effect.Step{}
	a.looked = false
	a.pc, a.done, a.failed, a.txs, a.scopes, a.acked = 0, false, false, nil, nil, nil
}

// verdict of trying one step of an actor.
type verdict uint8

const (
	moved verdict = iota
	waits
	ended
)

// advance runs local instructions up to the next effect, and that effect. It
// stops before an effect that is a scheduling point if hold is set; at says
// whether it stands before one.
func (a *actor) advance() verdict {
	for !a.done {
		r := a.run
		if r.steps++; r.steps > maxSteps {
			r.stuck = true
			return ended
		}
		in := &a.code.ins[a.pc]
		if in.kind == insEffect {
			return a.effect(in.step)
		}
		a.local(in)
	}
	return ended
}

// settle runs the local instructions that follow, so that an actor stands
// before an effect or has ended.
func (a *actor) settle() {
	for !a.done && !a.run.stuck && a.code.ins[a.pc].kind != insEffect {
		if a.run.steps++; a.run.steps > maxSteps {
			a.run.stuck = true
			return
		}
		a.local(&a.code.ins[a.pc])
	}
}

// local runs one instruction that touches nothing shared.
func (a *actor) local(in *instr) {
	a.pc++
	switch in.kind {
	case insLet:
		a.assign(in.step)
	case insBranch:
		if !a.cond(*in.step.Val, in.prefer) {
			a.pc = in.target
		}
	case insJump:
		a.pc = in.target
	case insEnter:
		a.scopes = append(a.scopes, scope{end: in.target, step: in.step, loops: maps.Clone(a.loops)})
	case insLeave:
		a.scopes = a.scopes[:len(a.scopes)-1]
	case insReturn:
		a.leave(in.step)
	case insLoopInit:
		a.loops[in.loop] = 0
	case insLoopHead:
		a.loopHead(in)
	case insSpawn:
		a.spawn(in)
	case insEnd:
		a.finish(false)
	}
}

func (a *actor) loopHead(in *instr) {
	s := in.step
	n := a.loops[in.loop]
	a.loops[in.loop] = n + 1
	if n > 0 {
		a.rounds++
	}
	limit := 1
	switch {
	case s.Retry && s.Max > 0:
		limit = min(s.Max, maxRounds)
	case s.Retry:
		limit = maxRounds
	case s.Val == nil || !overCollection(*s.Val):
		limit = 2
	}
	if n >= limit {
		if s.Retry && s.Max == 0 {
			a.run.stuck = true
			if f := a.run.fault; f != nil && f.kind == refuseAll && !s.CtxChecked {
				a.run.alarm = &alarm{kind: Endless, step: s, text: "the loop has no bound and looks at no deadline"}
			}
		}
		a.pc = in.target
		return
	}
	if s.Val != nil && !overCollection(*s.Val) && !a.cond(*s.Val, n == 0) {
		a.pc = in.target
	}
}

// overCollection says that a loop goes over a collection: one round shows what
// it does.
func overCollection(v effect.Value) bool {
	return v.Kind == effect.UnknownValue || v.Kind == effect.ApplyValue && v.Name == "more"
}

// leave is a return: out of the innermost scope, or of the entry point.
func (a *actor) leave(s *effect.Step) {
	if len(a.scopes) == 0 {
		a.finish(s.Fail)
		return
	}
	top := a.scopes[len(a.scopes)-1]
	a.scopes = a.scopes[:len(a.scopes)-1]
	a.pc, a.loops = top.end, top.loops
	if b := top.step.Bind; b != "" {
		fields := map[string]term{"err": nilTerm}
		if s.Fail {
			fields["err"] = constant(`"error"`)
		}
		a.env[b] = &binding{rec: &record{fields: fields}}
		for i, v := range s.Args {
			name := fmt.Sprintf("%s.%d", b, i)
			if v.Kind == effect.PathValue && v.Root() != "in" {
				if old, field := a.lookup(v.Name); old != nil && field == "" {
					a.env[name] = old
					continue
				}
			}
			t := a.eval(v)
			a.env[name] = &binding{t: &t}
		}
	}
	if s.Fail && top.step.OnErr != effect.OnDrop && top.step.OnErr != effect.OnLog && top.step.OnErr != effect.OnBind {
		a.leave(&effect.Step{Op: effect.Return, Fail: true})
	}
}

// finish ends the actor; open transactions are rolled back.
func (a *actor) finish(failed bool) {
	a.done, a.failed = true, failed
	for _, t := range a.txs {
		if !t.closed {
			a.rollback(t)
		}
	}
	if a.run.trace && a.parent == nil {
		text := "answers ok"
		if failed {
			text = "answers with a failure"
		}
		if a.code.entry.Kind != effect.HTTP && a.code.entry.Kind != effect.GRPC {
			text = map[bool]string{false: "ends", true: "ends with a failure"}[failed]
		}
		a.run.events = append(a.run.events, Event{Actor: a.index, Result: text, End: true, Failed: failed})
	}
}

// fail deals with a failed step as its policy says.
func (a *actor) fail(s *effect.Step, kind string) {
	switch s.OnErr {
	case effect.OnDrop, effect.OnLog, effect.OnBind:
		f := map[string]term{"err": constant(`"` + kind + `"`), "found": falseTerm, "rows": number(0), "ok": falseTerm}
		a.bind(s.Bind, &record{fields: f})
		a.pc++
	default:
		if len(a.scopes) == 0 {
			a.finish(true)
			return
		}
		a.leave(&effect.Step{Op: effect.Return, Fail: true})
	}
}

func (a *actor) spawn(in *instr) {
	kid := &actor{name: a.name + "." + fmt.Sprint(len(a.kids)+1), index: a.index, process: a.process, code: a.code, run: a.run,
		pc: a.pc, env: a.env, parent: a, childOf: in.step.Bind, started: in.step, looked: a.looked, loops: map[int]int{}, handles: a.handles, lost: a.lost}
	a.kids = append(a.kids, kid)
	a.run.actors = append(a.run.actors, kid)
	a.pc = in.target
}

// visible says whether the effect an actor stands before is a scheduling point.
func (r *run) visible(a *actor) bool {
	if a.done {
		return false
	}
	s := a.code.ins[a.pc].step
	if r.seen == nil {
		return s.On != nil || s.Op == effect.Commit
	}
	// Before an actor has looked at anything, and after its last change, another
	// may as well run wholly before or after it.
	if !a.looked || a.pc > a.code.lastChange {
		return false
	}
	if s.On == nil {
		return s.Op == effect.Commit
	}
	return r.seen[string(s.On.Kind)+":"+s.On.Name] || s.To != nil && r.seen[string(s.To.Kind)+":"+s.To.Name]
}

// plan is a schedule: who begins, and at which scheduling points another takes
// over.
type plan struct {
	first int
	at    []int // numbers of scheduling points, rising
	to    []int // actors
}

// play runs all actors after the plan. It returns false for a deadlock.
func (r *run) play(p plan) bool {
	cur, point, next := p.first, 0, 0
	blocked := map[*actor]bool{}
	for !r.stuck && r.alarm == nil {
		a := r.actors[cur]
		a.settle()
		if !a.done && !blocked[a] && r.visible(a) {
			r.points++
			if next < len(p.at) && p.at[next] == point {
				cur = p.to[next]
				next++
				point++
				continue
			}
			point++
		}
		if !a.done && !blocked[a] {
			if a.advance() == waits {
				blocked[a] = true
			} else {
				clear(blocked)
			}
			continue
		}
		cur = r.other(cur, blocked)
		if cur < 0 {
			return r.allDone()
		}
	}
	return true
}

// other finds an actor that can go on: after the current one in turn.
func (r *run) other(cur int, blocked map[*actor]bool) int {
	for i := 1; i <= len(r.actors); i++ {
		j := (cur + i) % len(r.actors)
		if b := r.actors[j]; !b.done && !blocked[b] {
			return j
		}
	}
	return -1
}

func (r *run) allDone() bool {
	for _, a := range r.actors {
		if !a.done {
			return false
		}
	}
	return true
}

// note adds an event to the trace.
func (r *run) note(a *actor, s *effect.Step, format string, args ...any) {
	if r.trace {
		r.events = append(r.events, Event{Actor: a.index, Step: s, Result: fmt.Sprintf(format, args...)})
	}
}

// touch is a note of an access, which the race is told from later.
func (r *run) touch(a *actor, s *effect.Step, table string, write bool, format string, args ...any) {
	r.touched(a, s, table, write, func() string { return fmt.Sprintf(format, args...) })
}

// touched is touch with a text that costs something to make: most runs are not
// traced.
func (r *run) touched(a *actor, s *effect.Step, table string, write bool, text func() string) {
	if r.trace {
		r.events = append(r.events, Event{Actor: a.index, Step: s, Result: text(), table: table, write: write})
	}
}
