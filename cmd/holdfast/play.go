package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-dev/holdfast/play"
	"github.com/holdfast-dev/holdfast/play/report"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

// playFlags are the flags that play and replay share.
type playFlags struct {
	json, junit, html, svg string
	verbose, quiet         bool
	appOutput              bool
	color                  string
}

func (f *playFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.json, "json", "", "write the report as JSON to `FILE` (- for standard output)")
	c.Flags().StringVar(&f.junit, "junit", "", "write the report as JUnit XML to `FILE` (- for standard output)")
	c.Flags().StringVar(&f.html, "html", "", "write the report as a web page to `FILE` (- for standard output)")
	c.Flags().StringVar(&f.svg, "svg", "", "draw the first finding's schedule to `FILE`")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "show statements and footprints whole")
	c.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "no progress, and no text for scenarios without findings")
	c.Flags().BoolVar(&f.appOutput, "app-output", false, "show what the application prints (on standard error)")
	c.Flags().StringVar(&f.color, "color", "auto", "colours in the text: auto, always or never")
}

func newPlay() *cobra.Command {
	var flags playFlags
	var preemptions, random int
	var seed uint64
	var save string
	var schedules []string
	c := &cobra.Command{
		Use:   "play SCENARIO...",
		Short: "Play the interleavings of a scenario on the real application",
		Long: `Play starts the application of each scenario behind a gate that holds every
database statement, sends its requests at once, and lets one statement through
at a time, in every order that can make a difference. An outcome that no serial
order of the acknowledged requests explains is a finding.

The search is exhaustive within the scenario's budgets. For spaces that are too
large use --preemptions (all schedules with at most so many preemptions) or
--random (probabilistic concurrency testing).`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			opts := play.Options{Bounded: preemptions >= 0, Preemptions: preemptions, Random: random, Seed: seed, SaveDir: save}
			if opts.Bounded && random > 0 {
				return errors.New("--preemptions and --random exclude each other")
			}
			if len(files) > 1 && (flags.json != "" || flags.html != "") {
				return errors.New("--json and --html write one report: play one scenario, or use --junit for several")
			}
			return flags.run(cmd, func(ctx context.Context, o play.Options) ([]*report.Report, error) {
				o.Bounded, o.Preemptions, o.Random, o.Seed, o.SaveDir = opts.Bounded, opts.Preemptions, opts.Random, opts.Seed, opts.SaveDir
				return playAll(ctx, files, schedules, o)
			})
		},
	}
	flags.add(c)
	c.Flags().IntVar(&preemptions, "preemptions", -1, "only schedules with at most `N` preemptions")
	c.Flags().IntVar(&random, "random", 0, "`N` random schedules instead of a search")
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of --random")
	c.Flags().StringSliceVar(&schedules, "schedules", nil, "`KINDS` of schedules in place of those that the scenario names: interleave, pause, crash, power-loss, retry")
	c.Flags().StringVar(&save, "save", ".holdfast", "folder for the schedules of findings; empty to save none")
	return c
}

// playAll loads all scenarios before the first is played, so that a mistake in
// the last one is told at once.
func playAll(ctx context.Context, files, schedules []string, o play.Options) ([]*report.Report, error) {
	scenarios := make([]*scenario.Scenario, len(files))
	var errs []error
	for i, f := range files {
		var err error
		scenarios[i], err = scenario.Load(f)
		if err == nil && len(schedules) > 0 {
			err = scenarios[i].Choose(schedules)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var reports []*report.Report
	for _, sc := range scenarios {
		r, err := play.Run(ctx, sc, o)
		if err != nil {
			return reports, err
		}
		reports = append(reports, r)
	}
	return reports, nil
}

func newReplay() *cobra.Command {
	var flags playFlags
	var times int
	c := &cobra.Command{
		Use:   "replay FILE",
		Short: "Play a saved schedule again",
		Long: `Replay plays one saved schedule of a finding. It exits with 1 when the outcome is
still outside the serial orders, 0 when every replay was right (the race is
fixed), and 2 when the schedule does not fit the application any more.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			saved, err := report.ReadSaved(args[0])
			if err != nil {
				return err
			}
			sc, err := scenario.Load(saved.ScenarioFile(args[0]))
			if err != nil {
				return err
			}
			return flags.run(cmd, func(ctx context.Context, o play.Options) ([]*report.Report, error) {
				r, err := play.Replay(ctx, sc, saved, times, o)
				if err != nil {
					return nil, err
				}
				if p := r.Passes[len(r.Passes)-1]; len(r.Findings) == 0 && p.Inconclusive == p.Schedules {
					return []*report.Report{r}, fmt.Errorf("%s: no replay followed the saved schedule; play the scenario again", args[0])
				}
				return []*report.Report{r}, nil
			})
		},
	}
	flags.add(c)
	c.Flags().IntVarP(&times, "times", "n", 3, "how often")
	return c
}

// run plays, prints the reports in every wanted form, and turns findings into
// the exit code.
func (f *playFlags) run(cmd *cobra.Command, do func(context.Context, play.Options) ([]*report.Report, error)) error {
	if f.color != "auto" && f.color != "always" && f.color != "never" {
		return fmt.Errorf("--color %q: use auto, always or never", f.color)
	}
	o := play.Options{Version: version(), Logger: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if f.appOutput {
		o.Output = cmd.ErrOrStderr()
	}
	if !f.quiet {
		o.Progress = report.NewProgress(cmd.ErrOrStderr(), report.ProgressOptions{Terminal: isTerminal(cmd.ErrOrStderr()), Width: width(cmd.ErrOrStderr())})
	}
	reports, err := do(cmd.Context(), o)
	if o.Progress != nil {
		o.Progress.Done()
	}
	if printErr := f.print(cmd.OutOrStdout(), reports); err == nil {
		err = printErr
	}
	if err != nil {
		return err
	}
	for _, r := range reports {
		if len(r.Findings) > 0 {
			return errFindings
		}
	}
	return nil
}

func (f *playFlags) print(out io.Writer, reports []*report.Report) error {
	text := true
	for _, form := range []struct {
		file  string
		write func(io.Writer) error
	}{
		{f.json, func(w io.Writer) error {
			return each(reports, func(r *report.Report) error { return report.JSON(w, r) })
		}},
		{f.junit, func(w io.Writer) error { return report.JUnit(w, reports...) }},
		{f.html, func(w io.Writer) error {
			return each(reports, func(r *report.Report) error { return report.HTML(w, r) })
		}},
		{f.svg, func(w io.Writer) error { return drawFirst(w, reports) }},
	} {
		if form.file == "-" {
			text = false
		}
		if err := writeTo(form.file, out, form.write); err != nil {
			return err
		}
	}
	if !text {
		return nil
	}
	color := f.color == "always" || f.color == "auto" && isTerminal(out) && os.Getenv("NO_COLOR") == ""
	return each(reports, func(r *report.Report) error {
		if f.quiet && len(r.Findings) == 0 {
			return nil
		}
		return report.Text(out, r, report.TextOptions{Width: width(out), Color: color, Verbose: f.verbose})
	})
}

// drawFirst draws the first finding there is.
func drawFirst(w io.Writer, reports []*report.Report) error {
	for _, r := range reports {
		if len(r.Findings) > 0 {
			return report.SVG(w, r, 0)
		}
	}
	return nil
}

func each(reports []*report.Report, do func(*report.Report) error) error {
	for _, r := range reports {
		if err := do(r); err != nil {
			return err
		}
	}
	return nil
}

// writeTo writes to a file, to standard output for "-", or nowhere.
func writeTo(file string, out io.Writer, write func(io.Writer) error) error {
	switch file {
	case "":
		return nil
	case "-":
		return write(out)
	}
	w, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(write(w), w.Close())
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width of the terminal in cells; 0 where there is none.
func width(w any) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return n
}
