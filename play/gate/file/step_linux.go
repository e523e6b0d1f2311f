//go:build amd64 || arm64

package file

import (
	"encoding/binary"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/play/gate"
)

// stage is where a held step is.
type stage uint8

const (
	stageHeld     stage = iota
	stageWaiting        // released, and waits for a lock
	stageAnswered       // done, the result is kept
)

// step is a trapped call about a watched file.
type step struct {
	gate.Step
	thread *thread
	in     *Instance
	note   notification
	call   *sysCall
	stage  stage

	places []place
	how    unix.OpenHow // of a call that opens
	// fd is the descriptor that the call is about (-1: none) and file what it
	// is; fd2 and file2 are the other end of a copy.
	fd, fd2     int
	file, file2 ref

	lock *lockCall
	// frees are the names of the files that a close or an exit unlocks.
	frees []string
	// repeated: a try for a lock that has failed before, with no lock having
	// changed hands since.
	repeated bool

	result result
	// early: the call went on in the kernel when the step was released.
	early bool
}

// ref is a file behind a descriptor.
type ref struct {
	watched bool
	rel     string // its path now, relative
	name    string // its name in labels
	inode   inode
	mode    uint32
	size    int64
}

func (r ref) regular() bool { return r.mode&unix.S_IFMT == unix.S_IFREG }
func (r ref) dir() bool     { return r.mode&unix.S_IFMT == unix.S_IFDIR }

// result is what a call is answered.
type result struct {
	val   int64
	errno unix.Errno
	// fd is a descriptor of ours to be given to the caller; -1 is none.
	fd      int
	cloexec bool
	opened  *fdName
}

func fdLink(fd int) string { return "fd/" + strconv.Itoa(fd) }

// fdOf is a descriptor argument; the upper half of the register means nothing.
func fdOf(arg uint64) int { return int(int32(arg)) }

// deleted ends the links of files that have no name any more.
const deleted = " (deleted)"

// ref looks at a descriptor of the thread. It is cheap for what is not watched:
// one readlink.
func (g *Gate) ref(t *thread, fd int) ref {
	if fd < 0 {
		return ref{}
	}
	var buf [unix.PathMax]byte
	link, ok := t.fdLink(fd, buf[:])
	if !ok || link[0] != '/' {
		return ref{} // a socket, a pipe, an event
	}
	rel, ok := g.roots.under(strings.TrimSuffix(link, deleted))
	if !ok {
		return ref{}
	}
	var st unix.Stat_t
	if err := unix.Fstatat(t.dir, fdLink(fd), &st, 0); err != nil {
		return ref{}
	}
	return ref{watched: true, rel: rel, inode: inodeOf(&st), mode: st.Mode, size: st.Size}
}

// decode finds out what a call is about; nil when it is not about a watched file
// or can have no effect that anybody sees.
func (g *Gate) decode(in *Instance, t *thread, n *notification, c *sysCall) *step {
	if c.fd != none && c.act != actCopy {
		// Nearly all calls end here.
		if fd := fdOf(n.args[c.fd]); fd < 0 || !g.ref(t, fd).watched {
			return nil
		}
	}
	s := &step{thread: t, in: in, note: *n, call: c, fd: -1, fd2: -1, result: result{fd: -1}}
	if !g.decodePaths(s) {
		return nil
	}
	if s.call.fd != none {
		s.fd = fdOf(n.args[c.fd])
	}
	if s.fd >= 0 {
		s.file = g.ref(t, s.fd)
		if c.act == actCopy {
			s.fd2 = fdOf(n.args[1])
			if c.name == "copy_file_range" {
				s.fd2 = fdOf(n.args[2])
			}
			s.file2 = g.ref(t, s.fd2)
		}
		if !s.file.watched && !s.file2.watched || !g.fits(s) {
			return nil
		}
	}
	if c.act == actOpen {
		s.how = openHow(t, n, c)
		if !holdable(s.places[0].real) {
			return nil
		}
	}
	return s
}

// decodePaths reads the path arguments; false when none of them is watched.
func (g *Gate) decodePaths(s *step) bool {
	c, n := s.call, &s.note
	if len(c.paths) == 0 {
		return true
	}
	watched := false
	for i, p := range c.paths {
		pl, bad := g.place(s.thread, n, c, p)
		if bad {
			if i == 0 && c.empty && pl.dirfd >= 0 && pl.raw == "" {
				// The descriptor itself is meant.
				s.fd = int(pl.dirfd)
				s.file = g.ref(s.thread, s.fd)
				s.places = append(s.places, pl)
				watched = watched || s.file.watched
				continue
			}
			return false
		}
		watched = watched || pl.watched
		s.places = append(s.places, pl)
	}
	return watched
}

// fits reports whether a call on this kind of file is held.
func (g *Gate) fits(s *step) bool {
	switch s.call.act {
	case actSync, actList, actChmod, actStat, actTimes, actAccess, actReadlink:
		return true
	case actClose:
		return true
	case actCopy:
		return s.file.regular() || s.file2.regular()
	}
	return s.file.regular() || s.file.dir() && s.call.act == actFlock
}

// holdable is false for files that opening may wait for: pipes and devices.
func holdable(real string) bool {
	var st unix.Stat_t
	if err := unix.Stat(real, &st); err != nil {
		return true
	}
	k := st.Mode & unix.S_IFMT
	return k == unix.S_IFREG || k == unix.S_IFDIR || k == unix.S_IFLNK
}

// span is the range of bytes [from, to) of a read or write; to = 0 is unknown.
func (s *step) span() (from, to int64) {
	size, ok := s.count()
	if !ok || size == 0 {
		return 0, 0
	}
	off, ok := s.offset()
	if !ok {
		return 0, 0
	}
	return off, off + size
}

// count is how many bytes the call asks for.
func (s *step) count() (int64, bool) {
	n := &s.note
	switch s.call.name {
	case "read", "write", "pread64", "pwrite64":
		return int64(min(n.args[2], 0x7ffff000)), true
	case "readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2":
		vs, errno := s.thread.peekVectors(n.args[1], n.args[2])
		if errno != 0 {
			return 0, false
		}
		var sum int64
		for _, v := range vs {
			sum += int64(v.size)
		}
		return sum, true
	}
	return 0, false
}

// explicit is the offset that the call names itself.
func (s *step) explicit() (int64, bool) {
	n := &s.note
	switch s.call.name {
	case "pread64", "pwrite64", "preadv", "pwritev":
		return int64(n.args[3]), true
	case "preadv2", "pwritev2":
		return int64(n.args[3]), int64(n.args[3]) != -1
	}
	return 0, false
}

// offset is where the call reads or writes; false when it appends, since then it
// depends on the steps of others.
func (s *step) offset() (int64, bool) {
	info, err := s.thread.readFile("fdinfo/" + strconv.Itoa(s.fd))
	if err != nil {
		return 0, false
	}
	flags, err := strconv.ParseUint(string(field(info, "flags")), 8, 64)
	if err != nil || s.call.act == actWrite && flags&unix.O_APPEND != 0 {
		return 0, false
	}
	if off, ok := s.explicit(); ok {
		return off, true
	}
	pos, err := strconv.ParseInt(string(field(info, "pos")), 10, 64)
	return pos, err == nil
}

// flockOf reads struct flock from the caller.
func flockOf(t *thread, addr uint64) (unix.Flock_t, bool) {
	var raw [32]byte
	if n, err := t.peek(addr, raw[:]); err != nil || n < len(raw) {
		return unix.Flock_t{}, false
	}
	return unix.Flock_t{
		Type:   int16(binary.LittleEndian.Uint16(raw[0:])),
		Whence: int16(binary.LittleEndian.Uint16(raw[2:])),
		Start:  int64(binary.LittleEndian.Uint64(raw[8:])),
		Len:    int64(binary.LittleEndian.Uint64(raw[16:])),
		Pid:    int32(binary.LittleEndian.Uint32(raw[24:])),
	}, true
}
