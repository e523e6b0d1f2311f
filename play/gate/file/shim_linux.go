//go:build amd64 || arm64

package file

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What the shim says on its socket: a listener, or why there is none. The end of
// the stream says that the program has taken over.
const (
	sayListener    = "L"
	sayUnsupported = "U"
	sayExec        = "E"
)

// ShimMain must be the first thing in main of each binary that starts programs
// behind the gate, test binaries included. It returns at once unless args (that
// is, os.Args) ask for the shim; then it installs the filter, hands the listener
// over, becomes the program and never returns.
func ShimMain(args []string) {
	if len(args) < 4 || args[1] != ShimArg {
		return
	}
	sock, err := strconv.Atoi(args[2])
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", ShimArg, err)
		os.Exit(127)
	}
	// Only this thread gets the filter, and exec makes it the program's first.
	runtime.LockOSThread()
	unix.CloseOnExec(sock)
	say := func(text string, fds ...int) {
		if err := unix.Sendmsg(sock, []byte(text), unix.UnixRights(fds...), nil, 0); err != nil {
			fmt.Fprintf(os.Stderr, "%s: tell the gate: %v\n", ShimArg, err)
			os.Exit(127)
		}
	}
	program, argv, env := args[3], args[3:], os.Environ()
	l, failure := install()
	if failure != nil {
		say(fmt.Sprintf("%s%d %s", sayUnsupported, failure.Err, failure.Reason))
		os.Exit(127)
	}
	say(sayListener, int(l))
	err = syscall.Exec(program, argv, env)
	say(sayExec + err.Error())
	os.Exit(127)
}

// Instance is one program behind the gate. Its methods are for the one that
// starts it.
type Instance struct {
	gate    *Gate
	number  int
	command []string
	child   *os.File
	ours    *net.UnixConn
	l       listener
	epoll   int
	// foreign: a process that can not be looked at has been reported.
	foreign bool
	// handling: a call has been received and is not decided about.
	handling atomic.Bool
	// life guards the listener's number against its end.
	life  sync.Mutex
	over  bool
	ended chan struct{}
}

// Add prepares a program. Its Command and Files go into an exec.Cmd (or
// app.Options); after that has started, Started must be called, also when the
// start failed. command[0] is looked up in PATH; one with a slash is relative to
// the working directory that the program is started in. fd is the number that
// the first of Files will have in the program: 3 plus the number of other extra
// files.
//
// The error is a *[StartError].
func (g *Gate) Add(command []string, fd int) (*Instance, error) {
	if len(command) == 0 {
		return nil, &StartError{Err: errors.New("the command is empty")}
	}
	program := command[0]
	if !strings.Contains(program, "/") {
		found, err := exec.LookPath(program)
		if err != nil {
			return nil, &StartError{Command: command, Err: err}
		}
		program = found
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, &StartError{Command: command, Err: err}
	}
	child, ours := os.NewFile(uintptr(pair[0]), "shim"), os.NewFile(uintptr(pair[1]), "gate")
	conn, err := net.FileConn(ours)
	err = errors.Join(err, ours.Close())
	if err != nil {
		return nil, &StartError{Command: command, Err: errors.Join(err, child.Close())}
	}
	g.mu.Lock()
	number := g.instances
	g.instances++
	g.mu.Unlock()
	words := append([]string{"/proc/self/exe", ShimArg, strconv.Itoa(fd), program}, command[1:]...)
	return &Instance{gate: g, number: number, command: words, child: child,
		ours: conn.(*net.UnixConn), l: -1, ended: make(chan struct{})}, nil
}

// Number is the instance's number in steps, from 0.
func (in *Instance) Number() int { return in.number }

// Command is the program with the shim before it.
func (in *Instance) Command() []string { return in.command }

// Files are the extra files that the command needs.
func (in *Instance) Files() []*os.File { return []*os.File{in.child} }

// Ended is closed when no process of the program is left.
func (in *Instance) Ended() <-chan struct{} { return in.ended }

// Started waits until the program has taken over from the shim, which takes
// some milliseconds, and holds its calls from then on. started is the error of
// the start itself, if any. The error is an *[UnsupportedError] where the kernel
// or a container forbids the filter, else a *[StartError].
func (in *Instance) Started(ctx context.Context, started error) error {
	defer in.ours.Close()
	if err := errors.Join(started, in.child.Close()); err != nil {
		return &StartError{Command: in.command[3:], Err: err}
	}
	stop := context.AfterFunc(ctx, func() { _ = in.ours.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	text, fd, err := in.hear()
	if err == nil && !(text == sayListener && fd >= 0) {
		err = in.shimError(text)
	}
	if err == nil {
		in.l = listener(fd)
		if err = in.gate.watch(in); err == nil {
			if text, _, err = in.hear(); err == nil && text != "" {
				err = in.shimError(text)
			}
		}
	}
	if un, ok := errors.AsType[*UnsupportedError](err); ok {
		return un
	}
	if err != nil {
		return &StartError{Command: in.command[3:], Err: errors.Join(err, ctx.Err())}
	}
	return nil
}

// hear reads one message of the shim; empty at the end of the stream.
func (in *Instance) hear() (text string, fd int, err error) {
	buf, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, on, _, _, err := in.ours.ReadMsgUnix(buf, oob)
	if n == 0 || err != nil {
		if errors.Is(err, unix.ECONNRESET) || n == 0 && !os.IsTimeout(err) {
			err = nil
		}
		return "", -1, err
	}
	fd = -1
	if msgs, err := unix.ParseSocketControlMessage(oob[:on]); err == nil && len(msgs) > 0 {
		if fds, err := unix.ParseUnixRights(&msgs[0]); err == nil && len(fds) > 0 {
			fd = fds[0]
			unix.CloseOnExec(fd)
		}
	}
	return string(buf[:n]), fd, nil
}

func (in *Instance) shimError(text string) error {
	if rest, ok := strings.CutPrefix(text, sayUnsupported); ok {
		number, reason, _ := strings.Cut(rest, " ")
		if n, err := strconv.Atoi(number); err == nil {
			return &UnsupportedError{Reason: reason, Err: unix.Errno(n)}
		}
		return &UnsupportedError{Reason: reason}
	}
	if rest, ok := strings.CutPrefix(text, sayExec); ok {
		return errors.New(rest)
	}
	return errors.New("the shim ended before it handed its listener over; does main call file.ShimMain(os.Args) first?")
}
