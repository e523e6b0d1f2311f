//go:build amd64 || arm64

package file

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/play/gate/file/power"
)

// performer makes calls for the programs, one at a time, on a thread of its own
// with a file mode mask, user and groups of its own: these are per thread in the
// kernel, and the gate's other threads must not change theirs.
type performer struct {
	work chan func()
	done chan struct{}
	own  identity
	now  identity
}

func newPerformer() (*performer, error) {
	p := &performer{work: make(chan func()), done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	return p, <-started
}

func (p *performer) run(started chan<- error) {
	defer close(p.done)
	// The thread ends with the goroutine, since it is not unlocked.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		started <- fmt.Errorf("give a thread its own file mode mask: %w", err)
		return
	}
	self, _, err := openThread(unix.Gettid())
	if err == nil {
		p.own, err = self.identity()
		self.close()
	}
	p.now = p.own
	started <- err
	if err != nil {
		return
	}
	for f := range p.work {
		f()
	}
}

// do runs f on the performer's thread and waits for it.
func (p *performer) do(f func()) {
	ready := make(chan struct{})
	p.work <- func() { f(); close(ready) }
	<-ready
}

func (p *performer) close() {
	close(p.work)
	<-p.done
}

// become takes on an identity on the performer's thread. Setting the file system
// user to another one than root also takes the rights of root over files.
func (p *performer) become(id identity) error {
	if id.umask != p.now.umask {
		unix.Umask(id.umask)
		p.now.umask = id.umask
	}
	if id.uid == p.now.uid && id.gid == p.now.gid && slices.Equal(id.groups, p.now.groups) {
		return nil
	}
	// From one user to another by way of our own, which may change groups.
	if err := setIdentity(p.own); err != nil {
		return err
	}
	err := setIdentity(id)
	if err == nil {
		p.now = id
	}
	return err
}

func setIdentity(id identity) error {
	// The functions of package unix would change all threads.
	if _, err := unix.SetfsuidRetUid(id.uid); err != nil {
		return err
	}
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != id.uid {
		return fmt.Errorf("touch files as user %d: not permitted to this user: %w", id.uid, errors.Join(err, unix.EPERM))
	}
	groups := make([]uint32, len(id.groups))
	for i, g := range id.groups {
		groups[i] = uint32(g)
	}
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); errno != 0 {
		if os.Geteuid() == 0 {
			return fmt.Errorf("touch files with groups %v: %w", id.groups, errno)
		}
	}
	if _, err := unix.SetfsgidRetGid(id.gid); err != nil {
		return err
	}
	if now, err := unix.SetfsgidRetGid(-1); err != nil || now != id.gid {
		return fmt.Errorf("touch files as group %d: not permitted to this user: %w", id.gid, errors.Join(err, unix.EPERM))
	}
	return nil
}

// perform makes the call, or lets it go on where only the caller can make it,
// and keeps the result. wait: it is for a lock that can not be had now. It runs
// on the performer's thread.
func (g *Gate) perform(s *step) (wait bool) {
	s.result = result{fd: -1}
	switch s.call.act {
	case actFlock, actFcntl:
		return g.performLock(s)
	case actClose, actExit:
		g.performEnd(s)
		return false
	}
	if len(s.places) > 0 && s.fd < 0 || len(s.places) > 1 {
		g.performPath(s)
		return false
	}
	fd, errno := s.thread.proc.dup(s.fd)
	if errno != 0 {
		s.result.errno = errno
		return false
	}
	defer unix.Close(fd)
	switch s.call.act {
	case actRead:
		g.performRead(s, fd)
	case actWrite:
		g.performWrite(s, fd)
	case actCopy:
		g.performCopy(s, fd)
	default:
		g.performFD(s, fd)
	}
	return false
}

// performLock tries for the lock.
func (g *Gate) performLock(s *step) (wait bool) {
	wait = g.tryLock(s)
	p := s.thread.proc
	g.mu.Lock()
	defer g.mu.Unlock()
	others := g.lockChanges - p.lockChanges
	if wait && !s.lock.block && !s.repeated {
		s.thread.failed[s.Label] = others
		return false
	}
	if !wait && s.result.errno == 0 {
		delete(s.thread.failed, s.Label)
		g.lockChanges++
		p.lockChanges++
		if s.lock.pendingOnly() {
			p.entering[s.file.name] = s.lock.kind == unix.F_RDLCK
			p.committing[s.file.name] = s.lock.kind == unix.F_WRLCK
		}
		if s.lock.kind == unix.F_UNLCK {
			// The span is over for this database when nothing of it is locked.
			if suffix, ok := s.lock.sqlite(s.file.name); ok && g.spanOver(s) {
				delete(p.wrote, "file "+trimSuffix(s.file.name, suffix))
				delete(p.spans, trimSuffix(s.file.name, suffix))
			}
		} else if suffix, ok := s.lock.sqlite(s.file.name); ok {
			p.spans[trimSuffix(s.file.name, suffix)] = true
		}
	}
	return wait
}

// performEnd frees what a close or the end of the process frees, and waits until
// the kernel shows it.
func (g *Gate) performEnd(s *step) {
	p := s.thread.proc
	if s.call.act == actClose {
		// A lock of the description goes with its last descriptor, but only as
		// the caller returns from the kernel, which nobody sees. Freed here, it
		// is free when the step is done.
		flock, ofd := s.thread.descriptionLocks(s.fd)
		if (flock || ofd) && g.lastReference(s.thread, s.fd, s.file.inode) {
			if fd, errno := p.dup(s.fd); errno == 0 {
				if flock {
					_ = unix.Flock(fd, unix.LOCK_UN)
				}
				if ofd {
					_ = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK})
				}
				_ = unix.Close(fd)
			}
		}
	}
	s.early = true
	if errno := s.in.l.proceed(s.note.id); errno != 0 {
		return
	}
	err := confirm(p, s.Label, func() (bool, error) {
		if s.call.act == actExit {
			return false, nil // until the process has ended
		}
		locks, err := kernelLocks(s.file.inode)
		left := slices.ContainsFunc(locks, func(k kernelLock) bool { return k.family == "POSIX" && k.pid == p.pid })
		return !left, err
	})
	if err != nil {
		g.fail(s, err)
	}
	g.mu.Lock()
	g.lockChanges++
	p.lockChanges++
	g.mu.Unlock()
}

// aligned is a buffer that O_DIRECT takes.
func aligned(n int) []byte {
	const align = 4096
	b := make([]byte, n+align)
	off := int(-uintptr(unsafe.Pointer(&b[0])) & (align - 1))
	return b[off : off+n]
}

// chunk bounds the memory for one read or write; a longer one is done in pieces,
// between which nobody else takes a step.
const chunk = 4 << 20

// vectors are the caller's buffers for a read or write.
func (s *step) vectors() ([]vector, unix.Errno) {
	n := &s.note
	switch s.call.name {
	case "read", "write", "pread64", "pwrite64":
		return []vector{{n.args[1], min(n.args[2], 0x7ffff000)}}, 0
	}
	return s.thread.peekVectors(n.args[1], n.args[2])
}

func (g *Gate) performRead(s *step, fd int) {
	vs, errno := s.vectors()
	if errno != 0 {
		s.result.errno = errno
		return
	}
	off, explicit := s.explicit()
	for _, v := range vs {
		for v.size > 0 {
			buf := aligned(int(min(v.size, chunk)))
			var n int
			var err error
			if explicit {
				n, err = unix.Pread(fd, buf, off)
			} else {
				n, err = unix.Read(fd, buf)
			}
			if err == nil {
				err = s.thread.poke(v.base, buf[:n])
			}
			if err != nil {
				if s.result.val == 0 {
					s.result.errno = errnoOf(err)
				}
				return
			}
			s.result.val += int64(n)
			if n < len(buf) {
				return
			}
			off += int64(n)
			v.base += uint64(n)
			v.size -= uint64(n)
		}
	}
}

func (g *Gate) performWrite(s *step, fd int) {
	vs, errno := s.vectors()
	if errno != 0 {
		s.result.errno = errno
		return
	}
	off, explicit := s.explicit()
	before, err := fstat(fd)
	if err != nil {
		s.result.errno = errnoOf(err)
		return
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		s.result.errno = errnoOf(err)
		return
	}
	at := off
	switch {
	case flags&unix.O_APPEND != 0:
		at = before.Size
	case !explicit:
		if at, err = unix.Seek(fd, 0, unix.SEEK_CUR); err != nil {
			s.result.errno = errnoOf(err)
			return
		}
	}
	for _, data := range gather(s.thread, vs) {
		var n int
		if explicit {
			n, err = unix.Pwrite(fd, data, off)
		} else {
			n, err = unix.Write(fd, data)
		}
		if err != nil {
			if s.result.val == 0 {
				s.result.errno = errnoOf(err)
			}
			return
		}
		g.logData(s, power.Op{Kind: power.Write, File: g.fileID(s.file.inode, s.file.rel), Offset: at, Data: data[:n]})
		s.result.val += int64(n)
		at, off = at+int64(n), off+int64(n)
		if n < len(data) {
			return
		}
	}
}

// gather reads the caller's buffers, in pieces of at most a chunk.
func gather(t *thread, vs []vector) [][]byte {
	var pieces [][]byte
	buf := aligned(chunk)
	used := 0
	for _, v := range vs {
		for v.size > 0 {
			if used == len(buf) {
				pieces = append(pieces, buf)
				buf, used = aligned(chunk), 0
			}
			n, err := t.peek(v.base, buf[used:used+int(min(v.size, uint64(len(buf)-used)))])
			if err != nil || n == 0 {
				return append(pieces, buf[:used])
			}
			used += n
			v.base += uint64(n)
			v.size -= uint64(n)
		}
	}
	return append(pieces, buf[:used])
}

// performCopy copies between two files, or from a file to something that does
// not block. copy_file_range and sendfile move the offsets of the descriptions,
// or those in the caller's memory.
func (g *Gate) performCopy(s *step, fd int) {
	fd2, errno := s.thread.proc.dup(s.fd2)
	if errno != 0 {
		s.result.errno = errno
		return
	}
	defer unix.Close(fd2)
	n := &s.note
	load := func(addr uint64) (*int64, error) {
		if addr == 0 {
			return nil, nil
		}
		v, err := s.thread.peekUint64(addr)
		off := int64(v)
		return &off, err
	}
	store := func(addr uint64, off *int64) error {
		if off == nil {
			return nil
		}
		v := uint64(*off)
		return s.thread.poke(addr, unsafe.Slice((*byte)(unsafe.Pointer(&v)), 8))
	}
	var moved int
	var err error
	out := fd2
	if s.call.name == "sendfile" {
		out = fd
	}
	at := int64(-1)
	if s.call.name == "sendfile" {
		var off *int64
		if off, err = load(n.args[2]); err == nil {
			at, _ = unix.Seek(out, 0, unix.SEEK_CUR)
			if moved, err = unix.Sendfile(fd, fd2, off, int(n.args[3])); err == nil {
				err = store(n.args[2], off)
			}
		}
	} else {
		var in, dst *int64
		if in, err = load(n.args[1]); err == nil {
			dst, err = load(n.args[3])
		}
		if err == nil {
			if at, _ = unix.Seek(out, 0, unix.SEEK_CUR); dst != nil {
				at = *dst
			}
			if moved, err = unix.CopyFileRange(fd, in, fd2, dst, int(n.args[4]), int(n.args[5])); err == nil {
				err = errors.Join(store(n.args[1], in), store(n.args[3], dst))
			}
		}
	}
	s.result.val, s.result.errno = int64(moved), errnoOf(err)
	if target := s.target(); err == nil && moved > 0 && target.watched {
		data := make([]byte, moved)
		if k, err := readBack(out, data, at); err != nil || k < moved {
			g.fail(s, fmt.Errorf("read back what was copied: %w", errors.Join(err, unix.EIO)))
		}
		g.logData(s, power.Op{Kind: power.Write, File: g.fileID(target.inode, target.rel), Offset: at, Data: data})
	}
}

// readBack reads from a description that may be open for writing only.
func readBack(fd int, data []byte, at int64) (int, error) {
	r, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(r)
	return unix.Pread(r, data, at)
}
