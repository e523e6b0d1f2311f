package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// defaultGrace is how long an application may take to stop by itself.
	defaultGrace = 2 * time.Second
	// killWait is how long the kernel may take to end a killed group. Only a
	// process in an uninterruptible wait takes longer than some milliseconds.
	killWait = 10 * time.Second
	// pipeWait is how long output is still read after the group has ended: a
	// process outside of the group may hold the other end open for ever.
	pipeWait = time.Second
)

// Options tell how to run one instance of the application.
type Options struct {
	// Command is the program and its arguments. No shell is involved.
	Command []string
	// Dir is the working directory; empty is the caller's.
	Dir string
	// Env are "KEY=value" settings on top of the caller's environment.
	Env []string
	// Instance is the number of the instance, from 0; it is in messages and in
	// the prefix of the output.
	Instance int
	// Addr is the host:port on which the application is told to listen.
	Addr string
	// Output gets each line of output with the prefix "app 0 | "; nil is
	// nowhere. It must be safe for concurrent use when shared by instances. The
	// last 100 lines are kept for messages in any case.
	Output io.Writer
	// Stdout, if not nil, gets the standard output, whole and without a prefix.
	// Output then gets the standard error only.
	Stdout io.Writer
	// Files are further open files of the program, from descriptor 3 on.
	Files []*os.File
	// Grace is how long Stop waits between SIGTERM and SIGKILL; 0 is 2 s.
	Grace time.Duration
	// Logger gets starts and stops at debug level; nil is nowhere.
	Logger *slog.Logger
}

// Process is one running instance. Its methods are safe for concurrent use.
type Process struct {
	opts   Options
	cmd    *exec.Cmd
	tail   *tail
	log    *slog.Logger
	exited chan struct{}
	looker looker

	// mu guards reaped. The process id is ours until it has been reaped; a
	// signal sent later could hit a stranger that was given the same number.
	mu     sync.Mutex
	reaped bool
	// err is what Wait returned. It is written before exited is closed.
	err error
}

// StartError says that an application's command could not be run at all.
type StartError struct {
	Command []string
	Dir     string
	Err     error
}

func (e *StartError) Error() string {
	s := fmt.Sprintf("start application %s: %v", strings.Join(e.Command, " "), e.Err)
	if e.Dir != "" {
		s = fmt.Sprintf("start application %s in %s: %v", strings.Join(e.Command, " "), e.Dir, e.Err)
	}
	if errors.Is(e.Err, exec.ErrNotFound) || errors.Is(e.Err, os.ErrNotExist) {
		s += "; check application.command and application.dir, or build the program first"
	}
	return s
}

func (e *StartError) Unwrap() error { return e.Err }

// ExitError says that the application ended, how, and what it said last.
type ExitError struct {
	Command  []string
	Instance int
	// Err is what became of it (*exec.ExitError); nil is exit status 0.
	Err error
	// Tail are its last lines of output, 100 at most.
	Tail []string
}

func (e *ExitError) Error() string {
	how := "exit status 0"
	if e.Err != nil {
		how = e.Err.Error()
	}
	return fmt.Sprintf("application %s (instance %d) ended with %s%s",
		strings.Join(e.Command, " "), e.Instance, how, quoteTail(e.Tail, 20))
}

func (e *ExitError) Unwrap() error { return e.Err }

// Start runs the command in a process group of its own and returns as soon as
// it runs; whether it is ready is another question ([Process.Ready]). ctx bounds
// the start only: the process lives until it ends by itself, Stop, Kill or the
// end of the calling process. The caller must call Stop, which also waits for
// the goroutines. The error is a *[StartError].
func Start(ctx context.Context, o Options) (*Process, error) {
	if len(o.Command) == 0 {
		return nil, &StartError{Dir: o.Dir, Err: errors.New("the command is empty")}
	}
	if err := ctx.Err(); err != nil {
		return nil, &StartError{Command: o.Command, Dir: o.Dir, Err: err}
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	p := &Process{opts: o, log: o.Logger, exited: make(chan struct{})}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.tail = &tail{prefix: fmt.Sprintf("app %d | ", o.Instance), out: o.Output}
	p.cmd = command(o.Command, o.Dir, o.Env, p.tail)
	p.cmd.ExtraFiles = o.Files
	if o.Stdout != nil {
		p.cmd.Stdout = o.Stdout
	}
	started := make(chan error)
	go p.own(started)
	if err := <-started; err != nil {
		return nil, &StartError{Command: o.Command, Dir: o.Dir, Err: err}
	}
	p.looker.root = p.cmd.Process.Pid
	p.log.Debug("application started", "command", o.Command, "instance", o.Instance, "pid", p.cmd.Process.Pid)
	return p, nil
}

// command prepares a program that runs in its own process group, dies with the
// thread that starts it and writes both its outputs, in order, to out.
func command(words []string, dir string, env []string, out io.Writer) *exec.Cmd {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = pipeWait
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// own starts the process and waits for its end. It keeps its thread from first
// to last: the parent death signal is sent when the thread that forked ends, not
// when the process does, and the runtime is free to end a thread.
func (p *Process) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.wait()
	p.tail.flush()
	p.looker.close()
	p.log.Debug("application ended", "instance", p.opts.Instance, "pid", p.cmd.Process.Pid, "error", p.err)
	close(p.exited)
}

// wait waits for the command's process, kills what is left of its group, and
// only then reaps it: as long as the leader is a zombie, the group's number can
// not be given to anybody else.
func (p *Process) wait() error {
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	p.signal(unix.SIGKILL)
	p.mu.Lock()
	p.reaped = true
	p.mu.Unlock()
	err := p.cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // status 0, and a process outside of the group has our pipe
	}
	return err
}

// signal sends to the whole group, unless the leader has been reaped.
func (p *Process) signal(sig unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		// The only error is ESRCH, which says that nobody is left.
		_ = unix.Kill(-p.cmd.Process.Pid, sig)
	}
}

// Pid is the process id of the command, which is also its group's.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Addr is the host:port that the application was told to listen on.
func (p *Process) Addr() string { return p.opts.Addr }

// Exited is closed when the command's process has ended and its output is read.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// ExitError tells how the process ended; nil while it runs.
func (p *Process) ExitError() *ExitError {
	select {
	case <-p.exited:
		return &ExitError{Command: p.opts.Command, Instance: p.opts.Instance, Err: p.err, Tail: p.tail.last()}
	default:
		return nil
	}
}

// Tail returns the last lines of output so far, 100 at most.
func (p *Process) Tail() []string { return p.tail.last() }

// Kill sends SIGKILL to the group and does not wait.
func (p *Process) Kill() { p.signal(unix.SIGKILL) }

// Stop ends the application and waits until it is gone: SIGTERM to the group,
// and SIGKILL when the grace time is over or ctx ends. How the program exits is
// no error of Stop. An error means that the kernel could not end it within 10 s.
// Stop may be called any number of times, also after the process has ended.
func (p *Process) Stop(ctx context.Context) error {
	p.signal(unix.SIGTERM)
	grace := time.NewTimer(p.opts.Grace)
	defer grace.Stop()
	select {
	case <-p.exited:
		return nil
	case <-grace.C:
	case <-ctx.Done():
	}
	p.log.Debug("application does not stop, killing it", "instance", p.opts.Instance, "grace", p.opts.Grace)
	p.Kill()
	last := time.NewTimer(killWait)
	defer last.Stop()
	select {
	case <-p.exited:
		return nil
	case <-last.C:
		return fmt.Errorf("stop application %s (process %d): it is still there %v after SIGKILL; look for a process in state D",
			strings.Join(p.opts.Command, " "), p.Pid(), killWait)
	}
}
