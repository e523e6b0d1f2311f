package app

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Look is one look at all threads of an application.
type Look struct {
	// Sleeping: every thread was asleep, waiting for something that can be
	// interrupted. A thread that runs, could run, or waits for a disk is not.
	Sleeping bool
	// CPU is the time that all threads have spent on a processor, in
	// nanoseconds.
	CPU uint64
	// Threads is their number.
	Threads int
	// mark sums a hash of (thread, time on a processor, times put on one) over
	// all threads; a sum, since the order in which they are found means nothing.
	mark uint64
}

// SameAs reports whether the application was asleep at both looks and no thread
// ran between them. Bytes that are on their way to it in the kernel do not show;
// the caller must know that none are.
func (l Look) SameAs(m Look) bool { return l.Sleeping && m.Sleeping && l == m }

// IdleError says that the kernel does not tell what a look needs.
type IdleError struct {
	Pid int
	Err error
}

func (e *IdleError) Error() string {
	s := fmt.Sprintf("look at the threads of process %d: %v", e.Pid, e.Err)
	if errors.Is(e.Err, os.ErrNotExist) {
		s += "; a kernel with CONFIG_SCHED_INFO and CONFIG_PROC_CHILDREN is needed"
	}
	return s
}

func (e *IdleError) Unwrap() error { return e.Err }

// Idle looks at every thread of the command's process and of its descendants.
// The error is an *[ExitError] when the process has ended, else an *[IdleError].
func (p *Process) Idle() (Look, error) {
	l, err := p.looker.look()
	if err == nil {
		return l, nil
	}
	if errors.Is(err, errGone) {
		// The threads are gone a moment before the process is reaped.
		<-p.exited
		return Look{}, p.ExitError()
	}
	return Look{}, &IdleError{Pid: p.Pid(), Err: err}
}

// errGone: the root process has no more threads.
var errGone = errors.New("the process has ended")

// looker reads /proc. It keeps the files of every known thread open, since
// reading one again costs 1 to 3 µs and opening it costs more than that.
//
// A look is not atomic: threads are read one after the other. What makes two
// equal looks a proof is the order of reading. Of each thread first the counters
// are read and then the state, so a thread that is asleep and whose counters are
// the same at the next look was asleep in between. And the lists of threads and
// of children are read after all counters: a thread that is not in the list was
// started later, by a thread that is in it and whose counters then differ. Were
// the list read first, a thread started between the list and its starter's
// counters would be missed at this look and at the next.
type looker struct {
	root int

	mu     sync.Mutex
	closed bool
	procs  map[int]*proc
	buf    [512]byte
	seed   maphash.Seed
}

// maxRounds bounds one look at an application that starts threads or processes
// faster than they can be read. It is not asleep then.
const maxRounds = 50

// proc is a process that is looked at, with its threads by number.
type proc struct {
	dir     *os.File // /proc/PID/task
	threads map[int]*thread
}

type thread struct {
	sched, stat, children *os.File
	// read: the rest is from the look that is under way.
	read    bool
	ns, run uint64
	asleep  bool
	// zombie: it has ended and is still listed until its parent asks for it.
	// A zombie is kept, or it would be new, again and again.
	zombie bool
}

func (k *looker) look() (Look, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return Look{}, errGone
	}
	if k.procs == nil {
		k.procs, k.seed = map[int]*proc{}, maphash.MakeSeed()
		if err := k.add(k.root); err != nil {
			return Look{}, err
		}
	}
	for _, p := range k.procs {
		for _, t := range p.threads {
			t.read = false
		}
	}
	found := true
	for round := 0; found && round < maxRounds; round++ {
		if err := k.readAll(); err != nil {
			return Look{}, err
		}
		var err error
		if found, err = k.findNew(); err != nil {
			return Look{}, err
		}
	}
	if !k.rootRuns() {
		return Look{}, errGone
	}
	return k.sum(!found), nil
}

func (k *looker) rootRuns() bool {
	p := k.procs[k.root]
	if p == nil {
		return false
	}
	for _, t := range p.threads {
		if !t.zombie {
			return true
		}
	}
	return false
}

// sum is the look over what has been read; complete is false when some threads
// have not been.
func (k *looker) sum(complete bool) Look {
	l := Look{Sleeping: complete}
	for _, p := range k.procs {
		for tid, t := range p.threads {
			l.Sleeping = l.Sleeping && t.asleep
			l.CPU += t.ns
			l.Threads++
			l.mark += maphash.Comparable(k.seed, [3]uint64{uint64(tid), t.ns, t.run})
		}
	}
	return l
}

// readAll reads the counters and the state of every thread that has not been
// read in this look, and forgets threads and processes that have ended.
func (k *looker) readAll() error {
	for pid, p := range k.procs {
		for tid, t := range p.threads {
			if t.read {
				continue
			}
			alive, err := k.readThread(t)
			if err != nil {
				return err
			}
			if !alive {
				t.close()
				delete(p.threads, tid)
			}
		}
		if len(p.threads) == 0 {
			p.close()
			delete(k.procs, pid)
		}
	}
	return nil
}

func (k *looker) readThread(t *thread) (alive bool, err error) {
	b, err := k.pread(t.sched)
	if b == nil {
		return false, err
	}
	// "ns on a processor, ns waiting for one, times put on one"
	f := bytes.Fields(b)
	if len(f) < 3 {
		return false, fmt.Errorf("%s reads %q, not three numbers", t.sched.Name(), b)
	}
	if t.ns, err = strconv.ParseUint(string(f[0]), 10, 64); err != nil {
		return false, fmt.Errorf("%s: %w", t.sched.Name(), err)
	}
	if t.run, err = strconv.ParseUint(string(f[2]), 10, 64); err != nil {
		return false, fmt.Errorf("%s: %w", t.sched.Name(), err)
	}
	if b, err = k.pread(t.stat); b == nil {
		return false, err
	}
	// "pid (name) S ...", where the name may itself have blanks and brackets
	i := bytes.LastIndexByte(b, ')')
	if i < 0 || i+2 >= len(b) {
		return false, fmt.Errorf("%s reads %q, without a state", t.stat.Name(), b)
	}
	switch b[i+2] {
	case 'X':
		return false, nil
	case 'Z':
		t.zombie, t.asleep = true, true
	case 'S', 'I', 'T', 't':
		t.asleep = true
	default:
		t.asleep = false
	}
	t.read = true
	return true, nil
}

// findNew reads the lists of threads and children, and adds what is new.
func (k *looker) findNew() (found bool, err error) {
	for _, p := range k.procs {
		tids, err := k.list(p.dir)
		if err != nil {
			return false, err
		}
		for _, tid := range tids {
			if p.threads[tid] != nil {
				continue
			}
			t, err := openThread(p.dir.Name(), tid)
			if err != nil {
				return false, err
			}
			if t != nil {
				p.threads[tid] = t
				found = true
			}
		}
	}
	for _, p := range k.procs {
		for _, t := range p.threads {
			pids, err := k.readChildren(t.children)
			if err != nil {
				return false, err
			}
			for _, pid := range pids {
				if k.procs[pid] == nil {
					if err := k.add(pid); err != nil {
						return false, err
					}
					found = found || k.procs[pid] != nil
				}
			}
		}
	}
	return found, nil
}

// add begins to look at a process. One that has ended is passed over.
func (k *looker) add(pid int) error {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	p := &proc{dir: dir, threads: map[int]*thread{}}
	tids, err := k.list(dir)
	for _, tid := range tids {
		var t *thread
		if t, err = openThread(dir.Name(), tid); err != nil {
			break
		}
		if t != nil {
			p.threads[tid] = t
		}
	}
	if err != nil || len(p.threads) == 0 {
		p.close()
		return err
	}
	k.procs[pid] = p
	return nil
}

// list reads the numbers of the threads in a task directory.
func (k *looker) list(dir *os.File) ([]int, error) {
	if _, err := dir.Seek(0, 0); err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tids := make([]int, 0, len(names))
	for _, n := range names {
		if tid, err := strconv.Atoi(n); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, nil
}

// openThread opens a thread's files; nil when it has ended.
func openThread(dir string, tid int) (*thread, error) {
	t := &thread{}
	base := fmt.Sprintf("%s/%d/", dir, tid)
	for name, f := range map[string]**os.File{"schedstat": &t.sched, "stat": &t.stat, "children": &t.children} {
		var err error
		if *f, err = os.Open(base + name); err == nil {
			continue
		}
		t.close()
		if _, statErr := os.Stat(base); gone(err) && gone(statErr) {
			return nil, nil
		}
		return nil, err
	}
	return t, nil
}

// readChildren reads a list of process ids, of any length; the kernel gives it in
// pieces that end between two of them.
func (k *looker) readChildren(f *os.File) ([]int, error) {
	b, err := k.pread(f)
	if len(b) == 0 {
		return nil, err // nearly always
	}
	if _, err = f.Seek(0, 0); err != nil {
		return nil, err
	}
	if b, err = io.ReadAll(f); err != nil && !gone(err) {
		return nil, err
	}
	var pids []int
	for _, s := range bytes.Fields(b) {
		pid, err := strconv.Atoi(string(s))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// pread reads a small file from its beginning; nil when its thread has ended.
func (k *looker) pread(f *os.File) ([]byte, error) {
	n, err := unix.Pread(int(f.Fd()), k.buf[:], 0)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return k.buf[:n], nil
}

func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

func (t *thread) close() {
	for _, f := range []*os.File{t.sched, t.stat, t.children} {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (p *proc) close() {
	for _, t := range p.threads {
		t.close()
	}
	_ = p.dir.Close()
}

// close gives the files back; later looks say that the process is gone.
func (k *looker) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, p := range k.procs {
		p.close()
	}
	k.procs = nil
}
