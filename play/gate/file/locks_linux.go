//go:build amd64 || arm64

package file

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockCall is a call that takes or frees a lock.
type lockCall struct {
	// flock: a lock of flock(2), which belongs to the open file description.
	// Otherwise a record lock, of the process (posix) or the description.
	flock, posix bool
	// kind is F_RDLCK, F_WRLCK or F_UNLCK.
	kind int16
	// block: the caller waits until it has the lock.
	block bool
	// from and to are the bytes of a record lock; to = MaxInt64 is the end.
	from, to int64
}

// The bytes that SQLite locks in a database with a rollback journal, from
// "The SQLite Database File Format", and in the index of a write-ahead log, from
// "WAL-mode File Format".
const (
	sqlitePending  = 0x40000000
	sqliteShared   = sqlitePending + 2
	sqliteEnd      = sqliteShared + 510
	sqliteWALWrite = 120
	sqliteWALRead  = 123
	sqliteWALEnd   = 128
	sqliteIndex    = "-shm"
	sqliteMagic    = "SQLite format 3\x00"
	sqliteHeader   = 100 // bytes
)

// lockOf decodes flock and fcntl; false for a call that fails anyway.
func (s *step) decodeLock() bool {
	n := &s.note
	if s.call.act == actFlock {
		l := &lockCall{flock: true, block: n.args[1]&unix.LOCK_NB == 0}
		switch n.args[1] &^ unix.LOCK_NB & 0xffffffff {
		case unix.LOCK_SH:
			l.kind = unix.F_RDLCK
		case unix.LOCK_EX:
			l.kind = unix.F_WRLCK
		case unix.LOCK_UN:
			l.kind = unix.F_UNLCK
		default:
			return false
		}
		s.lock = l
		return true
	}
	fl, ok := flockOf(s.thread, n.args[2])
	if !ok || fl.Type != unix.F_RDLCK && fl.Type != unix.F_WRLCK && fl.Type != unix.F_UNLCK {
		return false
	}
	cmd := n.args[1] & 0xffffffff
	l := &lockCall{kind: fl.Type, posix: cmd == unix.F_SETLK || cmd == unix.F_SETLKW,
		block: cmd == unix.F_SETLKW || cmd == unix.F_OFD_SETLKW}
	base := int64(0)
	switch fl.Whence {
	case unix.SEEK_CUR:
		base, _ = s.position()
	case unix.SEEK_END:
		base = s.file.size
	}
	l.from, l.to = base+fl.Start, base+fl.Start+fl.Len
	switch {
	case fl.Len == 0:
		l.to = math.MaxInt64
	case fl.Len < 0:
		l.from, l.to = l.to, l.from
	}
	s.lock = l
	return l.from >= 0
}

func (s *step) position() (int64, bool) {
	info, err := s.thread.readFile("fdinfo/" + strconv.Itoa(s.fd))
	if err != nil {
		return 0, false
	}
	pos, err := strconv.ParseInt(string(field(info, "pos")), 10, 64)
	return pos, err == nil
}

// sqlite reports whether this is a lock by which SQLite guards a database, and
// the suffix to take off the file's name for the database's.
func (l *lockCall) sqlite(name string) (suffix string, ok bool) {
	if l == nil || l.flock {
		return "", false
	}
	if strings.HasSuffix(name, sqliteIndex) {
		return sqliteIndex, l.from >= sqliteWALWrite && l.to <= sqliteWALEnd+1
	}
	return "", l.from >= sqlitePending && (l.to <= sqliteEnd || l.to == math.MaxInt64)
}

// pendingOnly reports whether it is about SQLite's pending byte and nothing else.
func (l *lockCall) pendingOnly() bool {
	return !l.flock && l.from == sqlitePending && l.to == sqlitePending+1
}

func (l *lockCall) String() string {
	kind := map[int16]string{unix.F_RDLCK: "shared", unix.F_WRLCK: "exclusive", unix.F_UNLCK: "unlock"}[l.kind]
	s := kind
	switch {
	case l.flock || l.from == 0 && l.to == math.MaxInt64:
	case l.to == math.MaxInt64:
		s += fmt.Sprintf(" [%d:]", l.from)
	case l.from == sqlitePending && l.to == l.from+1:
		s += " pending"
	case l.from == sqlitePending+1 && l.to == l.from+1:
		s += " reserved"
	case l.from == sqlitePending && l.to == l.from+2:
		s += " pending and reserved"
	case l.from == sqliteShared && l.to == sqliteEnd:
		s += " shared pages"
	default:
		s += fmt.Sprintf(" [%d:%d]", l.from, l.to)
	}
	if l.kind != unix.F_UNLCK && !l.block {
		s += ", no wait"
	}
	return s
}

// kernelLock is a line of /proc/locks.
type kernelLock struct {
	family   string // POSIX, OFDLCK or FLOCK
	write    bool
	pid      int
	from, to int64 // to is exclusive
}

// kernelLocks reads the granted locks on a file. In the kernel's list a device
// is that of the file system; where that is an anonymous one (btrfs, overlayfs),
// stat shows another number, and the inode must do.
func kernelLocks(ino inode) ([]kernelLock, error) {
	all, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil, err
	}
	return parseLocks(all, ino), nil
}

func parseLocks(all []byte, ino inode) []kernelLock {
	var locks []kernelLock
	for line := range bytes.Lines(all) {
		f := strings.Fields(string(line))
		// "1: POSIX ADVISORY WRITE 1234 fe:00:5678 0 EOF"; a waiter has "->"
		if len(f) != 8 || f[1] == "->" {
			continue
		}
		id := strings.Split(f[5], ":")
		if len(id) != 3 {
			continue
		}
		major, err1 := strconv.ParseUint(id[0], 16, 32)
		minor, err2 := strconv.ParseUint(id[1], 16, 32)
		number, err3 := strconv.ParseUint(id[2], 10, 64)
		pid, err4 := strconv.Atoi(f[4])
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil || number != ino.ino {
			continue
		}
		sameDev := unix.Mkdev(uint32(major), uint32(minor)) == ino.dev
		if !sameDev && (major != 0 || unix.Major(ino.dev) != 0) {
			continue
		}
		l := kernelLock{family: f[1], write: f[3] == "WRITE", pid: pid, to: math.MaxInt64}
		l.from, _ = strconv.ParseInt(f[6], 10, 64)
		if f[7] != "EOF" {
			if last, err := strconv.ParseInt(f[7], 10, 64); err == nil {
				l.to = last + 1
			}
		}
		locks = append(locks, l)
	}
	return locks
}

// blockers are the processes whose locks keep the process from a record lock; an
// open file description's lock has no process and counts as -1.
func (l *lockCall) blockers(locks []kernelLock, pid int) []int {
	var who []int
	for _, k := range locks {
		if k.family == "FLOCK" || k.family == "POSIX" && k.pid == pid || k.to <= l.from || l.to <= k.from {
			continue
		}
		if l.kind == unix.F_WRLCK || k.write {
			who = append(who, k.pid)
		}
	}
	return who
}

// done reports whether the locks show that the process's call has had its effect.
func (l *lockCall) done(locks []kernelLock, pid int) bool {
	at := l.from
	own := slices.DeleteFunc(slices.Clone(locks), func(k kernelLock) bool {
		return k.family != "POSIX" || k.pid != pid || k.to <= l.from || l.to <= k.from
	})
	if l.kind == unix.F_UNLCK {
		return len(own) == 0
	}
	slices.SortFunc(own, func(a, b kernelLock) int { return int(min(max(a.from-b.from, -1), 1)) })
	for _, k := range own {
		if k.write != (l.kind == unix.F_WRLCK) || k.from > at {
			return false
		}
		at = k.to
	}
	return at >= l.to
}

// confirmTime bounds how long the kernel may take to show an effect. It takes
// some microseconds, unless the processors are very busy.
const confirmTime = 5 * time.Second

// confirm looks again and again until the kernel shows the effect of a call that
// went on there, or the process has ended.
func confirm(p *process, what string, shown func() (bool, error)) error {
	end := time.Now().Add(confirmTime)
	for {
		ok, err := shown()
		if ok || err != nil {
			return err
		}
		// This is the wait between two looks as well.
		if p.exited(0) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: the kernel does not show the effect after %v", what, confirmTime)
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 20_000}, nil)
	}
}

// try makes a lock call without blocking. wait: it would block.
func (g *Gate) tryLock(s *step) (wait bool) {
	if s.lock.posix {
		return g.tryRecord(s)
	}
	fd, errno := s.thread.proc.dup(s.fd)
	if errno != 0 {
		s.result.errno = errno
		return false
	}
	defer unix.Close(fd)
	var err error
	if s.lock.flock {
		err = unix.Flock(fd, int(s.note.args[1]&0xff)|unix.LOCK_NB)
	} else {
		fl := unix.Flock_t{Type: s.lock.kind, Start: s.lock.from}
		if s.lock.to != math.MaxInt64 {
			fl.Len = s.lock.to - s.lock.from
		}
		err = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &fl)
	}
	s.result.errno = errnoOf(err)
	return s.result.errno == unix.EAGAIN
}

// tryRecord is for a lock that only the process itself can take. If the locks of
// others are in the way it waits or fails, and the kernel need not be asked;
// else the call goes on in the kernel and can not block, since nobody else takes
// a step meanwhile.
func (g *Gate) tryRecord(s *step) (wait bool) {
	p := s.thread.proc
	locks, err := kernelLocks(s.file.inode)
	if err != nil {
		g.fail(s, err)
		s.result.errno = unix.ENOLCK
		return false
	}
	if s.lock.kind != unix.F_UNLCK {
		fd, errno := p.dup(s.fd)
		if errno != 0 {
			s.result.errno = errno
			return false
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		_ = unix.Close(fd)
		access := flags & unix.O_ACCMODE
		if err != nil || s.lock.kind == unix.F_WRLCK && access == unix.O_RDONLY || s.lock.kind == unix.F_RDLCK && access == unix.O_WRONLY {
			s.result.errno = unix.EBADF
			return false
		}
		if who := s.lock.blockers(locks, p.pid); len(who) > 0 {
			s.result.errno = unix.EAGAIN
			if s.lock.block && g.closesCycle(p.pid, who) {
				s.result.errno = unix.EDEADLK
				return false
			}
			return true
		}
	}
	s.early = true
	if errno := s.in.l.proceed(s.note.id); errno != 0 {
		return false // killed
	}
	s.result.errno = 0
	if err := confirm(p, s.Label, func() (bool, error) {
		locks, err := kernelLocks(s.file.inode)
		return s.lock.done(locks, p.pid), err
	}); err != nil {
		g.fail(s, err)
	}
	return false
}

// closesCycle reports whether one of the processes waits, perhaps through others,
// for pid. The kernel answers EDEADLK then, but does not know who waits here.
func (g *Gate) closesCycle(pid int, who []int) bool {
	seen := map[int]bool{}
	for len(who) > 0 {
		p := who[0]
		who = who[1:]
		if p == pid {
			return true
		}
		if seen[p] {
			continue
		}
		seen[p] = true
		for _, w := range g.waiters() {
			if w.thread.proc.pid != p || !w.lock.posix || !w.lock.block {
				continue
			}
			if locks, err := kernelLocks(w.file.inode); err == nil {
				who = append(who, w.lock.blockers(locks, p)...)
			}
		}
	}
	return false
}

// held reads the locks that are tied to a descriptor's open file description.
func (t *thread) descriptionLocks(fd int) (flock, ofd bool) {
	info, err := t.readFile("fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return false, false
	}
	for line := range bytes.Lines(info) {
		if !bytes.HasPrefix(line, []byte("lock:")) {
			continue
		}
		flock = flock || bytes.Contains(line, []byte(" FLOCK "))
		ofd = ofd || bytes.Contains(line, []byte(" OFDLCK "))
	}
	return flock, ofd
}

// kcmpFile compares the open file descriptions of two descriptors (linux/kcmp.h).
const kcmpFile = 0

// lastReference reports whether no other descriptor of the programs refers to the
// same open file description, so that closing this one frees its locks. A
// description sent over a socket that nobody has received yet is not seen.
func (g *Gate) lastReference(t *thread, fd int, ino inode) bool {
	for _, p := range g.processes() {
		names, err := os.ReadDir("/proc/" + strconv.Itoa(p.pid) + "/fd")
		if err != nil {
			continue
		}
		for _, e := range names {
			other, err := strconv.Atoi(e.Name())
			if err != nil || p == t.proc && other == fd {
				continue
			}
			var st unix.Stat_t
			if unix.Stat("/proc/"+strconv.Itoa(p.pid)+"/fd/"+e.Name(), &st) != nil || inodeOf(&st) != ino {
				continue
			}
			r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(t.proc.pid), uintptr(p.pid), kcmpFile, uintptr(fd), uintptr(other), 0)
			if errno != 0 || r == 0 {
				return false
			}
		}
	}
	return true
}

func errnoOf(err error) unix.Errno {
	if err == nil {
		return 0
	}
	if errno, ok := err.(unix.Errno); ok {
		return errno
	}
	return unix.EIO
}
