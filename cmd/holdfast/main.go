// Command holdfast makes races between concurrent writers visible and
// impossible. See `holdfast help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/play/gate/file"
)

// Exit codes of every command.
const (
	exitHeld     = 0 // it ran, and nothing was found
	exitFindings = 1 // it ran, and there are findings
	exitFailed   = 2 // it could not run
)

// errFindings ends a command that ran and found something.
var errFindings = errors.New("findings")

func main() {
	// A program behind the file gate is started through this one.
	file.ShimMain(os.Args)
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newRoot().ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitHeld
	case errors.Is(err, errFindings):
		return exitFindings
	}
	fmt.Fprintln(os.Stderr, "holdfast:", err)
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Find, prove and prevent lost updates, double effects and other races between writers",
		Long: `Holdfast plays bad schedules on real applications: it holds each step of
concurrent requests, lets one through at a time, and reports every outcome that
no serial order of the requests explains, as a schedule that can be replayed.

Exit codes: 0 nothing was found, 1 there are findings, 2 it could not run.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newPlay(), newReplay(), newReview(), newInit(), newBench())
	return root
}

// version is the module's version as the build recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
