//go:build amd64 || arm64

package file

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// process is a process of a program.
type process struct {
	pid int
	in  *Instance
	// pidfd becomes readable when all its threads have ended, and its files are
	// closed. -1 without one.
	pidfd int
	// names are what its descriptors were opened as, see fdName.
	names map[int]fdName
	// spans are the SQLite databases that it holds locks of, and wrote their
	// content objects if it has written to them since it took its lock.
	spans, wrote map[string]bool
	// entering are the databases of which it holds the pending lock for a moment,
	// to take the shared lock.
	entering map[string]bool
	// committing are those of which it has taken the pending lock to write.
	committing map[string]bool
	// lockChanges counts the locks that it has taken and freed.
	lockChanges uint64
}

// inode identifies a file while it exists.
type inode struct{ dev, ino uint64 }

// fdName is the name that a file was opened under. It stays when the file is
// renamed by somebody else: what a step is called must not depend on steps that
// it does not conflict with.
type fdName struct {
	inode inode
	name  string
}

// thread is a thread of a process. dir keeps /proc/TID open: a lookup below it
// fails once the thread has ended, even if its number is given to another one.
type thread struct {
	tid  int
	conn uint64
	dir  int
	fds  int // /proc/TID/fd, for the look that nearly every call needs
	proc *process
	// failed are its tries for a lock that failed, with the count of changes of
	// locks by others at that time.
	failed map[string]uint64
	// current is its step in the gate, next one that came before the answer to
	// current was delivered.
	current *step
	next    *step
}

func (t *thread) close() {
	_ = unix.Close(t.dir)
	_ = unix.Close(t.fds)
}

// readFile reads a small file below the thread's /proc directory.
func (t *thread) readFile(name string) ([]byte, error) {
	fd, err := unix.Openat(t.dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var all []byte
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, buf)
		if n > 0 {
			all = append(all, buf[:n]...)
		}
		if err != nil || n <= 0 {
			return all, err
		}
	}
}

// fdLink reads what a descriptor leads to.
func (t *thread) fdLink(fd int, buf []byte) (string, bool) {
	n, err := unix.Readlinkat(t.fds, strconv.Itoa(fd), buf)
	if err != nil || n == len(buf) {
		return "", false
	}
	return string(buf[:n]), true
}

// link reads a symbolic link below the thread's /proc directory.
func (t *thread) link(name string, buf []byte) (string, bool) {
	n, err := unix.Readlinkat(t.dir, name, buf)
	if err != nil || n == len(buf) {
		return "", false
	}
	return string(buf[:n]), true
}

// field finds "name:" at the beginning of a line of a status file.
func field(status []byte, name string) []byte {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			return bytes.TrimSpace(rest)
		}
	}
	return nil
}

// openThread opens a thread's /proc directory and finds its process.
func openThread(tid int) (t *thread, pid int, err error) {
	t = &thread{tid: tid, dir: -1, fds: -1, failed: map[string]uint64{}}
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	if t.dir, err = unix.Open("/proc/"+strconv.Itoa(tid), flags, 0); err != nil {
		return nil, 0, err
	}
	if t.fds, err = unix.Openat(t.dir, "fd", flags, 0); err != nil {
		return nil, 0, errors.Join(err, unix.Close(t.dir))
	}
	status, err := t.readFile("status")
	if err == nil {
		pid, err = strconv.Atoi(string(field(status, "Tgid")))
	}
	if err != nil {
		t.close()
		return nil, 0, err
	}
	return t, pid, nil
}

// identity is under which rights a thread touches files.
type identity struct {
	uid, gid int
	groups   []int
	umask    int
}

func (t *thread) identity() (identity, error) {
	status, err := t.readFile("status")
	if err != nil {
		return identity{}, err
	}
	var id identity
	last := func(name string) (int, error) {
		f := bytes.Fields(field(status, name))
		if len(f) != 4 {
			return 0, fmt.Errorf("/proc/%d/status has no %s", t.tid, name)
		}
		return strconv.Atoi(string(f[3])) // real, effective, saved, file system
	}
	var errs [3]error
	id.uid, errs[0] = last("Uid")
	id.gid, errs[1] = last("Gid")
	mask, err := strconv.ParseInt(string(field(status, "Umask")), 8, 32)
	id.umask, errs[2] = int(mask), err
	for _, g := range bytes.Fields(field(status, "Groups")) {
		n, err := strconv.Atoi(string(g))
		if err != nil {
			return id, err
		}
		id.groups = append(id.groups, n)
	}
	return id, errors.Join(errs[:]...)
}

// peek reads memory of the thread's process; fewer bytes than wanted when the
// rest is not mapped.
func (t *thread) peek(addr uint64, buf []byte) (int, error) {
	if len(buf) == 0 {
		return 0, nil
	}
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: len(buf)}}
	return unix.ProcessVMReadv(t.tid, local, remote, 0)
}

// poke writes memory of the thread's process, all or an error.
func (t *thread) poke(addr uint64, buf []byte) error {
	if len(buf) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: len(buf)}}
	n, err := unix.ProcessVMWritev(t.tid, local, remote, 0)
	if err == nil && n < len(buf) {
		err = unix.EFAULT
	}
	return err
}

// peekString reads a string that ends with a zero byte. It reads up to the end
// of a page at a time: the next one may not be there.
func (t *thread) peekString(addr uint64) (string, unix.Errno) {
	if addr == 0 {
		return "", unix.EFAULT
	}
	var out []byte
	var chunk [256]byte
	for len(out) < unix.PathMax {
		n := min(len(chunk), 4096-int(addr&4095))
		n, err := t.peek(addr, chunk[:n])
		if err != nil || n == 0 {
			return "", unix.EFAULT
		}
		if i := bytes.IndexByte(chunk[:n], 0); i >= 0 {
			return string(append(out, chunk[:i]...)), 0
		}
		out = append(out, chunk[:n]...)
		addr += uint64(n)
	}
	return "", unix.ENAMETOOLONG
}

func (t *thread) peekUint64(addr uint64) (uint64, error) {
	var v uint64
	n, err := t.peek(addr, unsafe.Slice((*byte)(unsafe.Pointer(&v)), 8))
	if err == nil && n < 8 {
		err = unix.EFAULT
	}
	return v, err
}

// vector is struct iovec in the caller's memory.
type vector struct{ base, size uint64 }

func (t *thread) peekVectors(addr uint64, count uint64) ([]vector, unix.Errno) {
	if count > 1024 {
		return nil, unix.EINVAL
	}
	vs := make([]vector, count)
	if count == 0 {
		return vs, 0
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&vs[0])), int(count)*16)
	if n, err := t.peek(addr, raw); err != nil || n < len(raw) {
		return nil, unix.EFAULT
	}
	return vs, 0
}

// dup takes a copy of a descriptor of the process: the same open file
// description, with its offset, flags and locks. It must not be kept: while it
// is open, closing the original frees no lock.
func (p *process) dup(fd int) (int, unix.Errno) {
	if p.pidfd < 0 {
		return -1, unix.ENOSYS
	}
	d, err := unix.PidfdGetfd(p.pidfd, fd, 0)
	if err != nil {
		if errno, ok := err.(unix.Errno); ok {
			return -1, errno
		}
		return -1, unix.EBADF
	}
	return d, 0
}

func fstat(fd int) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return st, err
}

func inodeOf(st *unix.Stat_t) inode { return inode{uint64(st.Dev), st.Ino} }

// exited waits for the process to end, for at most ms milliseconds.
func (p *process) exited(ms int) bool {
	if p.pidfd < 0 {
		_, err := os.Stat("/proc/" + strconv.Itoa(p.pid))
		return err != nil
	}
	fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, ms)
		if err != unix.EINTR {
			return n > 0
		}
	}
}
