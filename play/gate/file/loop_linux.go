//go:build amd64 || arm64

package file

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/play/gate"
)

// watch begins to answer an instance's notifications.
func (g *Gate) watch(in *Instance) error {
	in.l.wakeHere()
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return errors.Join(err, unix.Close(int(in.l)))
	}
	in.epoll = ep
	err = in.poll(g.stop)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		err = errors.Join(err, errors.New("the gate is closed"))
	}
	if err != nil {
		return errors.Join(err, unix.Close(ep), unix.Close(int(in.l)))
	}
	g.watched = append(g.watched, in)
	g.work.Go(func() { g.loop(in) })
	return nil
}

// poll adds a descriptor to what the instance's loop waits for, beside the
// listener.
func (in *Instance) poll(fd int) error {
	return unix.EpollCtl(in.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// loop answers notifications until no process of the instance is left, or the
// gate is closed.
//
// It waits by poll, with everything but the listener in one epoll set: only poll
// passes on the kernel's wish to wake the gate on the caller's processor, and
// then a call costs half. A blocking receive would do as well, but could not be
// ended.
func (g *Gate) loop(in *Instance) {
	defer close(in.ended)
	defer g.endInstance(in)
	fds := []unix.PollFd{{Fd: int32(in.l), Events: unix.POLLIN}, {Fd: int32(in.epoll), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			g.sink(gate.Event{Kind: gate.Failed, Err: fmt.Errorf("wait for calls of program %d: %w", in.number, err)})
			return
		}
		if fds[0].Revents&unix.POLLIN != 0 {
			in.handling.Store(true)
			if note, errno := in.l.receive(); errno == 0 {
				g.handle(in, &note)
			}
			in.handling.Store(false)
		}
		if fds[1].Revents&unix.POLLIN != 0 && g.others(in) {
			return
		}
		if fds[0].Revents&unix.POLLIN == 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0 {
			return
		}
	}
}

// others handles the ends of processes; true when the gate is being closed.
func (g *Gate) others(in *Instance) (stop bool) {
	events := make([]unix.EpollEvent, 8)
	n, err := unix.EpollWait(in.epoll, events, 0)
	if err != nil {
		return false // interrupted; it will be there the next time
	}
	for _, e := range events[:n] {
		if int(e.Fd) == g.stop {
			return true
		}
		g.processEnded(in, int(e.Fd))
	}
	return false
}

// handle answers one notification at once, or keeps it as a step.
func (g *Gate) handle(in *Instance, n *notification) {
	foreign := n.arch != auditArch || n.nr < 0 || int(n.nr) >= len(g.calls) || g.calls[n.nr] == nil
	if foreign {
		if !in.foreign {
			in.foreign = true
			g.sink(gate.Event{Kind: gate.Failed, Err: &NotCoveredError{Instance: in.number,
				What: fmt.Sprintf("call %d of another machine's interface (a 32-bit program?) by process %d", n.nr, n.pid)}})
		}
		in.l.proceed(n.id)
		return
	}
	c := g.calls[n.nr]
	if !g.holding.Load() || c.act == actNone {
		if c.act == actNone {
			g.threadEnded(int(n.pid))
		}
		in.l.proceed(n.id)
		return
	}
	t, err := g.thread(in, int(n.pid))
	if err != nil {
		if in.l.valid(n.id) && !in.foreign {
			in.foreign = true
			g.sink(gate.Event{Kind: gate.Failed, Err: &NotCoveredError{Instance: in.number,
				What: fmt.Sprintf("what process %d does", n.pid), Err: err}})
		}
		in.l.proceed(n.id)
		return
	}
	s := g.decode(in, t, n, c)
	if s != nil {
		// What the thread has done before has been noted then.
		g.doing.Lock()
		if !g.matters(s) {
			s = nil
		}
		g.doing.Unlock()
	}
	if s == nil || !in.l.valid(n.id) {
		in.l.proceed(n.id)
		return
	}
	if g.collapsed(s) {
		g.performer.do(func() { g.perform(s) })
		g.reply(s)
		return
	}
	g.arrive(s)
}

// arrive makes a step known and says so, unless the thread's last one has not
// been delivered: a call that went on in the kernel lets its thread come back
// before the player has heard of the answer.
func (g *Gate) arrive(s *step) {
	g.mu.Lock()
	g.lastID++
	s.ID = g.lastID
	g.describe(s)
	if l := s.lock; l != nil && !l.block {
		at, failed := s.thread.failed[s.Label]
		s.repeated = failed && at == g.lockChanges-s.thread.proc.lockChanges
	}
	early := s.thread.current != nil
	if early {
		s.thread.next = s
	} else {
		s.thread.current = s
	}
	g.mu.Unlock()
	if !early {
		g.hold(s)
	}
}

func (g *Gate) hold(s *step) {
	g.mu.Lock()
	holding := g.holding.Load()
	if holding {
		g.steps[s.ID] = s
	}
	public := s.Step
	g.mu.Unlock()
	if !holding {
		g.pass(s)
		return
	}
	g.sink(gate.Event{Kind: gate.Held, Conn: s.Conn, Step: &public})
}

// thread finds or makes the record of a thread.
func (g *Gate) thread(in *Instance, tid int) (*thread, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.threads[tid]; t != nil {
		return t, nil
	}
	t, pid, err := openThread(tid)
	if err != nil {
		return nil, err
	}
	p := g.procs[pid]
	if p == nil {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			err = in.poll(pidfd)
		}
		if err != nil {
			t.close()
			return nil, err
		}
		p = &process{pid: pid, in: in, pidfd: pidfd, names: map[int]fdName{}, spans: map[string]bool{}, wrote: map[string]bool{}, entering: map[string]bool{}, committing: map[string]bool{}}
		g.procs[pid] = p
	}
	// The number of a thread comes again in a long run; the count makes it unique.
	g.lastConn++
	t.conn, t.proc = g.lastConn<<32|uint64(tid), p
	g.threads[tid] = t
	return t, nil
}

func (g *Gate) threadEnded(tid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.threads[tid]; t != nil && t.current == nil {
		t.close()
		delete(g.threads, tid)
	}
}

func (g *Gate) processes() []*process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.procs))
}

// processEnded forgets a process whose pidfd says that it has ended.
func (g *Gate) processEnded(in *Instance, pidfd int) {
	g.mu.Lock()
	var ended *process
	for _, p := range g.procs {
		// A child that we are just starting may have kept an old descriptor of
		// this number in the set for a moment, so the process is asked itself.
		if p.pidfd == pidfd && p.in == in && p.exited(0) {
			ended = p
		}
	}
	g.mu.Unlock()
	if ended != nil {
		g.forget(ended)
		g.retry()
	}
}

// forget takes a process and its threads out of the gate.
func (g *Gate) forget(p *process) {
	g.mu.Lock()
	if g.procs[p.pid] != p {
		g.mu.Unlock()
		return
	}
	var lost []*step
	delete(g.procs, p.pid)
	for tid, t := range g.threads {
		if t.proc != p {
			continue
		}
		delete(g.threads, tid)
		t.close()
		for id, s := range g.steps {
			if s.thread == t {
				delete(g.steps, id)
				lost = append(lost, s)
			}
		}
	}
	g.lockChanges++
	_ = unix.EpollCtl(p.in.epoll, unix.EPOLL_CTL_DEL, p.pidfd, nil)
	_ = unix.Close(p.pidfd)
	g.mu.Unlock()
	// One of them may be being made right now, since a lock has become free.
	g.doing.Lock()
	defer g.doing.Unlock()
	for _, s := range lost {
		g.gone(s)
	}
}

// gone says that a step's caller is no more. g.doing is held.
func (g *Gate) gone(s *step) {
	g.drop(s)
	if s.result.fd >= 0 {
		_ = unix.Close(s.result.fd)
		s.result.fd = -1
	}
	g.sink(gate.Event{Kind: gate.Closed, Conn: s.Conn, ID: s.ID})
}

// endInstance forgets what is left of an instance.
func (g *Gate) endInstance(in *Instance) {
	for _, p := range g.processes() {
		if p.in == in {
			g.forget(p)
		}
	}
	in.life.Lock()
	in.over = true
	_ = unix.Close(in.epoll)
	_ = unix.Close(int(in.l))
	in.life.Unlock()
	g.mu.Lock()
	g.watched = slices.DeleteFunc(g.watched, func(w *Instance) bool { return w == in })
	g.mu.Unlock()
	g.retry()
}

// Busy reports whether a trapped call has not been decided about: its thread
// sleeps, and no event tells of it yet.
func (g *Gate) Busy() bool {
	g.mu.Lock()
	watched := slices.Clone(g.watched)
	g.mu.Unlock()
	for _, in := range watched {
		if in.busy() {
			return true
		}
	}
	return false
}

func (in *Instance) busy() bool {
	in.life.Lock()
	defer in.life.Unlock()
	if in.over {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(in.l), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	// Asked in this order: a call is on the listener until it is being handled.
	return err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0 || in.handling.Load()
}

// Abort gives up all that is under way: it kills the processes that have a step
// in the gate, and waits until they, their files and their locks are gone. A
// call that was merely refused would let a program go on and change files later.
func (g *Gate) Abort(ctx context.Context) error {
	g.mu.Lock()
	busy := map[*process]bool{}
	for _, s := range g.steps {
		busy[s.thread.proc] = true
	}
	g.mu.Unlock()
	for p := range busy {
		p.kill()
	}
	for p := range busy {
		for !p.exited(10) {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("end process %d: it is still there: %w", p.pid, err)
			}
		}
		g.forget(p)
	}
	return nil
}

func (p *process) kill() {
	// The only error is that it has ended.
	_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
}

// Close ends the gate and waits for its goroutines. Programs should be stopped
// before: without a gate their file operations fail, so what the gate knows of
// them is killed.
func (g *Gate) Close() error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		g.work.Wait()
		return nil
	}
	g.closed = true
	g.holding.Store(false)
	g.mu.Unlock()
	for _, p := range g.processes() {
		p.kill()
	}
	_, err := unix.Write(g.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	g.work.Wait()
	g.performer.close()
	return errors.Join(err, unix.Close(g.stop))
}
