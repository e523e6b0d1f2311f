package play

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/oracle"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

// BenchOptions say how much a benchmark measures. Zero values are the figures
// of the documents.
type BenchOptions struct {
	// Runs for the rate of schedules; default 1000.
	Runs int
	// Replays of the first finding; default 100.
	Replays int
	// Repeats of the whole search; default 10.
	Repeats int
}

// Figures of one scenario.
type Figures struct {
	Scenario string
	// FirstFinding is the time from the call to the first run outside the
	// serial orders, building and starting everything included; 0 for none.
	FirstFinding time.Duration
	// Schedules, Traces: runs of one exhaustive search, and the least number
	// that covers the same.
	Schedules, Traces int
	// Steps of the longest schedule.
	Steps int
	// Rate is schedules per second over random runs, reset and observation
	// included.
	Rate float64
	// ResetMedian and ResetP99 are the times to restore the start state.
	ResetMedian, ResetP99 time.Duration
	// Reproduced of Replays replays of the first finding gave its outcome again.
	Reproduced, Replays int
	// Identical of Repeats searches ran the same schedules in the same order.
	Identical, Repeats int
	// Inconclusive runs of all of it.
	Inconclusive int
}

// Bench measures the player on one scenario.
func Bench(ctx context.Context, sc *scenario.Scenario, o BenchOptions) (f Figures, err error) {
	orDefault(&o.Runs, 1000)
	orDefault(&o.Replays, 100)
	orDefault(&o.Repeats, 10)
	f.Scenario = sc.File
	began := time.Now()
	p, err := newPlayer(ctx, sc, Options{})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, p.stage.close()) }()
	if err := p.serial(ctx); err != nil {
		return f, err
	}
	if err := p.benchSearch(ctx, began, &f, o); err != nil {
		return f, err
	}
	if err := p.benchRate(ctx, &f, o); err != nil {
		return f, err
	}
	return f, p.benchReplay(ctx, &f, o)
}

func orDefault(v *int, d int) {
	if *v == 0 {
		*v = d
	}
}

// benchSearch repeats the exhaustive search.
func (p *player) benchSearch(ctx context.Context, began time.Time, f *Figures, o BenchOptions) error {
	var first []string
	for range o.Repeats {
		var visited []string
		res, err := explore.Explore(ctx, p.stage, explore.Options{Visit: func(r explore.Run) error {
			s := r.Trace.Schedule()
			visited = append(visited, s.String())
			f.Steps = max(f.Steps, len(s))
			v := p.oracle.Judge(p.stage.left())
			if v.OK {
				return nil
			}
			if f.FirstFinding == 0 {
				f.FirstFinding = time.Since(began)
			}
			p.found(r.Trace, v)
			return nil
		}})
		if err != nil {
			return err
		}
		f.Schedules, f.Traces = res.Runs+res.Redundant, res.Traces
		f.Inconclusive += res.Inconclusive
		if first == nil {
			first = visited
		}
		f.Repeats++
		if slices.Equal(first, visited) {
			f.Identical++
		}
	}
	return nil
}

// benchRate makes random runs.
func (p *player) benchRate(ctx context.Context, f *Figures, o BenchOptions) error {
	if p.world != nil {
		p.world.resets = nil
	}
	began := time.Now()
	res, err := explore.Explore(ctx, p.stage, explore.Options{Random: o.Runs, Seed: 1,
		Visit: func(explore.Run) error {
			p.oracle.Judge(p.stage.left())
			return nil
		}})
	if err != nil {
		return err
	}
	f.Rate = float64(res.Runs) / time.Since(began).Seconds()
	f.Inconclusive += res.Inconclusive
	if p.world == nil {
		return nil
	}
	r := slices.Sorted(slices.Values(p.world.resets))
	if len(r) > 0 {
		f.ResetMedian, f.ResetP99 = r[len(r)/2], r[len(r)*99/100]
	}
	return nil
}

// benchReplay replays the simplest schedule of the first finding.
func (p *player) benchReplay(ctx context.Context, f *Figures, o BenchOptions) error {
	groups := p.ordered()
	if len(groups) == 0 {
		return nil
	}
	for range o.Replays {
		v, _, err := p.replayOnce(ctx, groups[0].schedule)
		if err != nil {
			return err
		}
		f.Replays++
		if v != nil && sameVerdict(*v, groups[0].verdict) {
			f.Reproduced++
		}
	}
	return nil
}

func sameVerdict(a, b oracle.Verdict) bool {
	return a.OK == b.OK && a.Kind == b.Kind && a.Key == b.Key
}

// PrintFigures prints the figures as a table.
func PrintFigures(w io.Writer, all []Figures) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "scenario\tsteps\tschedules\ttraces\tredundant\tschedules/s\treset median\treset p99\tfirst finding\treplays\tsame search\tinconclusive")
	for _, f := range all {
		first := "none"
		if f.FirstFinding > 0 {
			first = f.FirstFinding.Round(10 * time.Millisecond).String()
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.1f %%\t%.0f\t%v\t%v\t%s\t%d/%d\t%d/%d\t%d\n", f.Scenario, f.Steps,
			f.Schedules, f.Traces, 100*float64(f.Schedules-f.Traces)/float64(max(1, f.Traces)), f.Rate,
			f.ResetMedian.Round(10*time.Microsecond), f.ResetP99.Round(10*time.Microsecond), first,
			f.Reproduced, f.Replays, f.Identical, f.Repeats, f.Inconclusive)
	}
	return t.Flush()
}
