package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/play/scenario"
)

func newInit() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a commented scenario to start from",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := "holdfast.yaml"
			if len(args) > 0 {
				file = args[0]
			}
			flag := os.O_WRONLY | os.O_CREATE | os.O_EXCL
			if force {
				flag = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
			}
			f, err := os.OpenFile(file, flag, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s is there already; name another file, or use --force to overwrite it", file)
			}
			if err != nil {
				return err
			}
			if _, err := f.Write(scenario.Template()); err != nil {
				return errors.Join(err, f.Close())
			}
			if err := f.Close(); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s: fill in the application and its requests, then run: holdfast play %s\n", file, file)
			return nil
		},
	}
	c.Flags().BoolVar(&force, "force", false, "overwrite the file")
	return c
}
