package explore

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrInconclusive marks an error that spoils one run and says nothing about the
// system: the replay diverged, a step timed out, a step could not be attributed.
var ErrInconclusive = errors.New("inconclusive run")

// ErrStop is returned by Options.Visit to end the search early without error.
var ErrStop = errors.New("search stopped")

// InconclusiveError is an ErrInconclusive with its reason.
type InconclusiveError struct {
	// Reason is a short stable phrase; runs are counted by it.
	Reason string
	// Detail tells what was seen.
	Detail string
}

func (e *InconclusiveError) Error() string {
	if e.Detail == "" {
		return "inconclusive run: " + e.Reason
	}
	return "inconclusive run: " + e.Reason + ": " + e.Detail
}

// Unwrap makes errors.Is(err, ErrInconclusive) true.
func (e *InconclusiveError) Unwrap() error { return ErrInconclusive }

// Run is one finished run, given to Options.Visit.
type Run struct {
	Trace *Trace
	// Stuck: no actor is Ready, yet not all are Done.
	Stuck bool
	// Repeated: a run of the same trace was visited before.
	Repeated bool
}

// Options of a search. The zero value searches exhaustively without a bound.
type Options struct {
	// Preemptions >= 0 with Bounded: only schedules in which a Ready actor is
	// preempted at most so often. (Musuvathi, Qadeer: "Iterative context
	// bounding for systematic testing of multithreaded programs", PLDI 2007.)
	Bounded     bool
	Preemptions int
	// Random > 0: that many runs by probabilistic concurrency testing instead
	// of a search. (Burckhardt et al.: "A randomized scheduler with
	// probabilistic guarantees of finding bugs", ASPLOS 2010.)
	Random int
	Seed   uint64
	// Depth of the bugs that Random looks for: Depth-1 priority changes per
	// run. Default 3.
	Depth int
	// MaxRuns ends the search after so many runs; 0: no limit.
	MaxRuns int
	// MaxTime ends the search after this time; 0: no limit.
	MaxTime time.Duration
	// Visit is called after each finished run, before the next begins.
	Visit func(Run) error
	// Progress, if set, is called after every run of any kind.
	Progress func(Result)
}

// Result counts what a search did.
type Result struct {
	// Runs that finished, and the number of distinct traces among them. Traces
	// is the least number of runs that any search needs for what was covered.
	Runs, Traces int
	// Redundant runs were given up because every continuation was covered.
	Redundant int
	// Inconclusive choices: tried Tries times without a usable run. Reasons
	// counts them.
	Inconclusive int
	Reasons      map[string]int
	// Retried runs were inconclusive at first and then worked.
	Retried int
	// Infeasible steps were planned and could not be taken: a sign of a
	// footprint that leaves something out.
	Infeasible int
	// Complete: the search space (or the bounded part of it) was exhausted.
	Complete bool
	// Stopped says what ended the search early: "runs", "time", "visitor", "".
	Stopped string
}

// tries is how often a run is attempted before its last choice is given up as
// inconclusive.
const tries = 3

// Explore searches the interleavings of the system. It returns an error only
// when the system can not be run; what was found is told to Visit.
func Explore(ctx context.Context, sys System, opts Options) (Result, error) {
	x := &explorer{sys: sys, opts: opts, traces: map[uint64]bool{}, started: time.Now()}
	x.result.Reasons = map[string]int{}
	var err error
	switch {
	case opts.Random > 0:
		err = x.random(ctx)
	case opts.Bounded:
		err = x.bounded(ctx)
	default:
		err = x.exhaustive(ctx)
	}
	if errors.Is(err, errBudget) || errors.Is(err, ErrStop) {
		err = nil
	}
	x.result.Traces = len(x.traces)
	return x.result, err
}

// errBudget ends a search from inside; Result.Stopped says why.
var errBudget = errors.New("budget spent")

// explorer is the state that all searches share.
type explorer struct {
	sys     System
	opts    Options
	result  Result
	traces  map[uint64]bool
	started time.Time
}

// budget ends the search when a limit has been reached.
func (x *explorer) budget(ctx context.Context) error {
	if x.opts.MaxRuns > 0 && x.result.Runs+x.result.Redundant >= x.opts.MaxRuns {
		x.result.Stopped = "runs"
		return errBudget
	}
	if x.opts.MaxTime > 0 && time.Since(x.started) >= x.opts.MaxTime {
		x.result.Stopped = "time"
		return errBudget
	}
	return ctx.Err()
}

// policy chooses the next actor at the depth of len(events), or -1 to give the
// run up as redundant. It is told each event by done, which may object to it.
type policy struct {
	choose func(depth int, actors []Status) int
	done   func(depth int, actors []Status, e Event) error
}

// attempt makes one run under the policy. finished is false when the run was
// given up as redundant.
func (x *explorer) attempt(ctx context.Context, p policy) (events []Event, stuck, finished bool, err error) {
	exec, err := x.sys.Begin(ctx)
	if err != nil {
		return nil, false, false, err
	}
	defer func() {
		if endErr := exec.End(ctx, finished); endErr != nil && err == nil {
			err, finished = endErr, false
		}
	}()
	for {
		actors := exec.Actors()
		if !anyReady(actors) {
			return events, !allDone(actors), true, nil
		}
		a := p.choose(len(events), actors)
		if a < 0 {
			return events, false, false, nil
		}
		if a >= len(actors) || actors[a].State != Ready {
			return events, false, false, &InconclusiveError{Reason: "replay diverged",
				Detail: fmt.Sprintf("actor %c was to take step %d but is not ready", rune('A'+a), len(events)+1)}
		}
		e, err := exec.Step(ctx, a)
		if err != nil {
			return events, false, false, err
		}
		events = append(events, e)
		if err := p.done(len(events)-1, actors, e); err != nil {
			return events, false, false, err
		}
	}
}

// visit counts a finished run and shows it to the caller.
func (x *explorer) visit(events []Event, stuck bool) error {
	t := NewTrace(events)
	key := t.Key()
	repeated := x.traces[key]
	x.traces[key] = true
	x.result.Runs++
	var err error
	if x.opts.Visit != nil {
		err = x.opts.Visit(Run{Trace: t, Stuck: stuck, Repeated: repeated})
		if errors.Is(err, ErrStop) {
			x.result.Stopped = "visitor"
		}
	}
	x.progress()
	return err
}

func (x *explorer) progress() {
	if x.opts.Progress != nil {
		r := x.result
		r.Traces = len(x.traces)
		x.opts.Progress(r)
	}
}

// inconclusive counts a choice that could not be run.
func (x *explorer) inconclusive(err error) {
	x.result.Inconclusive++
	reason := err.Error()
	if ie, ok := errors.AsType[*InconclusiveError](err); ok {
		reason = ie.Reason
	}
	x.result.Reasons[reason]++
	x.progress()
}

func anyReady(actors []Status) bool {
	for _, a := range actors {
		if a.State == Ready {
			return true
		}
	}
	return false
}

func allDone(actors []Status) bool {
	for _, a := range actors {
		if a.State != Done {
			return false
		}
	}
	return true
}
