//go:build amd64 || arm64

package file

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// matters decides about calls on watched files that can have no effect that
// another actor sees; they pass.
func (g *Gate) matters(s *step) bool {
	switch s.call.act {
	case actFlock, actFcntl:
		return s.decodeLock()
	case actMap:
		if strings.HasSuffix(s.file.rel, sqliteIndex) {
			// The index of a write-ahead log; its locks are the steps.
			return false
		}
		g.fail(s, &NotCoveredError{Instance: s.in.number, What: "a writable shared mapping", File: s.file.rel})
		return false
	case actClose:
		s.frees = g.freedByClose(s)
		return len(s.frees) > 0
	case actExit:
		s.frees = g.freedByExit(s)
		return len(s.frees) > 0
	case actOpen, actStat, actAccess:
		// The watched directory itself is always there.
		return len(s.places) == 0 || s.fd >= 0 && !s.file.dir() || s.fd < 0 && !g.isRoot(s.places[0])
	case actRead, actWrite:
		size, ok := s.count()
		return !ok || size > 0
	}
	return true
}

func (g *Gate) isRoot(p place) bool { return slices.Contains(g.roots.dirs, p.real) }

// freedByClose names the file if closing the descriptor frees a lock of it.
func (g *Gate) freedByClose(s *step) []string {
	if !s.file.regular() && !s.file.dir() {
		return nil
	}
	flock, ofd := s.thread.descriptionLocks(s.fd)
	freed := (flock || ofd) && g.lastReference(s.thread, s.fd, s.file.inode)
	if !freed {
		locks, err := kernelLocks(s.file.inode)
		freed = err == nil && slices.ContainsFunc(locks, func(k kernelLock) bool {
			return k.family == "POSIX" && k.pid == s.thread.proc.pid
		})
	}
	if !freed {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return []string{g.content(s.file.inode, s.file.rel, s.in)}
}

// freedByExit names the files that the end of the process unlocks.
func (g *Gate) freedByExit(s *step) []string {
	var names []string
	for _, fd := range s.thread.descriptors() {
		f := g.ref(s.thread, fd)
		if !f.watched {
			continue
		}
		c := *s
		c.fd, c.file = fd, f
		names = append(names, g.freedByClose(&c)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// descriptors lists the open descriptors of the thread.
func (t *thread) descriptors() []int {
	d, err := unix.Openat(t.dir, "fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(d)
	var names []string
	buf := make([]byte, 8192)
	for {
		n, err := unix.ReadDirent(d, buf)
		if err != nil || n <= 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
	var fds []int
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil {
			fds = append(fds, fd)
		}
	}
	slices.Sort(fds)
	return fds
}

// sqliteFiles are the suffixes of the files that belong to a SQLite database.
var sqliteFiles = []string{"-journal", "-wal", sqliteIndex}

// collapsed reports whether a call belongs to the inside of a span of SQLite's
// locks. Others do not see it before the lock is freed, so it passes at once and
// what it touches is in the footprint of the steps that take and free the lock.
func (g *Gate) collapsed(s *step) bool {
	p := s.thread.proc
	switch s.call.act {
	case actFcntl:
		return g.collapses() && g.transits(s)
	case actFlock, actClose, actExit:
		return false
	}
	if !g.collapses() || len(p.spans) == 0 {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	name := ""
	if s.fd >= 0 && s.file.watched {
		name = g.content(s.file.inode, s.file.rel, s.in)
	} else if len(s.places) > 0 && s.places[0].watched {
		name = g.stable(s, 0)
	}
	for _, suffix := range sqliteFiles {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			name = base
			break
		}
	}
	dirSync := s.file.dir() && s.call.act == actSync
	if !p.spans[name] && !dirSync {
		return false
	}
	switch s.call.act {
	case actWrite, actTruncate, actUnlink, actRename, actCopy, actAllocate:
		p.wrote["file "+name] = true
	}
	return true
}

// transits reports whether a lock call is a part of a transition of SQLite's that
// has begun with the pending lock, so that it belongs to that step:
//
//   - a reader takes pending, shared, and frees pending. Nobody gets in between.
//   - a writer that commits takes pending and exclusive, writes, goes back to
//     shared and frees the others. Who came in between would find the database
//     busy and try again after that. Only with readers still there it has to
//     wait, and exclusive is a step of its own.
func (g *Gate) transits(s *step) bool {
	p, l := s.thread.proc, s.lock
	g.mu.Lock()
	name := g.content(s.file.inode, s.file.rel, s.in)
	g.mu.Unlock()
	entering, committing := p.entering[name], p.committing[name]
	switch {
	case !entering && !committing:
		return false
	case l.kind == unix.F_UNLCK:
		return entering && l.pendingOnly() || committing && l.from == sqlitePending && l.to == sqlitePending+2
	case l.from != sqliteShared || l.to != sqliteEnd:
		return false
	}
	locks, err := kernelLocks(s.file.inode)
	return err == nil && len(l.blockers(locks, p.pid)) == 0
}

// spanOver reports whether the process holds no more lock of the file.
func (g *Gate) spanOver(s *step) bool {
	locks, err := kernelLocks(s.file.inode)
	return err == nil && !slices.ContainsFunc(locks, func(k kernelLock) bool {
		return k.family == "POSIX" && k.pid == s.thread.proc.pid
	})
}
