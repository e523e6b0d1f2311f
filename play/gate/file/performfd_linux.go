//go:build amd64 || arm64

package file

import (
	"fmt"
	"maps"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/play/gate/file/power"
)

func trimSuffix(s, suffix string) string { return strings.TrimSuffix(s, suffix) }

// raw makes a call of the kernel as it is, with some arguments replaced.
func (s *step) raw(args [6]uintptr) {
	r, _, errno := unix.Syscall6(uintptr(s.note.nr), args[0], args[1], args[2], args[3], args[4], args[5])
	s.result.val, s.result.errno = int64(r), errno
	if errno != 0 {
		s.result.val = 0
	}
}

func (s *step) args() [6]uintptr {
	var a [6]uintptr
	for i, v := range s.note.args {
		a[i] = uintptr(v)
	}
	return a
}

// fill makes a call that fills a buffer of the caller's, given by its argument.
func (s *step) fill(args [6]uintptr, buffer int, buf []byte) {
	args[buffer] = uintptr(unsafe.Pointer(&buf[0]))
	s.raw(args)
	if s.result.errno == 0 {
		s.result.errno = errnoOf(s.thread.poke(s.note.args[buffer], buf))
	}
}

// Sizes of struct stat and struct statx.
const (
	statSize  = int(unsafe.Sizeof(unix.Stat_t{}))
	statxSize = int(unsafe.Sizeof(unix.Statx_t{}))
)

// emptyPath is what a call gets that means the descriptor itself.
var emptyPath = [1]byte{}

// performFD makes the calls that have a descriptor and no path.
func (g *Gate) performFD(s *step, fd int) {
	a := s.args()
	a[0] = uintptr(fd)
	if len(s.places) > 0 { // an empty path
		a[s.call.paths[0].str] = uintptr(unsafe.Pointer(&emptyPath[0]))
	}
	switch s.call.act {
	case actTruncate:
		s.raw(a)
		if s.result.errno == 0 {
			g.log(s, power.Op{Kind: power.Truncate, File: g.fileID(s.file.inode, s.file.rel), Size: int64(s.note.args[1])})
		}
	case actAllocate:
		g.performAllocate(s, a)
	case actSync:
		g.performSync(s, a)
	case actChmod:
		s.raw(a)
		if s.result.errno == 0 {
			g.logMode(s, s.file.inode, s.file.rel, s.file.dir(), uint32(s.note.args[1]))
		}
	case actTimes:
		g.withTimes(s, a, 2)
	case actList:
		buf := make([]byte, min(max(s.note.args[2], 1), 1<<20))
		a[1], a[2] = uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf))
		s.raw(a)
		if s.result.errno == 0 {
			s.result.errno = errnoOf(s.thread.poke(s.note.args[1], buf[:s.result.val]))
		}
	case actReadlink:
		s.readlink(a)
	case actAccess:
		s.raw(a)
	case actStat:
		g.performStat(s, a)
	}
}

func (g *Gate) performStat(s *step, a [6]uintptr) {
	switch s.call.name {
	case "statx":
		s.fill(a, 4, make([]byte, statxSize))
	case "newfstatat":
		s.fill(a, 2, make([]byte, statSize))
	default: // fstat, stat, lstat
		s.fill(a, 1, make([]byte, statSize))
	}
}

func (s *step) readlink(a [6]uintptr) {
	buffer := s.call.paths[0].str + 1
	buf := make([]byte, min(max(s.note.args[buffer+1], 1), unix.PathMax))
	a[buffer] = uintptr(unsafe.Pointer(&buf[0]))
	if s.note.args[buffer+1] > uint64(len(buf)) {
		a[buffer+1] = uintptr(len(buf))
	}
	s.raw(a)
	if s.result.errno == 0 {
		s.result.errno = errnoOf(s.thread.poke(s.note.args[buffer], buf[:s.result.val]))
	}
}

// performAllocate makes room in a file. Only a change of its size shows.
func (g *Gate) performAllocate(s *step, a [6]uintptr) {
	s.raw(a)
	if s.result.errno != 0 {
		return
	}
	var st unix.Stat_t
	if unix.Fstatat(s.thread.dir, fdLink(s.fd), &st, 0) == nil && st.Size != s.file.size {
		g.log(s, power.Op{Kind: power.Truncate, File: g.fileID(s.file.inode, s.file.rel), Size: st.Size})
	}
	const keepSize = 1
	if mode := s.note.args[1]; mode&^keepSize != 0 {
		g.fail(s, &NotCoveredError{Instance: s.in.number, What: "fallocate in a mode that moves or clears data", File: s.file.name})
	}
}

// performSync puts the file on the disk if the gate is asked to really do that.
// Nobody but a loss of power sees the difference, and that is played from the
// log; a real fsync costs milliseconds in each run.
func (g *Gate) performSync(s *step, a [6]uintptr) {
	if g.cfg.SyncDisk {
		if s.raw(a); s.result.errno != 0 {
			return
		}
	}
	switch {
	case s.call.name == "sync_file_range":
		// It guarantees nothing about sizes and caches of the disk: no sync.
	case s.file.dir():
		g.log(s, power.Op{Kind: power.SyncDir, Path: s.file.rel})
	default:
		g.log(s, power.Op{Kind: power.SyncFile, File: g.fileID(s.file.inode, s.file.rel)})
	}
}

func (g *Gate) logMode(s *step, ino inode, rel string, dir bool, mode uint32) {
	op := power.Op{Kind: power.Chmod, Path: rel, Mode: mode}
	if !dir {
		op.File = g.fileID(ino, rel)
	}
	g.log(s, op)
}

// withTimes makes utimensat with a copy of the caller's two times.
func (g *Gate) withTimes(s *step, a [6]uintptr, arg int) {
	var times [32]byte
	if s.note.args[arg] != 0 {
		if n, err := s.thread.peek(s.note.args[arg], times[:]); err != nil || n < len(times) {
			s.result.errno = unix.EFAULT
			return
		}
		a[arg] = uintptr(unsafe.Pointer(&times[0]))
	}
	s.raw(a)
}

// performPath makes the calls that have a path, under the caller's identity and
// from where the caller stands.
func (g *Gate) performPath(s *step) {
	var dirs [2]int
	for i, pl := range s.places {
		dirs[i] = unix.AT_FDCWD
		if pl.raw != "" && pl.raw[0] == '/' {
			continue
		}
		var errno unix.Errno
		if pl.dirfd != unix.AT_FDCWD {
			dirs[i], errno = s.thread.proc.dup(int(pl.dirfd))
		} else {
			fd, err := unix.Openat(s.thread.dir, "cwd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			dirs[i], errno = fd, errnoOf(err)
		}
		if errno != 0 {
			s.result.errno = errno
			return
		}
		defer unix.Close(dirs[i])
	}
	id, err := s.thread.identity()
	if err == nil {
		err = g.performer.become(id)
	}
	if err != nil {
		g.fail(s, &NotCoveredError{Instance: s.in.number, What: s.Label, Err: err})
		s.result.errno = unix.EPERM
		return
	}
	defer func() {
		if err := g.performer.become(g.performer.own); err != nil {
			g.fail(s, fmt.Errorf("go back to the gate's own user: %w", err))
		}
	}()
	if s.call.act == actOpen {
		g.performOpen(s, dirs[0])
		return
	}
	g.performEntry(s, dirs)
}

func (g *Gate) performOpen(s *step, dir int) {
	pl := s.places[0]
	there := exists(pl.real)
	how := s.how
	how.Flags |= unix.O_CLOEXEC | unix.O_NOCTTY
	var fd int
	var err error
	if s.call.name == "openat2" {
		fd, err = unix.Openat2(dir, pl.raw, &how)
	} else {
		fd, err = unix.Openat(dir, pl.raw, int(how.Flags), uint32(how.Mode))
	}
	if err != nil {
		s.result.errno = errnoOf(err)
		return
	}
	s.result.fd, s.result.cloexec = fd, s.how.Flags&unix.O_CLOEXEC != 0
	st, err := fstat(fd)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	ino := inodeOf(&st)
	g.mu.Lock()
	name := g.stable(s, 0)
	if !there {
		// The inode's number may be that of a file that is gone, which a
		// descriptor of the same number, closed since, has been open for.
		for _, p := range g.procs {
			maps.DeleteFunc(p.names, func(_ int, n fdName) bool { return n.inode == ino })
		}
		g.inodes[ino] = name
		g.files[ino] = g.newFile()
	}
	s.result.opened = &fdName{inode: ino, name: name}
	g.mu.Unlock()
	switch {
	case !there && s.how.Flags&unix.O_TMPFILE != unix.O_TMPFILE:
		g.log(s, power.Op{Kind: power.Create, File: g.fileID(ino, pl.rel), Path: pl.rel, Mode: st.Mode & 07777})
	case s.how.Flags&unix.O_TRUNC != 0:
		g.log(s, power.Op{Kind: power.Truncate, File: g.fileID(ino, pl.rel)})
	}
}

// performEntry makes the calls on directory entries and on what they name.
func (g *Gate) performEntry(s *step, dirs [2]int) {
	a := s.args()
	paths := make([]*byte, len(s.places))
	for i := range s.places {
		p, err := unix.BytePtrFromString(s.path(i, dirs[i]))
		if err != nil {
			s.result.errno = errnoOf(err)
			return
		}
		paths[i] = p
		a[s.call.paths[i].str] = uintptr(unsafe.Pointer(p))
		if s.call.paths[i].dirfd != none {
			a[s.call.paths[i].dirfd] = uintptr(dirs[i])
		}
	}
	var before unix.Stat_t
	if len(s.places) > 0 {
		_ = unix.Lstat(s.places[0].real, &before)
	}
	switch s.call.act {
	case actStat:
		g.performStat(s, a)
	case actReadlink:
		s.readlink(a)
	case actTimes:
		g.withTimes(s, a, 2)
	case actAccess:
		s.access(dirs[0], paths[0])
	case actSymlink:
		g.performSymlink(s, a)
	default:
		s.raw(a)
	}
	if s.result.errno == 0 {
		g.logEntry(s, &before)
	}
}

// access asks by the effective rights, since only these can be taken on. A
// program whose real user differs from its effective one is not told apart.
func (s *step) access(dir int, p *byte) {
	mode := s.note.args[s.call.paths[0].str+1]
	flags := uint64(unix.AT_EACCESS)
	if s.call.flags != none {
		flags |= s.note.args[s.call.flags]
	}
	_, _, errno := unix.Syscall6(unix.SYS_FACCESSAT2, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(mode), uintptr(flags), 0, 0)
	s.result.errno = errno
}

// path is the string that a call of ours gets. A call without a directory's
// descriptor would start at our own working directory, so the caller's is named
// by our copy of it.
func (s *step) path(i, dir int) string {
	pl := s.places[i]
	if pl.raw == "" || pl.raw[0] == '/' || s.call.paths[i].dirfd != none {
		return pl.raw
	}
	return fmt.Sprintf("/proc/thread-self/fd/%d/%s", dir, pl.raw)
}

func (g *Gate) performSymlink(s *step, a [6]uintptr) {
	target, errno := s.thread.peekString(s.note.args[0])
	if errno != 0 {
		s.result.errno = errno
		return
	}
	p, err := unix.BytePtrFromString(target)
	if err != nil {
		s.result.errno = errnoOf(err)
		return
	}
	a[0] = uintptr(unsafe.Pointer(p))
	s.raw(a)
	if s.result.errno == 0 {
		g.log(s, power.Op{Kind: power.Symlink, Path: s.places[0].rel, To: target})
	}
}

// logEntry logs a call on entries that has succeeded. What leaves the watched
// directories is removed there, what comes into them is not covered.
func (g *Gate) logEntry(s *step, before *unix.Stat_t) {
	first := s.places[0]
	last := s.places[len(s.places)-1]
	var st unix.Stat_t
	switch s.call.act {
	case actMkdir:
		if unix.Lstat(first.real, &st) == nil {
			g.log(s, power.Op{Kind: power.Mkdir, Path: first.rel, Mode: st.Mode & 07777})
		}
	case actUnlink, actRmdir:
		g.log(s, power.Op{Kind: power.Remove, Path: first.rel})
	case actRename:
		g.logRename(s, before)
	case actLink:
		if unix.Lstat(last.real, &st) == nil && last.watched {
			g.log(s, power.Op{Kind: power.Link, File: g.fileID(inodeOf(&st), first.rel), Path: last.rel})
		}
	case actTruncate:
		g.log(s, power.Op{Kind: power.Truncate, File: g.fileID(inodeOf(before), first.rel), Size: int64(s.note.args[1])})
	case actChmod:
		if unix.Stat(first.real, &st) == nil {
			mode := uint32(s.note.args[s.call.paths[0].str+1])
			g.logMode(s, inodeOf(&st), first.rel, st.Mode&unix.S_IFMT == unix.S_IFDIR, mode)
		}
	}
}

func (g *Gate) logRename(s *step, before *unix.Stat_t) {
	from, to := s.places[0], s.places[1]
	op := power.Op{Kind: power.Rename, Path: from.rel, To: to.rel}
	if s.call.name == "renameat2" && s.note.args[4]&unix.RENAME_EXCHANGE != 0 {
		op.Kind = power.Exchange
	}
	switch {
	case from.watched && to.watched:
		if before.Mode&unix.S_IFMT == unix.S_IFREG {
			op.File = g.fileID(inodeOf(before), from.rel)
		}
		g.log(s, op)
	case from.watched:
		g.log(s, power.Op{Kind: power.Remove, Path: from.rel})
	default:
		g.fail(s, &NotCoveredError{Instance: s.in.number, What: "moving a file into the watched directory from " + from.real, File: to.rel})
	}
}
