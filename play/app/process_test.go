package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// watch returns a function that waits until the process has ended (be it a
// zombie), and fails the test when it has not within some seconds.
func watch(t *testing.T, pid int) func() {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return func() {
		t.Helper()
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 5000)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || n != 1 {
				t.Fatalf("process %d is still there after 5 s (%v)", pid, err)
			}
			return
		}
	}
}

// childOf returns the number that a program printed as "child N".
func childOf(t *testing.T, p *Process) int {
	t.Helper()
	for _, l := range p.Tail() {
		if s, ok := strings.CutPrefix(l, "child "); ok {
			pid, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatalf("no child in the output %q", p.Tail())
	return 0
}

// lockedBuffer can be read while a process writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestStartReadyStop(t *testing.T) {
	var out lockedBuffer
	p := start(t, "serve", Options{Instance: 2, Output: &out, Env: []string{"EXTRA=salt"}, Dir: t.TempDir()})
	ready(t, p)
	if err := p.Ready(t.Context(), Probe{}); err != nil {
		t.Errorf("ready by connection: %v", err)
	}
	want := fmt.Sprintf("serving on %s with salt", p.Addr())
	if got := out.String(); got != "app 2 | "+want+"\n" {
		t.Errorf("output %q", got)
	}
	if got := p.Tail(); !slices.Equal(got, []string{want}) {
		t.Errorf("tail %q", got)
	}
	if e := p.ExitError(); e != nil {
		t.Errorf("it runs and says %v", e)
	}
	gone := watch(t, p.Pid())
	for range 2 { // idempotent
		if err := p.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	gone()
	if e := p.ExitError(); e == nil || !strings.Contains(e.Error(), "signal: terminated") {
		t.Errorf("after Stop: %v", e)
	}
	if err := p.Ready(t.Context(), Probe{}); err == nil || !errors.As(err, new(*ExitError)) {
		t.Errorf("ready after the end: %v", err)
	}
}

func TestReadySaysWhyItEnded(t *testing.T) {
	p := start(t, "broken", Options{})
	err := p.Ready(t.Context(), Probe{Method: "GET", Path: "/"})
	e, ok := errors.AsType[*ExitError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	// The last 100 of 150 lines, and one without a line end.
	if len(e.Tail) != 100 || e.Tail[0] != "line 51" || e.Tail[99] != "no such database" {
		t.Errorf("tail of %d lines: %q", len(e.Tail), e.Tail)
	}
	for _, want := range []string{"exit status 3", "\n  | line 149\n  | no such database"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

func TestReadyGivesUp(t *testing.T) {
	p := start(t, "serve", Options{})
	ready(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := p.Ready(ctx, Probe{Method: "GET", Path: "/nothing"})
	e, ok := errors.AsType[*NotReadyError](err)
	if !ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if e.Last == nil || e.Last.Error() != "status 404 instead of 200" || !strings.Contains(err.Error(), "GET /nothing") {
		t.Errorf("got %v", err)
	}
	if err := p.Ready(t.Context(), Probe{Method: "GET", Path: "/nothing", Status: 404}); err != nil {
		t.Errorf("the wanted status: %v", err)
	}
}

func TestStopKillsTheStubborn(t *testing.T) {
	p := start(t, "stubborn", Options{Grace: 50 * time.Millisecond})
	ready(t, p)
	began := time.Now()
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("it got only %v to stop by itself", took)
	}
	if e := p.ExitError(); e == nil || !strings.Contains(e.Error(), "signal: killed") {
		t.Errorf("ended with %v", e)
	}
}

func TestStopEndsGraceWithContext(t *testing.T) {
	p := start(t, "stubborn", Options{Grace: time.Hour})
	ready(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestStopEndsTheGroup(t *testing.T) {
	p := start(t, "wrap", Options{})
	ready(t, p)
	gone := watch(t, childOf(t, p))
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone()
}

// A command that ends before its children leaves none behind, or the next
// instance would meet the old one on its port.
func TestNoChildIsLeftBehind(t *testing.T) {
	p := start(t, "leave", Options{})
	<-p.Exited()
	pid := childOf(t, p)
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		_ = unix.Close(fd)
		watch(t, pid)()
	}
}

func TestDiesWithItsOwner(t *testing.T) {
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), fmt.Sprintf("%s=owner 127.0.0.1:%d", roleEnv, port))
	owner.Stderr = os.Stderr
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(firstLine(t, out))
	if err != nil {
		t.Fatal(err)
	}
	gone := watch(t, pid)
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // killed
	gone()
}

func TestStartErrors(t *testing.T) {
	for name, o := range map[string]Options{
		"no command": {},
		"no program": {Command: []string{"/nowhere/program"}},
		"no folder":  {Command: os.Args[:1], Dir: "/nowhere"},
	} {
		if _, err := Start(t.Context(), o); err == nil || !errors.As(err, new(*StartError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBuild(t *testing.T) {
	dir := t.TempDir()
	if err := Build(t.Context(), []string{"sh", "-c", "echo $WHAT > made"}, dir, []string{"WHAT=bread"}); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(dir + "/made"); err != nil || string(b) != "bread\n" {
		t.Errorf("made %q, %v", b, err)
	}
	err := Build(t.Context(), []string{"sh", "-c", "echo main.go:3: syntax error >&2; exit 2"}, dir, nil)
	if e, ok := errors.AsType[*BuildError](err); !ok || !slices.Equal(e.Tail, []string{"main.go:3: syntax error"}) ||
		!strings.Contains(err.Error(), "exit status 2; its last lines:\n  | main.go:3: syntax error") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := Build(ctx, []string{"sleep", "60"}, "", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestTailCutsEndlessLines(t *testing.T) {
	tl := &tail{out: io.Discard}
	for range 3 {
		if n, err := tl.Write(bytes.Repeat([]byte("x"), 3000)); n != 3000 || err != nil {
			t.Fatal(n, err)
		}
	}
	tl.flush()
	var sizes []int
	for _, l := range tl.last() {
		sizes = append(sizes, len(l))
	}
	if !slices.Equal(sizes, []int{4096, 4096, 808}) {
		t.Errorf("lines of %v bytes", sizes)
	}
}

func TestFreePort(t *testing.T) {
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	low, _, _ := strings.Cut(string(b), "\t")
	if n, err := strconv.Atoi(low); err == nil && n >= lastPort && port >= n {
		t.Errorf("port %d can be taken by an outgoing connection (from %d)", port, n)
	}
}
