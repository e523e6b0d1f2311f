package play

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/oracle"
	"github.com/holdfast-dev/holdfast/play/report"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

// faultGroup are the faults that ended in the same way; the first is kept.
type faultGroup struct {
	first *faultRun
	times int
}

// tally collects the findings of one pass over faults.
type tally struct {
	order  []string
	groups map[string]*faultGroup
	row    report.Pass
}

func newTally(k scenario.ScheduleKind, search string) *tally {
	return &tally{groups: map[string]*faultGroup{}, row: report.Pass{Name: string(k), Search: search, Complete: true, Reasons: map[string]int{}}}
}

func (t *tally) add(fr *faultRun) {
	t.row.Schedules++
	if fr.verdict.OK {
		return
	}
	key := string(fr.verdict.Kind) + "\x00" + fr.verdict.Key
	g := t.groups[key]
	if g == nil {
		g = &faultGroup{first: fr}
		t.groups[key] = g
		t.order = append(t.order, key)
	}
	g.times++
}

func (t *tally) inconclusive(err error) {
	t.row.Schedules++
	t.row.Inconclusive++
	t.row.Complete = false
	t.row.LeftOut = "what lies behind the inconclusive points"
	reason := err.Error()
	if e, ok := errors.AsType[*explore.InconclusiveError](err); ok {
		reason = e.Reason
	}
	t.row.Reasons[reason]++
}

// maxPoints bounds the steps of one actor at which a fault is played.
const maxPoints = 2000

// victims are the actors that a fault is done to. Of actors that ask for the same
// in the same place one is enough.
func (p *player) victims(k scenario.ScheduleKind) []int {
	var list []int
	asked := map[string]bool{}
	for i, a := range p.stage.actors() {
		if k == scenario.Retry && !a.Retry {
			continue
		}
		if !asked[p.stage.asks(i)] {
			asked[p.stage.asks(i)] = true
			list = append(list, i)
		}
	}
	return list
}

// faultPass plays a fault at every step of every actor.
func (p *player) faultPass(ctx context.Context, k scenario.ScheduleKind) error {
	p.opts.phase(string(k))
	began := time.Now()
	t := newTally(k, "at every step")
	for _, v := range p.victims(k) {
		if err := p.faultPoints(ctx, k, v, t); err != nil {
			return err
		}
	}
	return p.confirmFaults(ctx, t, began)
}

// faultPoints plays a fault before each step of an actor after its first, and
// after its last one but before its answer.
func (p *player) faultPoints(ctx context.Context, k scenario.ScheduleKind, v int, t *tally) error {
	for after := 1; after <= maxPoints; after++ {
		if time.Since(p.started) > p.sc.Budgets.Time {
			t.row.Complete = false
			t.row.LeftOut = fmt.Sprintf("the budget of %v was used up; raise budgets.time", p.sc.Budgets.Time)
			return nil
		}
		fr, err := p.onePoint(ctx, report.Fault{Kind: string(k), Actor: v, After: after}, t)
		if err != nil {
			return err
		}
		if fr.held {
			continue
		}
		if after > 1 && (k == scenario.Crash || k == scenario.Retry) {
			// The last step made, and killed before the answer. The first of all is
			// to send the request, and the application has no part in it.
			_, err = p.onePoint(ctx, report.Fault{Kind: string(k), Actor: v, After: after - 1, Undelivered: true}, t)
		}
		return err
	}
	return nil
}

// onePoint plays one fault and counts it, unless the actor has no such step.
func (p *player) onePoint(ctx context.Context, ft report.Fault, t *tally) (*faultRun, error) {
	fr, err := p.playFault(ctx, ft)
	switch {
	case errors.Is(err, explore.ErrInconclusive):
		t.inconclusive(err)
		// Later points are still played: the run may only have been slow.
		return &faultRun{held: fr == nil || fr.held}, nil
	case err != nil:
		return nil, err
	case !fr.over:
		t.add(fr)
	}
	p.opts.update(report.Counts{Schedules: t.row.Schedules, Findings: len(p.report.Findings) + len(t.order), Inconclusive: t.row.Inconclusive})
	return fr, nil
}

// confirmFaults plays each kind of finding of a pass again and reports it.
func (p *player) confirmFaults(ctx context.Context, t *tally, began time.Time) error {
	p.opts.phase("confirm findings")
	shown := map[oracle.Kind]int{}
	// Of one kind, what is left wrong tells more than what is answered wrong.
	slices.SortStableFunc(t.order, func(a, b string) int {
		x, y := t.groups[a].first, t.groups[b].first
		switch {
		case x.verdict.Kind != y.verdict.Kind || x.mild == y.mild:
			return 0
		case x.mild:
			return 1
		}
		return -1
	})
	for _, key := range t.order {
		g := t.groups[key]
		if len(p.report.Findings) >= maxFindings {
			p.notes[fmt.Sprintf("More findings than %d; those of the pass %s are not all shown.", maxFindings, t.row.Name)] = true
			break
		}
		kind := g.first.verdict.Kind
		if shown[kind]++; shown[kind] > 1 {
			continue
		}
		f, err := p.confirmFault(ctx, g)
		if err != nil {
			return err
		}
		if f == nil {
			t.row.Inconclusive++
			t.row.Reasons["an outcome did not come again on replay"]++
			t.row.Complete = false
			continue
		}
		p.report.Findings = append(p.report.Findings, *f)
	}
	for kind, n := range shown {
		if n > 1 {
			p.notes[fmt.Sprintf("%s (%s): %d more outcome(s) of this kind; mend the one that is shown and play again.", kind, t.row.Name, n-1)] = true
		}
	}
	t.row.Took = time.Since(began)
	p.report.Passes = append(p.report.Passes, t.row)
	return nil
}

func (p *player) confirmFault(ctx context.Context, g *faultGroup) (*report.Finding, error) {
	confirmed := 0
	last := g.first
	for range replays {
		fr, err := p.playAgain(ctx, g.first.fault)
		if errors.Is(err, explore.ErrInconclusive) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if fr != nil && fr.verdict.Kind == g.first.verdict.Kind && fr.verdict.Key == g.first.verdict.Key {
			confirmed++
			last = fr
		}
	}
	if confirmed < replays {
		return nil, nil
	}
	f := p.faultFinding(last)
	f.Times, f.Confirmed, f.Replays = g.times, confirmed, replays
	return f, p.saveSteps(f, f.Fault.Kind, last.steps, last.outcome)
}

// playAgain plays a fault of any kind; nil where it does not exist.
func (p *player) playAgain(ctx context.Context, ft report.Fault) (*faultRun, error) {
	if ft.Kind == string(scenario.PowerLoss) {
		return p.powerAgain(ctx, ft)
	}
	fr, err := p.playFault(ctx, ft)
	if err != nil || fr.over {
		return nil, err
	}
	return fr, nil
}

func (p *player) faultFinding(fr *faultRun) *report.Finding {
	ft := fr.fault
	f := &report.Finding{Kind: fr.verdict.Kind, Sentence: fr.verdict.Sentence, Schedule: fr.schedule, Rows: fr.rows, Fault: &ft}
	p.compare(f, fr.outcome)
	return f
}

// replayFault plays the saved fault n times, for Replay.
func (p *player) replayFault(ctx context.Context, saved *report.Saved, n int) error {
	row := report.Pass{Name: "replay", Search: "the saved schedule", Reasons: map[string]int{}}
	var last *faultRun
	confirmed := 0
	for range n {
		row.Schedules++
		fr, err := p.playAgain(ctx, *saved.Fault)
		if errors.Is(err, explore.ErrInconclusive) || err == nil && fr == nil {
			row.Inconclusive++
			row.Reasons["the saved schedule can not be followed"]++
			continue
		}
		if err != nil {
			return err
		}
		if fr.verdict.OK {
			continue
		}
		last = fr
		if fr.verdict.Kind == saved.Kind {
			confirmed++
		}
	}
	if last != nil {
		f := p.faultFinding(last)
		f.Times, f.Confirmed, f.Replays = confirmed, confirmed, n
		p.report.Findings = append(p.report.Findings, *f)
	}
	p.report.Passes = append(p.report.Passes, row)
	return nil
}
