package play

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/oracle"
	"github.com/holdfast-dev/holdfast/play/report"
)

// group are the failing runs that ended in the same way.
type group struct {
	verdict  oracle.Verdict
	times    int
	schedule explore.Schedule // the simplest one so far
	traces   int              // for which the simplest schedule was computed
}

// maxSimplified bounds the traces of one group whose simplest schedule is
// computed; later ones count only.
const maxSimplified = 200

// maxFindings bounds the findings that are confirmed and shown in one pass.
const maxFindings = 10

// found takes in a failing run. Of all failing traces the simplest schedule is
// kept: fewest context switches, then fewest steps. Since the simplest schedule
// of each trace is exact, an exhaustive search gives the simplest there is.
func (p *player) found(t *explore.Trace, v oracle.Verdict) {
	key := string(v.Kind) + "\x00" + v.Key
	g := p.groups[key]
	if g == nil {
		g = &group{verdict: v}
		p.groups[key] = g
	}
	g.times++
	if g.traces >= maxSimplified {
		return
	}
	g.traces++
	if s := t.Simplest(); g.schedule == nil || simpler(s, g.schedule) {
		g.schedule, g.verdict = s, v
	}
}

func simpler(a, b explore.Schedule) bool {
	return cmp.Or(cmp.Compare(a.Switches(), b.Switches()), cmp.Compare(len(a), len(b)), slices.Compare(a, b)) < 0
}

// kinds in the order in which findings are shown.
var kinds = []oracle.Kind{oracle.LostUpdate, oracle.DuplicateEffect, oracle.Deadlock, oracle.PartialEffect,
	oracle.WriteSkew, oracle.ServerError, oracle.Invariant, oracle.TornFile, oracle.TempCollision,
	oracle.LostAcknowledged, oracle.StaleLock, oracle.LeftOver}

// ordered lists the groups, the most telling first.
func (p *player) ordered() []*group {
	return slices.SortedFunc(maps.Values(p.groups), func(a, b *group) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds, a.verdict.Kind), slices.Index(kinds, b.verdict.Kind)),
			cmp.Compare(a.schedule.Switches(), b.schedule.Switches()),
			cmp.Compare(len(a.schedule), len(b.schedule)), slices.Compare(a.schedule, b.schedule),
			cmp.Compare(a.verdict.Key, b.verdict.Key))
	})
}

// replays of each finding before it is reported.
const replays = 3

// confirm replays each finding and puts those that reproduce into the report.
// The instances are replaced first: an outcome that came from what earlier runs
// had left in the application's memory does not come again.
func (p *player) confirm(ctx context.Context, pass string, row *report.Pass) error {
	groups := p.ordered()
	if len(groups) == 0 {
		return nil
	}
	if err := p.serialAgain(ctx); err != nil {
		return err
	}
	if p.files != nil {
		p.files.watching = true
		defer func() { p.files.watching = false }()
	}
	shown := map[string]bool{}
	alike := map[string]int{}
	for i, g := range groups {
		if len(p.report.Findings) >= maxFindings {
			p.notes[fmt.Sprintf("%d more outcomes outside the serial orders were met (%s) and are not shown.", len(groups)-i, pass)] = true
			break
		}
		if g.place() != "" && shown[g.place()] {
			alike[g.place()]++
			continue
		}
		f, err := p.replayGroup(ctx, pass, g)
		if err != nil {
			return err
		}
		if f == nil {
			row.Inconclusive++
			if row.Reasons == nil {
				row.Reasons = map[string]int{}
			}
			row.Reasons["an outcome did not come again on replay"]++
			row.Complete = false
			continue
		}
		shown[g.place()] = true
		if p.files != nil {
			// Of one kind on the same files, the first shown is the simplest.
			at := string(f.Kind) + strings.TrimPrefix(g.place(), string(g.verdict.Kind))
			if shown[at+" refined"] {
				alike[at]++
				continue
			}
			shown[at+" refined"] = true
		}
		p.report.Findings = append(p.report.Findings, *f)
	}
	for place, n := range alike {
		p.notes[fmt.Sprintf("%s: %d more outcome(s) of this kind with other values (%s); mend the one that is shown and play again.", place, n, pass)] = true
	}
	return nil
}

// place is the kind of a finding with the tables in which it shows: several
// outcomes of one race differ in values only, and the simplest one stands for
// them. Empty where no table differs.
func (g *group) place() string {
	var tables []string
	for _, d := range g.verdict.Diff {
		if d.Table != "" && !slices.Contains(tables, d.Table) {
			tables = append(tables, d.Table)
		}
	}
	if len(tables) == 0 {
		return ""
	}
	slices.Sort(tables)
	return string(g.verdict.Kind) + " in " + strings.Join(tables, ", ")
}

// serialAgain checks with fresh processes that the serial orders of all
// requests still give what they gave.
func (p *player) serialAgain(ctx context.Context) error {
	p.stage.replace()
	for _, order := range oracle.Orders(len(p.stage.actors())) {
		if len(order) < len(p.stage.actors()) {
			continue
		}
		out, err := p.serialRun(ctx, order, false)
		if err != nil {
			return err
		}
		if v := p.oracle.Judge(out); !v.OK {
			return &SerialError{Scenario: p.sc.File, Order: order, Err: fmt.Errorf(
				"the same order gives another outcome than before (%s): the application keeps state outside of the gates; set application.restart: always, or name what differs in observe.ignore or noise", v.Sentence)}
		}
	}
	return nil
}

// replayGroup replays the group's schedule; nil when it does not reproduce.
func (p *player) replayGroup(ctx context.Context, pass string, g *group) (*report.Finding, error) {
	var events []explore.Event
	var outcome oracle.Outcome
	confirmed := 0
	for range replays {
		v, ev, err := p.replayOnce(ctx, g.schedule)
		if err != nil {
			return nil, err
		}
		if v == nil || v.OK || v.Kind != g.verdict.Kind || v.Key != g.verdict.Key {
			continue
		}
		confirmed++
		events, outcome = ev, p.stage.left()
	}
	if confirmed < replays {
		return nil, nil
	}
	verdict := g.verdict
	if p.files != nil {
		verdict = p.refine(verdict, p.files.gate.Log())
	}
	f := p.finding(pass, verdict, g.schedule, outcome)
	f.Times, f.Confirmed, f.Replays = g.times, confirmed, replays
	if err := p.save(f, pass, events, outcome); err != nil {
		return nil, err
	}
	return f, nil
}

// replayOnce runs a schedule to its end; the verdict is nil when the replay was
// inconclusive.
func (p *player) replayOnce(ctx context.Context, s explore.Schedule) (*oracle.Verdict, []explore.Event, error) {
	var events []explore.Event
	actors, err := explore.Replay(ctx, p.stage, s, &events)
	if errors.Is(err, explore.ErrInconclusive) {
		return nil, events, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, a := range actors {
		if a.State == explore.Ready {
			return nil, events, nil // the schedule ends too early
		}
	}
	v := p.oracle.Judge(p.stage.left())
	return &v, events, nil
}

// finding fills in what people read.
func (p *player) finding(pass string, v oracle.Verdict, s explore.Schedule, out oracle.Outcome) *report.Finding {
	f := &report.Finding{Kind: v.Kind, Sentence: v.Sentence, Inside: pass == passInside, Schedule: s,
		Rows: p.stage.last().rows}
	p.compare(f, out)
	return f
}

// compare puts the outcome and those of the serial orders into a finding.
func (p *player) compare(f *report.Finding, out oracle.Outcome) {
	observed, serial := p.oracle.Compare(out)
	f.Observed = outcomeOf(observed)
	for _, o := range serial {
		f.Serial = append(f.Serial, outcomeOf(o))
	}
}

func outcomeOf(s oracle.Shown) report.Outcome {
	o := report.Outcome{Order: s.Order}
	for _, c := range s.Cells {
		o.Cells = append(o.Cells, report.Cell{Label: c.Label, Value: c.Value, Wrong: c.Wrong})
	}
	return o
}

// save writes the schedule of a finding beside the others.
func (p *player) save(f *report.Finding, pass string, events []explore.Event, out oracle.Outcome) error {
	steps := make([]string, len(events))
	for i, e := range events {
		steps[i] = e.Step
	}
	return p.saveSteps(f, pass, steps, out)
}

func (p *player) saveSteps(f *report.Finding, pass string, steps []string, out oracle.Outcome) error {
	if p.opts.SaveDir == "" {
		return nil
	}
	if err := os.MkdirAll(p.opts.SaveDir, 0o755); err != nil {
		return fmt.Errorf("make the folder for schedules: %w", err)
	}
	base := filepath.Base(p.sc.File)
	name := fmt.Sprintf("%s-%d-%s.json", strings.TrimSuffix(base, filepath.Ext(base)), len(p.report.Findings)+1,
		strings.ReplaceAll(string(f.Kind), " ", "-"))
	file := filepath.Join(p.opts.SaveDir, name)
	rel, err := report.RelativeScenario(file, p.sc.File)
	if err != nil {
		return err
	}
	saved := report.Saved{Format: report.SavedFormat, Holdfast: p.opts.Version, Scenario: rel, Name: p.sc.Name,
		Kind: f.Kind, Sentence: f.Sentence, Pass: pass, Inside: f.Inside, Schedule: f.Schedule, Fault: f.Fault,
		Steps: steps, Outcome: out}
	if err := report.WriteSaved(file, saved); err != nil {
		return err
	}
	f.File = file
	return nil
}

// audit keeps some traces with their outcomes, to check the footprints: another
// schedule of the same trace must end in the same way.
type audit struct {
	seen   int
	traces []*explore.Trace
	keys   []string
}

const (
	auditTraces = 8
	auditSeed   = 1
)

// add keeps a sample of the traces (reservoir sampling with a fixed seed, so
// that the audit is the same in every play).
func (a *audit) add(t *explore.Trace, v oracle.Verdict) {
	rng := rand.New(rand.NewPCG(auditSeed, uint64(a.seen)))
	a.seen++
	key := fmt.Sprint(v.OK, v.Kind, v.Key, v.Order)
	if len(a.traces) < auditTraces {
		a.traces, a.keys = append(a.traces, t), append(a.keys, key)
		return
	}
	if i := rng.IntN(a.seen); i < auditTraces {
		a.traces[i], a.keys[i] = t, key
	}
}

// auditTries: an audited schedule must end differently so often before the
// footprints are blamed, and not a loaded machine.
const auditTries = 3

func (p *player) endsAlike(ctx context.Context, s explore.Schedule, key string) (bool, error) {
	for range auditTries {
		v, _, err := p.replayOnce(ctx, s)
		if err != nil {
			return false, err
		}
		if v != nil && fmt.Sprint(v.OK, v.Kind, v.Key, v.Order) == key {
			return true, nil
		}
	}
	return false, nil
}

// audit replays shuffled schedules of the kept traces. A different outcome means
// that some footprint leaves something out, and with it that schedules may be
// missing from the search.
func (p *player) audit(ctx context.Context, a *audit, row *report.Pass) error {
	rng := rand.New(rand.NewPCG(auditSeed, 0))
	for i, t := range a.traces {
		s := t.Shuffled(rng)
		if slices.Equal(s, t.Schedule()) {
			continue
		}
		same, err := p.endsAlike(ctx, s, a.keys[i])
		if err != nil {
			return err
		}
		if same {
			continue
		}
		row.Complete = false
		row.LeftOut = fmt.Sprintf("unknown: schedules %s and %s should be equivalent and are not, so a footprint leaves something out; please report the statements of this scenario",
			t.Schedule(), s)
		return nil
	}
	return nil
}
