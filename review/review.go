package review

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/front"
	"github.com/holdfast-dev/holdfast/review/report"
	"github.com/holdfast-dev/holdfast/review/rules"
	"github.com/holdfast-dev/holdfast/review/witness"
)

// Options of a review.
type Options struct {
	Dir       string           // root of the module; empty is the current folder
	Patterns  []string         // what to analyse; empty is everything
	FrontEnds []front.FrontEnd // at least one
	Notes     bool             // report notes and low confidence, too
	Parallel  int              // workers; 0 is the number of processors
	Version   string           // of the program, for reports and the cache
	// Baseline is a file of known findings; empty is none.
	Baseline string
	// Diff is a git revision to compare with; Patch is a patch to be reviewed
	// against HEAD (it excludes Diff).
	Diff  string
	Patch []byte
	// Search bounds the search for witnesses.
	Search witness.Options
}

// NothingError says that there was nothing to analyse.
type NothingError struct {
	Dir      string
	Patterns []string
	Problems []front.Problem
}

func (e *NothingError) Error() string {
	s := fmt.Sprintf("review of %s %v: nothing could be analysed; name packages or folders with code in them", e.Dir, e.Patterns)
	if len(e.Problems) > 0 {
		s += fmt.Sprintf(" (first problem: %s: %s)", e.Problems[0].Pos, e.Problems[0].Text)
	}
	return s
}

// Run reviews what the options name.
func Run(ctx context.Context, o Options) (*report.Report, error) {
	if len(o.FrontEnds) == 0 {
		return nil, errors.New("review: no front end is given")
	}
	if o.Diff != "" && o.Patch != nil {
		return nil, errors.New("review: a revision and a patch exclude each other")
	}
	if o.Diff != "" || o.Patch != nil {
		return compare(ctx, o)
	}
	return analyse(ctx, o)
}

// analyse reviews one state of the code.
func analyse(ctx context.Context, o Options) (*report.Report, error) {
	set, err := rules.Load()
	if err != nil {
		return nil, err
	}
	in, err := collect(ctx, o)
	if err != nil {
		return nil, err
	}
	o.Search.Notes = o.Search.Notes || o.Notes
	p := witness.New(in.Program, o.Search)
	found, err := search(ctx, p, set, o)
	if err != nil {
		return nil, err
	}
	known, err := readBaseline(o.Baseline)
	if err != nil {
		return nil, err
	}
	r := &report.Report{Version: o.Version, Module: in.Program.Module, Problems: in.Problems, Entries: len(p.Entries), Packages: in.Packages, Lines: in.Lines}
	keep(r, found, in.Ignores, known, o.Notes)
	r.Paths = paths(p, r.Findings)
	r.Resources = inventory(p, r.Findings)
	return r, nil
}

// collect runs the front ends and merges what they give.
func collect(ctx context.Context, o Options) (*front.Result, error) {
	all := &front.Result{Program: &effect.Program{Funcs: map[string]*effect.Func{}, Schema: effect.Schema{Tables: map[string]*effect.Table{}}}}
	for _, f := range o.FrontEnds {
		res, err := f.Analyze(ctx, front.Request{Dir: o.Dir, Patterns: o.Patterns, Parallel: o.Parallel})
		if err != nil {
			return nil, fmt.Errorf("review: %s: %w", f.Name(), err)
		}
		merge(all, res)
	}
	if all.Packages == 0 && len(all.Program.Entries) == 0 {
		return nil, &NothingError{o.Dir, o.Patterns, all.Problems}
	}
	return all, nil
}

func merge(all, res *front.Result) {
	all.Problems = append(all.Problems, res.Problems...)
	all.Ignores = append(all.Ignores, res.Ignores...)
	all.Packages += res.Packages
	all.Lines += res.Lines
	p := res.Program
	if p == nil {
		return
	}
	if all.Program.Module == "" {
		all.Program.Module = p.Module
	}
	if d := p.Deploy; d.Replicas != 0 || all.Program.Deploy == (effect.Deployment{}) {
		all.Program.Deploy = d
	}
	for name, t := range p.Schema.Tables {
		all.Program.Schema.Tables[name] = t
	}
	for id, f := range p.Funcs {
		all.Program.Funcs[id] = f
	}
	all.Program.Entries = append(all.Program.Entries, p.Entries...)
}

// search looks at each entry alone and at each pair that can meet. The workers
// put what they find at the place of their job, so that the order is that of the
// jobs.
func search(ctx context.Context, p *witness.Problem, set *rules.Set, o Options) ([]*rules.Finding, error) {
	var jobs []func() []*witness.Witness
	for i := range p.Entries {
		jobs = append(jobs, func() []*witness.Witness { return append(p.Alone(i), p.External(i)...) })
	}
	for _, c := range p.Candidates() {
		jobs = append(jobs, func() []*witness.Witness { return p.Pair(c[0], c[1]) })
	}
	workers := o.Parallel
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	results := make([][]*witness.Witness, len(jobs))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(workers, len(jobs)) {
		wg.Go(func() {
			for i := range next {
				results[i] = jobs[i]()
			}
		})
	}
	for i := range jobs {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("review: stopped: %w", err)
	}
	var found []*rules.Finding
	for _, ws := range results {
		for _, w := range ws {
			if f := set.Classify(w); f != nil {
				found = append(found, f)
			}
		}
	}
	return append(distinct(found), set.Tests(p.Entries)...), nil
}
