package play

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/oracle"
	"github.com/holdfast-dev/holdfast/play/report"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

// Replay plays one saved schedule n times. The report has the finding when every
// replay ends outside the serial orders with the saved kind; Confirmed and
// Replays tell how many did.
func Replay(ctx context.Context, sc *scenario.Scenario, saved *report.Saved, n int, opts Options) (rep *report.Report, err error) {
	p, err := newPlayer(ctx, sc, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stage.close()) }()
	if err := p.serial(ctx); err != nil {
		return nil, err
	}
	if saved.Fault != nil {
		p.opts.phase("replay")
		if err := p.replayFault(ctx, saved, n); err != nil {
			return nil, err
		}
		return p.finish(), nil
	}
	if p.files != nil {
		p.files.watching = true
	}
	if saved.Inside {
		g := p.world.database.gate
		tables := make([]string, 0, len(p.splittable))
		for t := range p.splittable {
			tables = append(tables, t)
		}
		if err := g.InstallSplit(ctx, tables); err != nil {
			return nil, err
		}
		p.world.split = true
	}
	p.opts.phase("replay")
	row := report.Pass{Name: "replay", Search: "the saved schedule", Reasons: map[string]int{}}
	var f *report.Finding
	confirmed := 0
	for i := range n {
		v, events, err := p.replayOnce(ctx, saved.Schedule)
		if err != nil {
			return nil, err
		}
		p.opts.update(report.Counts{Schedules: i + 1, Of: n, Inconclusive: row.Inconclusive})
		row.Schedules++
		if why := diverged(saved, v, events); why != "" {
			row.Inconclusive++
			row.Reasons[why]++
			continue
		}
		if v.OK {
			continue
		}
		if p.files != nil {
			refined := p.refine(*v, p.files.gate.Log())
			v = &refined
		}
		if v.Kind == saved.Kind {
			confirmed++
		}
		f = p.finding(saved.Pass, *v, saved.Schedule, p.stage.left())
	}
	if f != nil {
		f.Times, f.Confirmed, f.Replays = confirmed, confirmed, n
		p.report.Findings = append(p.report.Findings, *f)
	}
	p.report.Passes = append(p.report.Passes, row)
	return p.finish(), nil
}

// diverged says why a replay was not the saved run; empty when it was.
func diverged(saved *report.Saved, v *oracle.Verdict, events []explore.Event) string {
	for i, e := range events {
		if i < len(saved.Steps) && e.Step != saved.Steps[i] {
			return fmt.Sprintf("step %d is now %q, saved was %q", i+1, oneLine(e.Step), oneLine(saved.Steps[i]))
		}
	}
	if v == nil {
		return fmt.Sprintf("the replay ended after %d of %d steps", len(events), len(saved.Schedule))
	}
	return ""
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 80 {
		s = s[:77] + "..."
	}
	return s
}
