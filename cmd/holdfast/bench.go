package main

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/play"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

func newBench() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure Holdfast on this machine",
	}
	c.AddCommand(newBenchPlay())
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
