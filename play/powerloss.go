package play

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/gate/file/power"
	"github.com/holdfast-dev/holdfast/play/gate/file/tree"
	"github.com/holdfast-dev/holdfast/play/oracle"
	"github.com/holdfast-dev/holdfast/play/report"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

// powerRun is one serial run with its log, of which the states are made that a
// loss of power may leave.
type powerRun struct {
	schedule explore.Schedule
	steps    []string
	marks    []mark
	rows     []report.Row
	replies  []*oracle.Response
	states   []power.State
	names    map[string]string // stable names by path
	note     string
}

// named is the stable name of a path in the run.
func (r *powerRun) named(path string) string { return r.names[path] }

// maxRestarts bounds the states on which the application is started.
const maxRestarts = 64

// powerPass makes one serial run of all actors and looks at each state that a
// loss of power may leave at any point of it.
func (p *player) powerPass(ctx context.Context) error {
	p.opts.phase(string(scenario.PowerLoss))
	began := time.Now()
	t := newTally(scenario.PowerLoss, "every state that each point may leave")
	run, err := p.powerRun(ctx)
	if errors.Is(err, explore.ErrInconclusive) {
		t.inconclusive(err)
		return p.confirmFaults(ctx, t, began)
	}
	if err != nil {
		return err
	}
	if run.note != "" {
		t.row.Complete, t.row.LeftOut = false, run.note
	}
	started := map[string]oracle.Verdict{}
	for _, s := range run.states {
		fr := p.judgeState(run, s)
		if fr.verdict.OK {
			v, known := started[s.Tree.Digest()]
			if !known && len(started) >= maxRestarts {
				t.row.Complete = false
				t.row.LeftOut = fmt.Sprintf("whether the application starts on more than %d states", maxRestarts)
				v, known = fr.verdict, true
			}
			if !known {
				if v, err = p.startOn(ctx, s); err != nil {
					return err
				}
				started[s.Tree.Digest()] = v
			}
			fr.verdict = v
		}
		t.add(fr)
		p.opts.update(report.Counts{Schedules: t.row.Schedules, Of: len(run.states), Findings: len(p.report.Findings) + len(t.order)})
	}
	return p.confirmFaults(ctx, t, began)
}

// powerRun runs all actors one after the other and lists the states.
func (p *player) powerRun(ctx context.Context) (*powerRun, error) {
	f := p.files
	// Steps inside SQLite's lock spans are steps here: each may be the last.
	f.gate.Expand(true)
	defer f.gate.Expand(false)
	x, err := f.Begin(ctx)
	if err != nil {
		return nil, err
	}
	d := &driver{Execution: x, run: f.current, fr: &faultRun{}}
	err = d.others(ctx, -1)
	r := &powerRun{schedule: d.fr.schedule, steps: d.fr.steps, marks: x.(*filesRun).marks, rows: f.current.rows, names: map[string]string{}}
	log := f.gate.Log()
	if endErr := x.End(ctx, err == nil); endErr != nil && err == nil {
		err = endErr
	}
	if err != nil {
		return nil, err
	}
	r.replies = f.outcome.Responses
	o := power.Options{}
	if p.sc.Files.Power == scenario.PowerWeak {
		o.Model = power.Weak
	}
	r.states, err = power.States(f.start, log, o)
	if tooMany, ok := errors.AsType[*power.TooManyError](err); ok {
		r.note, err = tooMany.Error(), nil
	}
	if errors.Is(err, power.CutLogError{}) {
		r.note, err = err.Error(), nil
	}
	for _, s := range r.states {
		for path := range s.Tree {
			r.names[path] = f.gate.StableName(path)
		}
	}
	return r, err
}

// judgeState says what is wrong with a state, before anything is started on it.
func (p *player) judgeState(r *powerRun, s power.State) *faultRun {
	f := p.files
	after := slices.IndexFunc(r.marks, func(m mark) bool { return m.ops >= s.After })
	if after < 0 {
		after = len(r.marks) - 1
	}
	fr := &faultRun{fault: report.Fault{Kind: string(scenario.PowerLoss), After: after + 1, State: stateName(s)}}
	if len(r.marks) == 0 {
		fr.verdict.OK = true
		return fr
	}
	fr.schedule, fr.steps = r.schedule[:after+1], r.steps[:after+1]
	fr.fault.Actor = fr.schedule[after]
	what := "the power fails"
	if len(s.Lost) > 0 {
		what += "; not on the disk: " + strings.Join(s.Lost, ", ")
	}
	fr.rows = append(slices.Clone(r.rows[:r.marks[after].rows]), report.Row{Actor: fr.fault.Actor, Kind: report.RowFault, Step: what})
	fr.outcome = oracle.Outcome{Tables: f.stateTables(s.Tree, r.named), Responses: make([]*oracle.Response, len(f.who))}
	for i := range f.who {
		fr.outcome.Responses[i] = &oracle.Response{Err: "the power failed"}
		if slices.Contains(s.Acked, f.name(i)) {
			fr.outcome.Responses[i] = r.replies[i]
		}
	}
	fr.verdict = p.oracle.Judge(fr.outcome)
	if fr.verdict.OK {
		return fr
	}
	switch torn := f.tornKnown(s.Tree, r.named); {
	case len(torn) > 0:
		fr.verdict = special(oracle.TornFile, fmt.Sprintf("after a loss of power %s can be empty or half written%s", strings.Join(torn, " and "), lostWords(s)), torn...)
	case len(s.Acked) > 0 && p.explainsWithout(fr.outcome, p.acked(s)...):
		fr.verdict = special(oracle.LostAcknowledged, fmt.Sprintf("%s had its answer, and after a loss of power its effect is gone%s", strings.Join(s.Acked, " and "), lostWords(s)), "acked")
	}
	return fr
}

func lostWords(s power.State) string {
	if len(s.Lost) == 0 {
		return ""
	}
	return ": " + strings.Join(s.Lost, ", ") + " had not reached the disk (no fsync had said so)"
}

// acked are the actors that had their answers.
func (p *player) acked(s power.State) []int {
	var list []int
	for i := range p.stage.actors() {
		if slices.Contains(s.Acked, p.stage.name(i)) {
			list = append(list, i)
		}
	}
	return list
}

// explainsWithout reports whether the outcome is right if these actors had no
// answers: then their effects are what is missing.
func (p *player) explainsWithout(out oracle.Outcome, actors ...int) bool {
	out.Responses = slices.Clone(out.Responses)
	for _, i := range actors {
		out.Responses[i] = &oracle.Response{Err: "taken for unanswered"}
	}
	return p.oracle.Judge(out).OK
}

func stateName(s power.State) string {
	return fmt.Sprintf("%.16s %s", s.Tree.Digest(), strings.Join(s.Acked, " "))
}

// stateTables shows a state to the oracle, without what no serial run leaves.
func (f *files) stateTables(s tree.State, named func(string) string) []oracle.Table {
	shown := tree.State{}
	for path, n := range s {
		empty := n.Mode.IsRegular() && len(n.Data) == 0
		if f.known[named(path)] && !(empty && isLock(path)) {
			shown[path] = n
		}
	}
	return f.observed(shown, named)
}

// startOn starts the application on a state and asks it what the first actor
// asks: it must start, and not answer with a server error.
func (p *player) startOn(ctx context.Context, s power.State) (oracle.Verdict, error) {
	fine := oracle.Verdict{OK: true}
	f := p.files
	f.faulty, f.doubt = true, true
	defer func() { f.faulty = false }()
	x, err := f.begin(ctx, p.later(s.Tree))
	if err != nil {
		if ctx.Err() != nil || !f.hasServices() {
			return fine, err
		}
		f.doubt = true
		return special(oracle.ServerError, fmt.Sprintf("the application does not start on what a loss of power leaves%s: %v", lostWords(s), firstLine(err)), "refused"), nil
	}
	d := &driver{Execution: x, run: f.current, fr: &faultRun{}}
	err = d.finish(ctx, 0)
	reply := d.run.actors[0].reply
	if endErr := x.End(ctx, err == nil); endErr != nil && err == nil {
		err = endErr
	}
	if errors.Is(err, explore.ErrInconclusive) {
		return fine, nil
	}
	if err == nil && reply != nil && (reply.Status == 0 || reply.Status >= 500) && (p.alone == nil || p.alone.Status > 0 && p.alone.Status < 500) {
		return special(oracle.ServerError, fmt.Sprintf("%s is answered %s on what a loss of power leaves%s", f.name(0), reply, lostWords(s)), "answer"), nil
	}
	return fine, err
}

// later is a state as it is found after a pause: a machine takes its time to come
// back, and who breaks locks by their age may do so.
func (p *player) later(s tree.State) tree.State {
	at := time.Now().Add(-p.sc.Pause)
	old := tree.State{}
	for path, n := range s {
		n.Time = at
		old[path] = n
	}
	return old
}

// powerAgain makes the run again and finds the state.
func (p *player) powerAgain(ctx context.Context, ft report.Fault) (*faultRun, error) {
	run, err := p.powerRun(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range run.states {
		if stateName(s) != ft.State {
			continue
		}
		fr := p.judgeState(run, s)
		if fr.verdict.OK {
			if fr.verdict, err = p.startOn(ctx, s); err != nil {
				return nil, err
			}
		}
		return fr, nil
	}
	return nil, nil
}
