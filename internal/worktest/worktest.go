//go:build unix

// Package worktest runs parts of a test in further processes of the same test
// binary, which can be stopped and killed: claims that cross processes are not
// shown by goroutines.
//
// A package names its jobs in TestMain; a test starts them by name:
//
//	func TestMain(m *testing.M) { os.Exit(worktest.Main(jobs, m.Run)) }
package worktest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// jobEnv names the job of a worker process.
const jobEnv = "HOLDFAST_WORKTEST_JOB"

// Job is what a worker does. It reads orders from in, a line each, and says what
// it did by say, a line each, which is in the pipe when say returns.
type Job func(ctx context.Context, args []string, in *bufio.Scanner, say func(format string, args ...any)) error

// Main runs the tests, or in a worker process its job.
func Main(jobs map[string]Job, tests func() int) int {
	name, worker := os.LookupEnv(jobEnv)
	if !worker {
		return tests()
	}
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		// A parent that has gone needs no answer.
		_, _ = os.Stdout.WriteString(fmt.Sprintf(format, args...) + "\n")
	}
	if err := jobs[name](context.Background(), os.Args[1:], bufio.NewScanner(os.Stdin), say); err != nil {
		fmt.Fprintf(os.Stderr, "worker %s: %v\n", name, err)
		return 1
	}
	return 0
}

// Worker is a process of a test.
type Worker struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// Start starts a worker. It is killed at the end of the test if it is still
// there.
func Start(t testing.TB, job string, args ...string) *Worker {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{t: t, cmd: exec.Command(exe, args...)}
	// The race detector would sleep for a second at each worker's end.
	w.cmd.Env = append(os.Environ(), jobEnv+"="+job, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	w.cmd.Stderr = os.Stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.out = bufio.NewScanner(out)
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	})
	return w
}

// Tell sends an order.
func (w *Worker) Tell(format string, args ...any) {
	w.t.Helper()
	if _, err := fmt.Fprintf(w.in, format+"\n", args...); err != nil {
		w.t.Fatalf("the worker does not listen: %v", err)
	}
}

// Next waits for the next line of the worker.
func (w *Worker) Next() (string, bool) {
	if !w.out.Scan() {
		return "", false
	}
	return w.out.Text(), true
}

// Expect waits for the next line, which must begin with prefix, and returns what
// follows.
func (w *Worker) Expect(prefix string) string {
	w.t.Helper()
	line, ok := w.Next()
	rest, is := strings.CutPrefix(line, prefix)
	if !ok || !is {
		w.t.Fatalf("the worker said %q, want %q", line, prefix)
	}
	return strings.TrimSpace(rest)
}

// Ask sends an order and waits for the answer.
func (w *Worker) Ask(order, prefix string) string {
	w.t.Helper()
	w.Tell("%s", order)
	return w.Expect(prefix)
}

// Stop is SIGSTOP: the process is paused wherever it is.
func (w *Worker) Stop() { w.signal(syscall.SIGSTOP) }

// Continue is SIGCONT.
func (w *Worker) Continue() { w.signal(syscall.SIGCONT) }

// Kill is kill -9.
func (w *Worker) Kill() { w.signal(syscall.SIGKILL) }

func (w *Worker) signal(s syscall.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

// Rest reads to the end of the worker's output.
func (w *Worker) Rest() (lines []string) {
	for w.out.Scan() {
		lines = append(lines, w.out.Text())
	}
	return lines
}

// End closes the worker's input, reads what it still says, and waits for it.
func (w *Worker) End() []string {
	w.t.Helper()
	_ = w.in.Close()
	lines := w.Rest()
	if err := w.cmd.Wait(); err != nil {
		w.t.Errorf("worker: %v", err)
	}
	return lines
}
