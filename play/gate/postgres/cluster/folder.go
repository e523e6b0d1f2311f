package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	memoryDir = "/dev/shm"
	// memoryFree is the free space that the default needs in memory: a new
	// cluster has 31 MB, its log up to 128 MB, and each database 7 MB and more.
	memoryFree = 512 << 20
	// socketLimit: a socket's path has at most 107 bytes on Linux and 103 on
	// macOS, the ".s.PGSQL.65535" and its ".lock" included.
	socketLimit = 100
	prefix      = "holdfast-pg-"
	lockName    = "owner.lock"
)

// folder is all that a cluster has on disk (or in memory-backed storage).
type folder struct {
	path   string
	data   string // the server's data, owned by its user, mode 0700
	socket string // the folder of its socket, the same
	log    string
	lock   *os.File
	// extra is the socket's folder when path is too long for a socket.
	extra string
}

// newFolder makes a folder in parent (empty: the default) and removes those
// whose owner died.
func newFolder(parent string, as account) (*folder, error) {
	if parent == "" {
		parent = defaultParent(as)
	}
	parent, err := filepath.Abs(parent)
	if err != nil {
		return nil, fmt.Errorf("make a folder for PostgreSQL: %w", err)
	}
	if err := as.reaches(parent); err != nil {
		return nil, fmt.Errorf("make a folder for PostgreSQL: %w", err)
	}
	sweep(parent, as)
	path, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return nil, fmt.Errorf("make a folder for PostgreSQL: %w", err)
	}
	f := &folder{
		path:   path,
		data:   filepath.Join(path, "data"),
		socket: filepath.Join(path, "s"),
		log:    filepath.Join(path, "server.log"),
	}
	if err := f.fill(as); err != nil {
		return nil, errors.Join(fmt.Errorf("make a folder for PostgreSQL: %w", err), f.remove())
	}
	return f, nil
}

func (f *folder) fill(as account) error {
	// The server's user goes through the outer folder and owns only the inner
	// ones, so it can not replace the lock.
	if as.other {
		if err := os.Chmod(f.path, 0o711); err != nil {
			return err
		}
	}
	lock, err := takeLock(f.path)
	if err != nil {
		return err
	}
	f.lock = lock
	if len(f.socket)+len("/.s.PGSQL.65535.lock") > socketLimit {
		dir, err := shortDir(as)
		if err != nil {
			return err
		}
		f.extra, f.socket = dir, dir
	} else if err := os.Mkdir(f.socket, 0o700); err != nil {
		return err
	}
	if err := as.own(f.socket); err != nil {
		return err
	}
	return f.empty(as)
}

// empty makes the data folder anew.
func (f *folder) empty(as account) error {
	if err := os.RemoveAll(f.data); err != nil {
		return err
	}
	if err := os.Mkdir(f.data, 0o700); err != nil {
		return err
	}
	return as.own(f.data)
}

// remove removes everything and gives the lock free last.
func (f *folder) remove() error {
	err := removeAll(f.path)
	if f.extra != "" {
		err = errors.Join(err, os.RemoveAll(f.extra))
	}
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
	}
	if err != nil {
		return fmt.Errorf("remove the folder of the throwaway PostgreSQL: %w", err)
	}
	return nil
}

// removeAll is os.RemoveAll for a folder in which a server that had to be
// killed may still have a child that creates a file: it ends when it notices.
func removeAll(path string) error {
	for try := 1; ; try++ {
		err := os.RemoveAll(path)
		if !errors.Is(err, syscall.ENOTEMPTY) || try == 20 {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// takeLock makes the lock file of a folder. It is locked before it has its
// name: otherwise another process's sweep could come between making and
// locking it and take the folder for abandoned.
func takeLock(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "lock-")
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, lockName)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sweep removes folders in parent that were left by a Holdfast which was
// killed. It is a courtesy: what it can not remove stays.
func sweep(parent string, as account) {
	dirs, err := filepath.Glob(filepath.Join(globEscape(parent), prefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		// In a folder that everybody can write, only what is ours is touched.
		fi, err := os.Lstat(dir)
		if err != nil || !fi.IsDir() || !ownedBy(fi, os.Geteuid(), as.uid) {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && !serverAlive(filepath.Join(dir, "data")) {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close()
	}
}

func ownedBy(fi fs.FileInfo, uids ...int) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	for _, uid := range uids {
		if int(st.Uid) == uid {
			return true
		}
	}
	return false
}

// serverAlive reports whether the server of a data folder still runs: right
// after its parent was killed it may still be ending.
func serverAlive(data string) bool {
	b, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return false
	}
	pid, _, _ := strings.Cut(string(b), "\n")
	if _, err := os.Stat("/proc/self"); err != nil {
		return true // no way to tell a server from a reused number: leave it
	}
	cwd, err := os.Readlink("/proc/" + pid + "/cwd")
	return err == nil && cwd == data
}

func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// defaultParent is memory-backed storage when there is enough, else the folder
// for temporary files.
func defaultParent(as account) string {
	var st syscall.Statfs_t
	if err := syscall.Statfs(memoryDir, &st); err != nil || st.Bavail*uint64(st.Bsize) < memoryFree {
		return tempParent(as)
	}
	probe, err := os.MkdirTemp(memoryDir, "holdfast-probe-")
	if err != nil {
		return tempParent(as)
	}
	_ = os.Remove(probe)
	return memoryDir
}

// tempParent is os.TempDir, unless the server's user can not reach it (root's
// own folder for temporary files) and /tmp can be.
func tempParent(as account) string {
	if as.reaches(os.TempDir()) != nil && as.reaches("/tmp") == nil {
		return "/tmp"
	}
	return os.TempDir()
}

// shortDir is a new folder with a path that is short enough for a socket.
func shortDir(as account) (string, error) {
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		if len(parent)+len("/hfpg-1234567890/.s.PGSQL.65535.lock") > socketLimit || as.reaches(parent) != nil {
			continue
		}
		dir, err := os.MkdirTemp(parent, "hfpg-")
		if err != nil {
			continue
		}
		return dir, nil
	}
	return "", fmt.Errorf("no folder for the socket: its path may have %d bytes, and neither %s nor /tmp will do: "+
		"name a folder with a short path", socketLimit, os.TempDir())
}
