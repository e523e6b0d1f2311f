//go:build amd64 || arm64

package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/gate/file/tree"
)

// roleEnv makes the test binary play a program instead of running the tests.
const roleEnv = "HOLDFAST_FILE_TEST_ROLE"

func TestMain(m *testing.M) {
	ShimMain(os.Args)
	if role := os.Getenv(roleEnv); role != "" {
		if err := roles[role](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// command is a program to run behind the gate.
type command struct {
	words []string
	env   []string
	cred  *syscall.Credential
}

// role is one of the test binary's own programs.
func role(name string) command {
	// The race detector else waits for a second before a program exits.
	return command{words: []string{os.Args[0]}, env: []string{roleEnv + "=" + name, "GORACE=atexit_sleep_ms=0"}}
}

// world runs programs behind a gate: a small player, one actor per program.
type world struct {
	t        testing.TB
	gate     *Gate
	dir      string
	events   chan gate.Event
	start    tree.State
	commands []command
	last     *execution
}

func newWorld(t testing.TB, cfg Config, commands ...command) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), events: make(chan gate.Event, 1<<12), commands: commands, start: tree.State{}}
	cfg.Dirs = []string{w.dir}
	cfg.Sink = func(e gate.Event) { w.events <- e }
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.gate = g
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// put makes a file of the start state.
func (w *world) put(name, data string) {
	w.start[name] = tree.Node{Mode: 0o666, Data: []byte(data)}
}

// proc is one running program.
type proc struct {
	in     *Instance
	cmd    *exec.Cmd
	out    bytes.Buffer
	exited chan struct{}
	err    error
}

func (w *world) launch(c command) *proc {
	w.t.Helper()
	in, err := w.gate.Add(c.words, 3)
	if err != nil {
		w.t.Fatal(err)
	}
	p := &proc{in: in, exited: make(chan struct{})}
	p.cmd = exec.Command(in.Command()[0], in.Command()[1:]...)
	p.cmd.Dir = w.dir
	p.cmd.Env = append(os.Environ(), c.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.ExtraFiles = in.Files()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.cred}
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	started := make(chan error, 1)
	go func() {
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
		close(p.exited)
	}()
	if err := in.Started(ctx, <-started); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// actor of an execution.
type actor struct {
	proc  *proc
	state explore.State
	held  *gate.Step
	wait  *gate.Step // released, and waits
	done  *gate.Step // answered, with the footprint that it had
	over  bool       // the process has ended
}

// execution is one run of a world.
type execution struct {
	w      *world
	actors []*actor
	trace  []string
	failed []error
}

// Begin implements explore.System.
func (w *world) Begin(context.Context) (explore.Execution, error) {
	w.gate.Hold(false)
	if err := w.start.Restore(w.dir, tree.Options{}); err != nil {
		return nil, err
	}
	w.gate.Begin()
	w.gate.Hold(true)
	x := &execution{w: w}
	for i, c := range w.commands {
		p := w.launch(c)
		w.gate.Attribute(p.in.Number(), string(rune('A'+i)))
		x.actors = append(x.actors, &actor{proc: p})
		if err := x.settle(x.actors[i]); err != nil {
			return nil, err
		}
	}
	w.last = x
	return x, nil
}

func (x *execution) Actors() []explore.Status {
	var s []explore.Status
	for _, a := range x.actors {
		st := explore.Status{State: a.state}
		if a.held != nil {
			st.Step = a.held.Label
		}
		s = append(s, st)
	}
	return s
}

// settle waits until the actor is held, waits for a lock or has ended.
func (x *execution) settle(a *actor) error {
	limit := time.After(20 * time.Second)
	for a.held == nil && a.wait == nil && !a.over {
		select {
		case e := <-x.w.events:
			if err := x.handle(e); err != nil {
				return err
			}
		case <-a.proc.exited:
			a.over = true
		case <-limit:
			return errors.New("the program neither ends nor makes a step")
		}
	}
	switch {
	case a.held != nil:
		a.state = explore.Ready
	case a.wait != nil:
		a.state = explore.Blocked
	default:
		a.state = explore.Done
	}
	return nil
}

func (x *execution) handle(e gate.Event) error {
	switch e.Kind {
	case gate.Failed:
		x.failed = append(x.failed, e.Err)
	case gate.Held:
		for _, a := range x.actors {
			if a.proc.in.Number() == e.Step.Instance {
				if a.held != nil {
					return fmt.Errorf("two steps at once: %s and %s", a.held.Label, e.Step.Label)
				}
				a.held = e.Step
			}
		}
	case gate.Answered:
		for _, a := range x.actors {
			if a.proc.in.Number() == e.Step.Instance {
				a.done, a.wait = e.Step, nil
				if err := x.w.gate.Deliver(context.Background(), e.ID); err != nil && !errors.Is(err, ErrGone) {
					return err
				}
			}
		}
	}
	return nil
}

func (x *execution) drain() error {
	for {
		select {
		case e := <-x.w.events:
			if err := x.handle(e); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// Step implements explore.Execution.
func (x *execution) Step(ctx context.Context, i int) (explore.Event, error) {
	a := x.actors[i]
	s := a.held
	e := explore.Event{Actor: i, Step: s.Label, Footprint: s.Footprint}
	x.trace = append(x.trace, fmt.Sprintf("%c %s", 'A'+i, s.Label))
	a.held, a.done, a.wait = nil, nil, s
	waited := map[int]bool{}
	for j, b := range x.actors {
		waited[j] = b.wait != nil && j != i
	}
	if err := x.w.gate.Release(ctx, s.ID, false); err != nil {
		return e, err
	}
	if err := x.drain(); err != nil {
		return e, err
	}
	if a.done != nil {
		e.Footprint = a.done.Footprint
	}
	e.Blocked = a.wait != nil
	if err := x.settle(a); err != nil {
		return e, err
	}
	return e, x.settleWoken(ctx, &e, waited)
}

// settleWoken brings the actors that the step has set free to their next steps.
func (x *execution) settleWoken(ctx context.Context, e *explore.Event, waited map[int]bool) error {
	if _, err := x.w.gate.Waiting(ctx, nil); err != nil {
		return err
	}
	if err := x.drain(); err != nil {
		return err
	}
	for j, b := range x.actors {
		if waited[j] && b.wait == nil {
			e.Woke = append(e.Woke, j)
			if b.done != nil {
				e.Footprint = e.Footprint.Union(b.done.Footprint)
			}
			if err := x.settle(b); err != nil {
				return err
			}
		}
	}
	ready := slices.ContainsFunc(x.actors, func(a *actor) bool { return a.state == explore.Ready })
	if !ready {
		// Everybody waits: a repeated try fails then.
		for j, b := range x.actors {
			if b.wait != nil && x.w.gate.Expire(ctx, b.wait.ID) == nil {
				if err := x.drain(); err != nil {
					return err
				}
				e.Woke = append(e.Woke, j)
				return x.settle(b)
			}
		}
	}
	return nil
}

// End implements explore.Execution.
func (x *execution) End(ctx context.Context, complete bool) error {
	for _, a := range x.actors {
		if !a.over {
			if complete {
				x.failed = append(x.failed, errors.New("a program has not ended"))
			}
			_ = syscall.Kill(-a.proc.cmd.Process.Pid, syscall.SIGKILL)
		}
	}
	for _, a := range x.actors {
		<-a.proc.exited
		<-a.proc.in.Ended()
	}
	for {
		select {
		case <-x.w.events:
		default:
			return nil
		}
	}
}

// run plays one schedule; the letters say who takes the next step, and when they
// are used up the first that can.
func (w *world) run(schedule string) *execution {
	w.t.Helper()
	ctx := w.t.Context()
	ex, err := w.Begin(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	x := ex.(*execution)
	for {
		next := -1
		if schedule != "" {
			next = int(schedule[0] - 'A')
			schedule = schedule[1:]
		} else {
			next = slices.IndexFunc(x.actors, func(a *actor) bool { return a.state == explore.Ready })
		}
		if next < 0 {
			break
		}
		if x.actors[next].state != explore.Ready {
			w.t.Fatalf("actor %c is not ready after %q", 'A'+next, x.trace)
		}
		if _, err := x.Step(ctx, next); err != nil {
			w.t.Fatal(err, x.trace)
		}
	}
	if err := x.End(ctx, true); err != nil {
		w.t.Fatal(err)
	}
	return x
}

// read gives a file's content after a run.
func (w *world) read(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(w.dir + "/" + name)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}
