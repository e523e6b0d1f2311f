// Package reviewbench measures `holdfast review` beside staticcheck on the same
// module in the same run.
//
// # Model
//
// Both programs run as processes, in turn, after one run each that warms the
// caches of the go command and of the file system. Wall time and the largest
// resident set are those the kernel counted for the process itself; the go
// command's own processes are in the time of both and in the memory of neither.
//
// # Promise and limits
//
// The figures are those of this machine at this moment; only the ratio says
// anything. A diff is measured against HEAD with the result for HEAD in the
// cache, which is what a second look at a change costs.
package reviewbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"
)

// Staticcheck is the version that is measured against.
const Staticcheck = "honnef.co/go/tools/cmd/staticcheck@v0.8.2"

// Options of a measurement.
type Options struct {
	Dir    string // the module; empty is the current folder
	Rounds int    // per program; 0 is 3
	Diff   bool   // measure --diff HEAD, too
}

// figure is what one run costs.
type figure struct {
	wall time.Duration
	rss  int64 // KiB; 0 where the system does not tell
}

// Run measures and prints the table.
func Run(ctx context.Context, w io.Writer, self string, o Options) error {
	if o.Rounds == 0 {
		o.Rounds = 3
	}
	tmp, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	install := exec.CommandContext(ctx, "go", "install", Staticcheck)
	install.Env = append(os.Environ(), "GOBIN="+tmp)
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("go install %s: %w: %s", Staticcheck, err, out)
	}
	programs := []struct {
		name string
		args []string
	}{
		{"staticcheck ./...", []string{filepath.Join(tmp, "staticcheck"), "./..."}},
		{"holdfast review ./...", []string{self, "review", "--format", "json=" + filepath.Join(tmp, "out.json"), "./..."}},
	}
	if o.Diff {
		programs = append(programs, struct {
			name string
			args []string
		}{"holdfast review --diff HEAD ./...", []string{self, "review", "--diff", "HEAD", "--format", "json=" + filepath.Join(tmp, "diff.json"), "./..."}})
	}
	runs := make([][]figure, len(programs))
	for round := range o.Rounds + 1 {
		for i, p := range programs {
			f, err := measure(ctx, o.Dir, p.args)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if round > 0 { // the first warms the caches
				runs[i] = append(runs[i], f)
			}
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "program\tmedian\tbest\tmemory\ttimes staticcheck")
	base := median(runs[0])
	for i, p := range programs {
		m := median(runs[i])
		fmt.Fprintf(t, "%s\t%s\t%s\t%d MiB\t%.2f\n", p.name, m.wall.Round(time.Millisecond), best(runs[i]).Round(time.Millisecond),
			largest(runs[i])/1024, float64(m.wall)/float64(base.wall))
	}
	return t.Flush()
}

// measure runs a program once. An exit code of 1 is findings, and no failure.
func measure(ctx context.Context, dir string, args []string) (figure, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	start := time.Now()
	err := cmd.Run()
	f := figure{wall: time.Since(start)}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil
	}
	if cmd.ProcessState != nil {
		f.rss = maxRSS(cmd.ProcessState)
	}
	return f, err
}

func median(fs []figure) figure {
	fs = slices.SortedFunc(slices.Values(fs), func(a, b figure) int { return int(a.wall - b.wall) })
	return fs[len(fs)/2]
}

func best(fs []figure) time.Duration {
	return slices.MinFunc(fs, func(a, b figure) int { return int(a.wall - b.wall) }).wall
}

func largest(fs []figure) int64 {
	return slices.MaxFunc(fs, func(a, b figure) int { return int(a.rss - b.rss) }).rss
}
