//go:build amd64 || arm64

package file

import (
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// roots are the watched directories, by their real paths.
type roots struct {
	dirs []string
	// prefix is put before names when there are several roots.
	prefix []string

	mu sync.Mutex
	// cache has the real paths of directories outside of the watched ones. A
	// program opens hundreds of files in few directories when it starts.
	cache map[string]string
}

// maxCache bounds the cache; beyond it is emptied.
const maxCache = 1 << 14

func newRoots(dirs []string) (*roots, error) {
	r := &roots{cache: map[string]string{}}
	for _, d := range dirs {
		abs, err := filepath.Abs(d)
		if err == nil {
			abs, err = filepath.EvalSymlinks(abs)
		}
		if err != nil {
			return nil, err
		}
		r.dirs = append(r.dirs, abs)
		prefix := ""
		if len(dirs) > 1 {
			prefix = filepath.Base(abs)
		}
		r.prefix = append(r.prefix, prefix)
	}
	return r, nil
}

// under reports whether a real path is a watched directory or below one, and its
// name relative to it; "" is the directory itself.
func (r *roots) under(real string) (rel string, ok bool) {
	for i, d := range r.dirs {
		rest, found := strings.CutPrefix(real, d)
		if !found || rest != "" && rest[0] != '/' {
			continue
		}
		rest = strings.TrimPrefix(rest, "/")
		switch {
		case r.prefix[i] == "":
			return rest, true
		case rest == "":
			return r.prefix[i], true
		}
		return r.prefix[i] + "/" + rest, true
	}
	return "", false
}

// elsewhere are trees that are never watched, and in which links mean something
// else for each process.
var elsewhere = []string{"/proc/", "/sys/", "/dev/"}

// maxLinks is the kernel's own bound for symbolic links in a path.
const maxLinks = 40

// real follows the symbolic links of an absolute path, but for the last element
// if follow is false. The last element need not exist.
func (r *roots) real(abs string, follow bool) (string, bool) {
	for range maxLinks {
		for _, p := range elsewhere {
			if strings.HasPrefix(abs, p) {
				return "", false
			}
		}
		trimmed := strings.TrimRight(abs, "/")
		if trimmed == "" {
			return "/", true
		}
		dir, last, _ := cutLast(trimmed)
		if last == "." || last == ".." {
			real, ok := r.realDir(trimmed)
			return real, ok
		}
		if dir == "" {
			dir = "/"
		}
		real, ok := r.realDir(dir)
		if !ok {
			// No such directory now. It may be one that another actor makes.
			_, watched := r.under(filepath.Clean(abs))
			return filepath.Clean(abs), watched
		}
		full := strings.TrimSuffix(real, "/") + "/" + last
		if !follow {
			return full, true
		}
		var buf [unix.PathMax]byte
		n, err := unix.Readlink(full, buf[:])
		if err != nil || n == len(buf) {
			return full, true
		}
		abs = string(buf[:n])
		if abs[0] != '/' {
			abs = real + "/" + abs
		}
	}
	return "", false
}

// realDir is the real path of a directory, false where there is none.
func (r *roots) realDir(dir string) (string, bool) {
	r.mu.Lock()
	real, ok := r.cache[dir]
	r.mu.Unlock()
	if ok {
		return real, true
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", false
	}
	// Below the watched directories links can change with each step.
	if _, watched := r.under(real); !watched {
		if _, watched = r.under(filepath.Clean(dir)); !watched {
			r.mu.Lock()
			if len(r.cache) >= maxCache {
				clear(r.cache)
			}
			r.cache[dir] = real
			r.mu.Unlock()
		}
	}
	return real, true
}

// place is a path argument of a call.
type place struct {
	dirfd int32
	raw   string
	// real is the path that the call is about, rel its name below the watched
	// directory.
	real, rel string
	watched   bool
}

// place decodes a path argument. bad is the call's own error for a path that can
// not be read; such a call is let go on.
func (g *Gate) place(t *thread, n *notification, c *sysCall, p path) (pl place, bad bool) {
	pl.dirfd = unix.AT_FDCWD
	if p.dirfd != none {
		pl.dirfd = int32(n.args[p.dirfd])
	}
	raw, errno := t.peekString(n.args[p.str])
	if errno != 0 || raw == "" {
		return pl, true
	}
	pl.raw = raw
	abs := raw
	if raw[0] != '/' {
		var buf [unix.PathMax]byte
		base := "cwd"
		if pl.dirfd != unix.AT_FDCWD {
			base = fdLink(int(pl.dirfd))
		}
		dir, ok := t.link(base, buf[:])
		if !ok || dir[0] != '/' {
			return pl, true
		}
		abs = dir + "/" + raw
	}
	var ok bool
	if pl.real, ok = g.roots.real(abs, follows(t, n, c)); ok {
		pl.rel, pl.watched = g.roots.under(pl.real)
	}
	return pl, false
}

// follows reports whether the call follows a link at the end of its path.
func follows(t *thread, n *notification, c *sysCall) bool {
	switch {
	case c.act == actOpen:
		flags := openHow(t, n, c).Flags
		return flags&unix.O_NOFOLLOW == 0 && flags&(unix.O_CREAT|unix.O_EXCL) != unix.O_CREAT|unix.O_EXCL
	case c.act == actLink && c.flags != none:
		return n.args[c.flags]&unix.AT_SYMLINK_FOLLOW != 0
	case c.nofollow:
		return false
	case c.flags != none:
		return n.args[c.flags]&unix.AT_SYMLINK_NOFOLLOW == 0
	}
	return true
}

// openHow brings the arguments of all calls that open into one form.
func openHow(t *thread, n *notification, c *sysCall) unix.OpenHow {
	switch int(n.nr) {
	case unix.SYS_OPENAT:
		return unix.OpenHow{Flags: n.args[2] & 0xffffffff, Mode: n.args[3] & 07777}
	case unix.SYS_OPENAT2:
		var how unix.OpenHow
		raw := unsafe.Slice((*byte)(unsafe.Pointer(&how)), unsafe.Sizeof(how))
		if k, err := t.peek(n.args[2], raw); err != nil || k < len(raw) {
			return unix.OpenHow{}
		}
		return how
	}
	if c.name == "creat" {
		return unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC, Mode: n.args[1] & 07777}
	}
	return unix.OpenHow{Flags: n.args[1] & 0xffffffff, Mode: n.args[2] & 07777}
}
