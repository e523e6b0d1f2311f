package play

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/oracle"
	"github.com/holdfast-dev/holdfast/play/report"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

// Options of a play. The zero value searches exhaustively within the
// scenario's budgets and saves nothing.
type Options struct {
	// Bounded with Preemptions, or Random with Seed, choose another search than
	// the exhaustive one; see explore.Options.
	Bounded     bool
	Preemptions int
	Random      int
	Seed        uint64
	// SaveDir is the folder for the schedules of findings; empty: none saved.
	SaveDir string
	// Version of the program, for the report.
	Version string
	// Output gets what the application prints; nil is nowhere.
	Output io.Writer
	// Progress is told how far the play is; nil is nobody.
	Progress *report.Progress
	Logger   *slog.Logger
}

func (o Options) phase(name string) {
	if o.Progress != nil {
		o.Progress.Phase(name)
	}
}

func (o Options) update(c report.Counts) {
	if o.Progress != nil {
		o.Progress.Update(c)
	}
}

// search describes the search for the report.
func (o Options) search() string {
	switch {
	case o.Random > 0:
		return fmt.Sprintf("random, %d runs, seed %d", o.Random, o.Seed)
	case o.Bounded:
		return fmt.Sprintf("at most %d preemptions", o.Preemptions)
	}
	return "exhaustive"
}

// SerialError says that the requests do not work one after the other, so that
// nothing can be said of them together.
type SerialError struct {
	Scenario string
	Order    []int
	Err      error
}

func (e *SerialError) Error() string {
	return fmt.Sprintf("%s: the requests can not be run one after the other (order %s): %v",
		e.Scenario, explore.Schedule(e.Order), e.Err)
}

func (e *SerialError) Unwrap() error { return e.Err }

// player plays one scenario.
type player struct {
	sc    *scenario.Scenario
	opts  Options
	stage stage
	// The stage is one of the two.
	world   *world
	files   *files
	oracle  *oracle.Oracle
	report  *report.Report
	groups  map[string]*group
	notes   map[string]bool
	unknown map[string]string
	started time.Time
	// alone is what the first actor is answered when it runs alone.
	alone *oracle.Response
	// splittable tables were written by statements with an inside.
	splittable map[string]bool
}

// Run plays the scenario. Findings are in the report; an error means that the
// scenario could not be played.
func Run(ctx context.Context, sc *scenario.Scenario, opts Options) (rep *report.Report, err error) {
	p, err := newPlayer(ctx, sc, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stage.close()) }()
	if err := p.serial(ctx); err != nil {
		return nil, err
	}
	if err := p.passes(ctx); err != nil {
		return nil, err
	}
	return p.finish(), nil
}

// passes plays the kinds of schedules that the scenario asks for.
func (p *player) passes(ctx context.Context) error {
	for _, k := range scenario.ScheduleKinds() {
		if !p.sc.Plays(k) {
			continue
		}
		var err error
		switch k {
		case scenario.Interleave:
			err = p.interleave(ctx)
		case scenario.PowerLoss:
			err = p.powerPass(ctx)
		default:
			err = p.faultPass(ctx, k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *player) interleave(ctx context.Context) error {
	if p.files != nil {
		return p.pass(ctx, string(scenario.Interleave))
	}
	if err := p.pass(ctx, passBetween); err != nil {
		return err
	}
	if len(p.splittable) == 0 {
		return nil
	}
	return p.insidePass(ctx)
}

// newPlayer starts the world and what is common to a play and a replay.
func newPlayer(ctx context.Context, sc *scenario.Scenario, opts Options) (*player, error) {
	p := &player{sc: sc, opts: opts, groups: map[string]*group{}, notes: map[string]bool{},
		unknown: map[string]string{}, splittable: map[string]bool{}, started: time.Now()}
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	actors := len(p.stage.actors())
	p.oracle = oracle.New(actors, oracle.Hints{NoiseColumns: sc.Noise.Columns, IDColumns: sc.Noise.IDs,
		TimeColumns: sc.Noise.Times, NoiseJSON: sc.Noise.JSON, IgnoreResponses: !sc.Observe.Responses})
	p.report = &report.Report{Holdfast: opts.Version, Scenario: sc.File, Name: sc.Name, Findings: []report.Finding{}}
	for i, a := range p.stage.actors() {
		request := p.stage.asks(i)
		if name := p.stage.name(i); a.Name != name {
			request = a.Name + ": " + request
		}
		p.report.Actors = append(p.report.Actors, report.Actor{Name: p.stage.name(i), Request: request, Instance: a.Instance, Program: len(a.Run) > 0})
	}
	return p, nil
}

// open makes the stage that the scenario asks for.
func (p *player) open(ctx context.Context) (err error) {
	if p.sc.Files != nil {
		if p.files, err = newFiles(ctx, p.sc, p.opts); err != nil {
			return err
		}
		p.stage = p.files
		return nil
	}
	if p.world, err = newWorld(ctx, p.sc, p.opts); err != nil {
		return err
	}
	p.stage = p.world
	return nil
}

// serialShift is how far sequences are advanced for the second run of each
// serial order: what comes from them then differs, and nothing else does.
const serialShift = 1009

// serial runs every order of every subset of the requests, twice each.
func (p *player) serial(ctx context.Context) error {
	p.opts.phase("serial orders")
	orders := oracle.Orders(len(p.stage.actors()))
	for _, order := range orders {
		for _, again := range []bool{false, true} {
			out, err := p.serialRun(ctx, order, again)
			if err != nil {
				return err
			}
			if err := p.oracle.AddSerial(order, out); err != nil {
				return fmt.Errorf("%s: %w", p.sc.File, err)
			}
			if len(order) == 1 && order[0] == 0 {
				p.alone = out.Responses[0]
			}
			p.report.SerialRuns++
			p.opts.update(report.Counts{Schedules: p.report.SerialRuns, Of: 2 * len(orders)})
		}
	}
	if err := p.oracle.Ready(); err != nil {
		return fmt.Errorf("%s: %w", p.sc.File, err)
	}
	if p.files != nil {
		p.files.settled = true
	}
	return nil
}

// serialTries: a serial run that is inconclusive is made again so often.
const serialTries = 3

// serialRun runs some requests one after the other.
func (p *player) serialRun(ctx context.Context, order []int, again bool) (oracle.Outcome, error) {
	var err error
	for range serialTries {
		err = p.trySerial(ctx, order, again)
		if err == nil {
			return p.stage.left(), nil
		}
		if !errors.Is(err, explore.ErrInconclusive) {
			break
		}
	}
	return oracle.Outcome{}, &SerialError{Scenario: p.sc.File, Order: order, Err: err}
}

func (p *player) trySerial(ctx context.Context, order []int, again bool) (err error) {
	x, err := p.stage.Begin(ctx)
	if err != nil {
		return err
	}
	complete := false
	defer func() {
		if endErr := x.End(ctx, complete); endErr != nil && err == nil {
			err = endErr
		}
	}()
	if again {
		if err := p.stage.differ(ctx); err != nil {
			return err
		}
	}
	for _, a := range order {
		for x.Actors()[a].State == explore.Ready {
			if _, err := x.Step(ctx, a); err != nil {
				return err
			}
		}
		if x.Actors()[a].State == explore.Blocked {
			return fmt.Errorf("request %s makes no progress although it is alone: raise budgets.step if it is slow",
				p.stage.name(a))
		}
	}
	complete = true
	p.learnSplit()
	return nil
}

// learnSplit takes over what the last run met: tables written by statements
// with an inside, and statements of unknown footprint.
func (p *player) learnSplit() {
	maps.Copy(p.splittable, p.stage.last().splittable)
	maps.Copy(p.unknown, p.stage.last().unknown)
}

const (
	passBetween = "between statements"
	passInside  = "inside statements"
)

// insidePass holds the statements that have an inside after their snapshot.
func (p *player) insidePass(ctx context.Context) error {
	g := p.world.database.gate
	tables := slices.Sorted(maps.Keys(p.splittable))
	if err := g.InstallSplit(ctx, tables); err != nil {
		p.notes[fmt.Sprintf("Statements were not stopped inside: %v", err)] = true
		return nil
	}
	p.world.split = true
	err := p.pass(ctx, passInside)
	p.world.split = false
	return errors.Join(err, g.RemoveSplit(ctx))
}

// pass searches the interleavings once and confirms what was found.
func (p *player) pass(ctx context.Context, name string) error {
	p.opts.phase(name)
	began := time.Now()
	res, audit, err := p.search(ctx)
	if err != nil {
		return err
	}
	row := report.Pass{Name: name, Search: p.opts.search(), Schedules: res.Runs,
		Redundant: res.Redundant + res.Runs - res.Traces, Inconclusive: res.Inconclusive,
		Reasons: res.Reasons, Complete: res.Complete, LeftOut: p.leftOut(res)}
	if p.opts.Random > 0 {
		// Random runs may meet a trace twice; that is not a fault of a search.
		row.Redundant = 0
	}
	if res.Complete {
		if err := p.audit(ctx, audit, &row); err != nil {
			return err
		}
	}
	p.opts.phase("confirm findings")
	if err := p.confirm(ctx, name, &row); err != nil {
		return err
	}
	row.Took = time.Since(began)
	p.report.Passes = append(p.report.Passes, row)
	return nil
}

// maxSearches bounds how often a search is begun anew because of what it has
// learned.
const maxSearches = 20

// search explores the interleavings. A wait inside the application (a mutex, a
// connection pool) cannot be foreseen: steps that were taken to be independent
// are not. When one is met, what is known of those steps is corrected and the
// search begins anew.
func (p *player) search(ctx context.Context) (res explore.Result, a *audit, err error) {
	for range maxSearches {
		clear(p.groups)
		p.stage.learnt().news = false
		a = &audit{}
		res, err = explore.Explore(ctx, p.stage, explore.Options{
			Bounded: p.opts.Bounded, Preemptions: p.opts.Preemptions, Random: p.opts.Random, Seed: p.opts.Seed,
			MaxRuns: p.sc.Budgets.Schedules, MaxTime: max(time.Nanosecond, p.sc.Budgets.Time-time.Since(p.started)),
			Visit: func(r explore.Run) error { return p.visit(r, a) },
			Progress: func(r explore.Result) {
				p.opts.update(report.Counts{Schedules: r.Runs, Findings: len(p.report.Findings) + len(p.groups),
					Inconclusive: r.Inconclusive})
			},
		})
		if err != nil || !p.stage.learnt().news || res.Stopped == "time" {
			break
		}
	}
	return res, a, err
}

// visit judges one finished run.
func (p *player) visit(r explore.Run, a *audit) error {
	p.learnSplit()
	v := p.oracle.Judge(p.stage.left())
	for _, n := range v.Notes {
		p.notes[n] = true
	}
	a.add(r.Trace, v)
	if !v.OK {
		p.found(r.Trace, v)
	}
	if p.stage.learnt().news && p.opts.Random == 0 {
		return explore.ErrStop
	}
	return nil
}

// leftOut says in words what the bound or the budget left out.
func (p *player) leftOut(res explore.Result) string {
	switch {
	case res.Stopped == "runs":
		return fmt.Sprintf("the budget of %d schedules was used up; raise budgets.schedules, or use --preemptions or --random", p.sc.Budgets.Schedules)
	case res.Stopped == "time":
		return fmt.Sprintf("the budget of %v was used up; raise budgets.time, or use --preemptions or --random", p.sc.Budgets.Time)
	case p.opts.Random > 0:
		return "everything that the random runs did not happen to meet"
	case res.Inconclusive > 0:
		return "what lies behind the inconclusive choices"
	case p.opts.Bounded:
		return fmt.Sprintf("schedules with more than %d preemptions", p.opts.Preemptions)
	}
	return ""
}

// finish completes the report.
func (p *player) finish() *report.Report {
	r := p.report
	r.Background = slices.Sorted(maps.Keys(p.stage.learnt().learned))
	for label := range p.stage.learnt().strays {
		p.notes["A statement came outside of any request and was let through: "+label] = true
	}
	for label, why := range p.unknown {
		p.notes[fmt.Sprintf("Taken to conflict with everything (%s): %s", why, label)] = true
	}
	if noise := p.oracle.Noise(); len(noise) > 0 {
		p.notes["Not compared or compared by equality only, since equal serial runs differ there: "+strings.Join(noise, ", ")] = true
	}
	for _, n := range p.stage.notes() {
		p.notes[n] = true
	}
	if p.stage.learnt().restless >= patienceEnds {
		p.notes["The application never sleeps; what it sends after an answer may be taken for another request's."] = true
	}
	r.Notes = slices.Sorted(maps.Keys(p.notes))
	r.Took = time.Since(p.started)
	return r
}
