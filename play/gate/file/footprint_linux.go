//go:build amd64 || arm64

package file

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/play/explore"
)

// describe fills in what the step is called and what it touches, as things are
// now. g.mu is held.
func (g *Gate) describe(s *step) {
	g.nameFiles(s)
	s.Step.Gate, s.Conn, s.Instance = Name, s.thread.conn, s.in.number
	s.Label = g.label(s)
	s.Text, s.Shape = s.Label, g.shape(s)
	s.Footprint = g.footprint(s)
	for _, a := range s.Footprint.Accesses {
		if a.Mode == explore.Write {
			s.Writes = append(s.Writes, a.Object)
		}
	}
	slices.Sort(s.Writes)
	s.Writes = slices.Compact(s.Writes)
}

// shape is the label without the places and lengths in a file: they differ from
// run to run where a moment or a generated name is part of the content.
func (g *Gate) shape(s *step) string {
	switch s.call.act {
	case actRead:
		return "read " + s.file.name
	case actWrite:
		return "write " + s.file.name
	case actTruncate:
		return "truncate " + g.subject(s)
	}
	return s.Label
}

// owner is the name of whose steps come now from the instance.
func (g *Gate) owner(in *Instance) string {
	if o := g.owners[in.number]; o != "" {
		return o
	}
	return ownerName(in.number)
}

// stable is the stable name of a path. g.mu is held.
func (g *Gate) stable(s *step, i int) string {
	pl := s.places[i]
	if !pl.watched {
		return pl.real
	}
	m := mention{owner: g.owner(s.in), exists: exists(pl.real), pid: s.thread.proc.pid}
	if s.call.act == actOpen {
		excl := uint64(unix.O_CREAT | unix.O_EXCL)
		m.exclusive = s.how.Flags&excl == excl
		m.temp = m.exclusive && s.how.Flags&unix.O_ACCMODE == unix.O_RDWR && s.how.Mode == 0o600
	}
	return g.names.of(pl.rel, m)
}

func exists(real string) bool {
	var st unix.Stat_t
	return unix.Lstat(real, &st) == nil
}

// content is the stable name of a file's content: what its inode was first seen
// as. g.mu is held.
func (g *Gate) content(ino inode, rel string, in *Instance) string {
	name, ok := g.inodes[ino]
	if !ok {
		name = g.names.of(rel, mention{owner: g.owner(in), exists: true})
		g.inodes[ino] = name
	}
	return name
}

func (g *Gate) nameFiles(s *step) {
	name := func(r *ref, fd int) {
		if !r.watched {
			return
		}
		r.name = g.content(r.inode, r.rel, s.in)
		if n, ok := s.thread.proc.names[fd]; ok && n.inode == r.inode {
			r.name = n.name
		}
		if r.dir() {
			r.name = g.names.of(r.rel, mention{owner: g.owner(s.in), exists: true})
		}
	}
	name(&s.file, s.fd)
	name(&s.file2, s.fd2)
}

var openFlagNames = []struct {
	flag uint64
	name string
}{{unix.O_CREAT, "O_CREAT"}, {unix.O_EXCL, "O_EXCL"}, {unix.O_TRUNC, "O_TRUNC"}, {unix.O_APPEND, "O_APPEND"}}

func (g *Gate) label(s *step) string {
	switch s.call.act {
	case actOpen:
		var flags []string
		for _, f := range openFlagNames {
			if s.how.Flags&f.flag != 0 {
				flags = append(flags, f.name)
			}
		}
		return strings.TrimSpace("open " + g.stable(s, 0) + " " + strings.Join(flags, "|"))
	case actRead, actWrite:
		verb := map[action]string{actRead: "read", actWrite: "write"}[s.call.act]
		from, to := s.span()
		if to > 0 {
			return fmt.Sprintf("%s %s [%d:%d]", verb, s.file.name, from, to)
		}
		size, _ := s.count()
		return fmt.Sprintf("%s %s, %d bytes at the end", verb, s.file.name, size)
	case actRename, actLink, actSymlink:
		return g.labelTwo(s)
	case actFlock:
		return "flock " + s.file.name + " " + s.lock.String()
	case actFcntl:
		return "lock " + s.file.name + " " + s.lock.String()
	case actClose:
		return "close " + s.file.name + ", which unlocks it"
	case actExit:
		return "exit, which unlocks " + strings.Join(s.frees, " and ")
	case actCopy:
		return "copy " + cmp0(s.source().name, "another file") + " to " + cmp0(s.target().name, "another file")
	case actTruncate:
		size := s.note.args[1]
		return fmt.Sprintf("truncate %s to %d", g.subject(s), size)
	}
	return verbs[s.call.act] + " " + g.subject(s)
}

var verbs = map[action]string{actAllocate: "allocate", actUnlink: "unlink", actRmdir: "rmdir", actMkdir: "mkdir",
	actSync: "fsync", actStat: "stat", actAccess: "access", actReadlink: "readlink", actList: "list",
	actChmod: "chmod", actTimes: "set the times of"}

func cmp0(s, empty string) string {
	if s == "" {
		return empty
	}
	return s
}

// subject is the one file that a step is about.
func (g *Gate) subject(s *step) string {
	if s.fd >= 0 {
		return s.file.name
	}
	return g.stable(s, 0)
}

func (g *Gate) labelTwo(s *step) string {
	if s.call.act == actSymlink {
		target, _ := s.thread.peekString(s.note.args[0])
		return "symlink " + g.stable(s, 0) + " → " + target
	}
	from := s.file.name
	if s.fd < 0 {
		from = g.stable(s, 0)
	}
	return verbsTwo[s.call.act] + " " + from + " → " + g.stable(s, 1)
}

var verbsTwo = map[action]string{actRename: "rename", actLink: "link"}

// source and target are the two ends of a copy.
func (s *step) source() ref {
	if s.call.name == "sendfile" {
		return s.file2
	}
	return s.file
}

func (s *step) target() ref {
	if s.call.name == "sendfile" {
		return s.file
	}
	return s.file2
}

// entry is the access to the directory entry of a stable name, and the reading
// of those on the way to it.
func entry(mode explore.Mode, name string) []explore.Access {
	var list []explore.Access
	for name != "." && name != "" {
		dir, base, nested := cutLast(name)
		if !nested {
			dir = "."
		}
		list = append(list, explore.Access{Mode: mode, Object: "dir " + dir, Where: map[string]string{"name": base}})
		mode, name = explore.Read, dir
	}
	return list
}

func bytesOf(mode explore.Mode, name string, from, to int64) explore.Access {
	return explore.Access{Mode: mode, Object: "file " + name, From: from, To: to}
}

// footprint is what the step touches if it is done now. g.mu is held.
func (g *Gate) footprint(s *step) explore.Footprint {
	var list []explore.Access
	for i := range s.places {
		if s.places[i].watched {
			list = append(list, g.touchPath(s, i)...)
		}
	}
	switch s.call.act {
	case actRead:
		from, to := s.span()
		if from == 0 && to == sqliteHeader && g.opens(s, "") {
			break // it is read again under the lock
		}
		list = append(list, bytesOf(explore.Read, g.content(s.file.inode, s.file.rel, s.in), from, to))
	case actWrite, actAllocate, actTruncate:
		if s.fd >= 0 {
			from, to := s.span()
			list = append(list, bytesOf(explore.Write, g.content(s.file.inode, s.file.rel, s.in), from, to))
		}
	case actCopy:
		if f := s.source(); f.watched {
			list = append(list, bytesOf(explore.Read, g.content(f.inode, f.rel, s.in), 0, 0))
		}
		if f := s.target(); f.watched {
			list = append(list, bytesOf(explore.Write, g.content(f.inode, f.rel, s.in), 0, 0))
		}
	case actStat, actAccess:
		if s.fd >= 0 && s.file.regular() && !g.opens(s, "") {
			list = append(list, bytesOf(explore.Read, g.content(s.file.inode, s.file.rel, s.in), 0, 0))
		}
	case actChmod, actTimes:
		if s.fd >= 0 {
			list = append(list, bytesOf(explore.Write, g.content(s.file.inode, s.file.rel, s.in), 0, 0))
		}
	case actList:
		list = append(list, explore.Access{Mode: explore.Read, Object: "dir " + s.file.name})
	case actFlock, actFcntl:
		list = append(list, g.touchLock(s)...)
	case actClose, actExit:
		for _, o := range s.frees {
			list = append(list, explore.Access{Mode: explore.Unlock, Object: "lock " + o})
		}
	}
	return explore.Footprint{Accesses: list}
}

// opens reports whether a look at a file is one that SQLite takes as it opens a
// database. It looks at the identity of the file and not at its content, which it
// trusts only under its locks. path is the file's; empty for that of the
// descriptor.
func (g *Gate) opens(s *step, path string) bool {
	if !g.collapses() {
		return false
	}
	var fd int
	var errno unix.Errno
	if path == "" {
		fd, errno = s.thread.proc.dup(s.fd)
	} else {
		var err error
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		errno = errnoOf(err)
	}
	if errno != 0 {
		return false
	}
	defer unix.Close(fd)
	var head [len(sqliteMagic)]byte
	n, err := unix.Pread(fd, head[:], 0)
	return err == nil && n == len(head) && string(head[:]) == sqliteMagic
}

// touchPath is what a call touches through one of its paths.
func (g *Gate) touchPath(s *step, i int) []explore.Access {
	pl := s.places[i]
	if pl.raw == "" {
		return nil
	}
	name := g.stable(s, i)
	var st unix.Stat_t
	there := unix.Lstat(pl.real, &st) == nil
	file := there && st.Mode&unix.S_IFMT == unix.S_IFREG
	mode := explore.Read
	var list []explore.Access
	content := func(m explore.Mode) {
		if file {
			list = append(list, bytesOf(m, g.content(inodeOf(&st), pl.rel, s.in), 0, 0))
		}
	}
	switch s.call.act {
	case actOpen:
		if !there && s.how.Flags&unix.O_CREAT != 0 {
			mode = explore.Write
		}
		if s.how.Flags&unix.O_TRUNC != 0 {
			content(explore.Write)
		}
	case actTruncate, actChmod, actTimes:
		content(explore.Write)
	case actStat:
		if !g.opens(s, pl.real) {
			content(explore.Read)
		}
	case actUnlink, actRmdir:
		if there {
			mode = explore.Write
		}
	case actMkdir, actSymlink:
		if !there {
			mode = explore.Write
		}
	case actRename:
		// With no source nothing is changed; with one, both entries are.
		if exists(s.places[0].real) {
			mode = explore.Write
		}
	case actLink:
		if i == 1 && !there {
			mode = explore.Write
		}
	}
	if s.call.act == actRmdir || s.call.act == actUnlink && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		list = append(list, explore.Access{Mode: explore.Read, Object: "dir " + name})
	}
	return append(entry(mode, name), list...)
}

func (g *Gate) touchLock(s *step) []explore.Access {
	l := s.lock
	name := g.content(s.file.inode, s.file.rel, s.in)
	a := explore.Access{Object: "lock " + name, Mode: map[int16]explore.Mode{
		unix.F_RDLCK: explore.Share, unix.F_WRLCK: explore.Lock, unix.F_UNLCK: explore.Unlock}[l.kind]}
	if !l.flock && !(l.from == 0 && l.to == math.MaxInt64) {
		a.From, a.To = l.from, l.to
	}
	suffix, ok := l.sqlite(name)
	if !ok || !g.collapses() {
		return []explore.Access{a}
	}
	list := g.touchSpan(s, a)
	// What happens to the pages inside one span of locks belongs to the step that
	// takes or frees the lock (see collapsed).
	db := bytesOf(explore.Read, strings.TrimSuffix(name, suffix), 0, 0)
	readers := l.pendingOnly() || l.from >= sqliteShared || suffix != "" && l.from >= sqliteWALRead
	switch {
	case l.kind == unix.F_RDLCK && readers:
		return append(list, db)
	case l.kind == unix.F_WRLCK && suffix == "" && (l.pendingOnly() || l.to == sqliteEnd):
		db.Mode = explore.Write
		return append(list, db)
	case l.kind == unix.F_UNLCK && s.thread.proc.wrote[db.Object] &&
		slices.ContainsFunc(list, func(a explore.Access) bool { return a.Mode == explore.Write }):
		// After a commit with a rollback journal only a shared lock is left to be
		// freed, and what was written could be seen before.
		db.Mode = explore.Write
		return append(list, db)
	}
	return list
}

// touchSpan is what a lock of SQLite's touches of the locks. Two readers may come
// and go in any order, so taking and freeing a shared lock reads, and what has to
// do with an exclusive one writes.
func (g *Gate) touchSpan(s *step, a explore.Access) []explore.Access {
	l := s.lock
	switch l.kind {
	case unix.F_WRLCK:
		a.Mode = explore.Write
	case unix.F_RDLCK:
		a.Mode = explore.Read
	}
	if l.kind != unix.F_UNLCK {
		if !l.pendingOnly() {
			return []explore.Access{a}
		}
		// The lock that comes next is a part of this step (see transits).
		shared := a
		shared.From, shared.To = sqliteShared, sqliteEnd
		return []explore.Access{a, shared}
	}
	locks, err := kernelLocks(s.file.inode)
	if err != nil {
		a.Mode = explore.Write
		return []explore.Access{a}
	}
	var list []explore.Access
	for _, k := range locks {
		if k.family != "POSIX" || k.pid != s.thread.proc.pid || k.to <= l.from || l.to <= k.from {
			continue
		}
		a.Mode, a.From, a.To = explore.Read, k.from, k.to
		if k.write {
			a.Mode = explore.Write
		}
		list = append(list, a)
	}
	return list
}
