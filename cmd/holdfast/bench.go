package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/mechbench"
	"github.com/holdfast-dev/holdfast/internal/reviewbench"
	"github.com/holdfast-dev/holdfast/internal/storebench"
	"github.com/holdfast-dev/holdfast/play"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

func newBench() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure Holdfast on this machine",
	}
	c.AddCommand(newBenchPlay(), newBenchReview(), newBenchStore(), newBenchMechanisms())
	return c
}

func newBenchStore() *cobra.Command {
	var o storebench.Options
	c := &cobra.Command{
		Use:   "store",
		Short: "Measure the stores: CAS list against markers, group commit, overhead, large indexes",
		Long: `Prints tables that compare the ways of one store in one run: a list in one value
against a marker per item at 1, 16 and 64 writers, SQLite's group commit against
one transaction per write, the store against its raw driver, and the listing and
pruning of large marker indexes. Everything takes some minutes; for a million
files it needs two gigabytes of disk.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return storebench.Run(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	c.Flags().StringVar(&o.Dir, "dir", "", "`FOLDER` for the data; empty is the temporary directory")
	c.Flags().IntSliceVar(&o.Writers, "writers", nil, "numbers of concurrent writers (default 1,16,64)")
	c.Flags().DurationVar(&o.Time, "time", 0, "how long each cell is measured (default 2s)")
	c.Flags().IntSliceVar(&o.Markers, "markers", nil, "sizes of the marker index (default 100000,1000000)")
	c.Flags().StringSliceVar(&o.Only, "only", nil, "tables to print: writers, group, overhead, markers (default all)")
	c.Flags().StringVar(&o.PostgresURL, "postgres", "", "`URL` of a database to use; empty starts a throwaway server")
	return c
}

func newBenchMechanisms() *cobra.Command {
	var o mechbench.Options
	c := &cobra.Command{
		Use:   "mechanisms",
		Short: "Measure the mechanisms beside what people write instead of them",
		Long: `Prints tables that compare the ways of one mechanism in one run, on SQLite and
PostgreSQL, at 1, 16 and 64 writers: a counter by one guarded statement, by
compare-and-set, and by SELECT FOR UPDATE.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return mechbench.Run(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	c.Flags().StringVar(&o.Dir, "dir", "", "`FOLDER` for the data; empty is the temporary directory")
	c.Flags().IntSliceVar(&o.Writers, "writers", nil, "numbers of concurrent writers (default 1,16,64)")
	c.Flags().DurationVar(&o.Time, "time", 0, "how long each cell is measured (default 2s)")
	c.Flags().StringSliceVar(&o.Only, "only", nil, "tables to print: "+strings.Join(mechbench.Tables(), ", ")+" (default all)")
	c.Flags().StringVar(&o.PostgresURL, "postgres", "", "`URL` of a database to use; empty starts a throwaway server")
	return c
}

func newBenchReview() *cobra.Command {
	var o reviewbench.Options
	c := &cobra.Command{
		Use:   "review [FOLDER]",
		Short: "Measure review beside staticcheck on a module: time and memory",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Dir = args[0]
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			return reviewbench.Run(cmd.Context(), cmd.OutOrStdout(), self, o)
		},
	}
	c.Flags().IntVar(&o.Rounds, "rounds", 3, "runs of each program")
	c.Flags().BoolVar(&o.Diff, "diff", false, "measure --diff HEAD as well (the folder must be in a git repository)")
	return c
}

func newBenchPlay() *cobra.Command {
	var o play.BenchOptions
	c := &cobra.Command{
		Use:   "play SCENARIO...",
		Short: "Measure the player: schedules per second, redundant runs, reset, replays",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			var all []play.Figures
			for _, file := range files {
				sc, err := scenario.Load(file)
				if err != nil {
					return err
				}
				f, err := play.Bench(cmd.Context(), sc, o)
				if err != nil {
					return err
				}
				all = append(all, f)
			}
			return play.PrintFigures(cmd.OutOrStdout(), all)
		},
	}
	c.Flags().IntVar(&o.Runs, "runs", 1000, "random schedules for the rate")
	c.Flags().IntVar(&o.Replays, "replays", 100, "replays of the first finding")
	c.Flags().IntVar(&o.Repeats, "repeats", 10, "repeats of the exhaustive search")
	return c
}
