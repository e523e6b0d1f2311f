package witness

import "github.com/holdfast-dev/holdfast/review/effect"

// fault is one thing that the surroundings do to a run.
type fault struct {
	kind  faultKind
	step  *effect.Step
	after int // of a crash: effects that have run before it
	used  bool
}

type faultKind uint8

const (
	failStep  faultKind = iota + 1 // the step fails with an error of input or output
	ambiguous                      // the step takes effect, and an error is told
	refuseAll                      // each conditional write finds that another was first
	hang                           // the call does not come back
	expire                         // a lock is found too old while its holder is paused
	crash                          // the process ends
)

// strike applies the fault to a step that is about to run.
func (f *fault) strike(a *actor, s *effect.Step) (verdict, bool) {
	switch f.kind {
	case failStep:
		if f.step != s || f.used {
			return 0, false
		}
		f.used = true
		a.run.events = append(a.run.events, Event{Actor: a.index, Step: s, Result: "fails: input/output error", Fault: true})
		if t := a.tx(s.Tx); s.Op == effect.Commit && t != nil {
			a.rollback(t)
		}
		a.fail(s, "io")
		return moved, true
	case refuseAll:
		return f.refuse(a, s)
	case hang:
		if f.step == s && a.index == 0 {
			if !f.used {
				f.used = true
				a.run.note(a, s, "called; no answer yet")
			}
			return waits, true
		}
	case crash:
		if f.used {
			return 0, false
		}
		if f.after == 0 {
			f.used = true
			a.run.note(a, nil, "the process is killed")
			if a.run.trace {
				a.run.events[len(a.run.events)-1].Fault = true
			}
			a.run.crash()
			return ended, true
		}
		f.after--
	}
	return 0, false
}

// refuse lets conditional writes and validating commits lose.
func (f *fault) refuse(a *actor, s *effect.Step) (verdict, bool) {
	switch {
	case s.Op == effect.Commit && a.tx(s.Tx).validates():
		a.rollback(a.tx(s.Tx))
		a.run.note(a, s, "refused: another was first")
		a.fail(s, "conflict")
		return moved, true
	case s.Op == effect.Write && len(s.Where) > 0 && s.Mode != effect.Delete:
		return a.refused(s), true
	case s.Op == effect.Write && (s.Mode == effect.Create || s.Mode == effect.Insert):
		if s.Bind != "" && s.Mode == effect.Create && s.OnErr != effect.OnBind {
			return a.refused(s), true
		}
		a.run.note(a, s, "refused: another was first")
		a.fail(s, "exists")
		return moved, true
	}
	return 0, false
}

// crash ends the process: open transactions are rolled back, memory and locks
// are gone, what was written stays.
func (r *run) crash() {
	for _, a := range r.actors {
		a.done = true
		for _, t := range a.txs {
			if !t.closed {
				a.rollback(t)
			}
		}
	}
	r.st.locks = map[string]*lock{}
	for table := range r.st.rows {
		if len(table) > 4 && table[:4] == "var:" {
			delete(r.st.rows, table)
		}
	}
}

// again runs the entry a second time on what the first left behind. Fresh
// values are new ones, inputs are the same.
func (r *run) again() bool {
	a := r.actors[0]
	r.actors = r.actors[:1]
	a.reset()
	a.rounds = secondRun
	a.kids = nil
	r.note(a, nil, "it is run again")
	if r.trace {
		r.events[len(r.events)-1].Fault = true
	}
	return r.play(plan{})
}

// secondRun is the first number of a round in a second run; see normal.
const secondRun = 1000
