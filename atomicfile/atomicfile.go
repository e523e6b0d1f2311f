//go:build unix

package atomicfile

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Write replaces the content of path durably, or creates it. A symbolic link
// is followed, so the file that it names is replaced and the link stays.
//
// An error other than *[NotDurableError] means that path is as it was.
func Write(path string, data []byte, opts Options) error {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		target = path
	} else if err != nil {
		return fail("write", path, err)
	}
	if opts.Perm == 0 {
		if info, err := os.Stat(target); err == nil {
			opts.Perm = info.Mode().Perm()
		}
	}
	t, err := Prepare(filepath.Dir(target), data, opts)
	if err != nil {
		return fail("write", path, err)
	}
	defer t.Discard()
	if err := t.Replace(target); err != nil {
		return fail("write", path, err)
	}
	if opts.NoSync {
		return nil
	}
	return SyncDir(filepath.Dir(target))
}

// Create makes path durably with this content. If path exists, in whatever
// form, the error wraps fs.ErrExist and nothing was changed; of several
// processes that create the same path, one succeeds.
func Create(path string, data []byte, opts Options) error {
	t, err := Prepare(filepath.Dir(path), data, opts)
	if err != nil {
		return fail("create", path, err)
	}
	defer t.Discard()
	if err := t.Link(path); err != nil {
		return fail("create", path, err)
	}
	t.Discard()
	if opts.NoSync {
		return nil
	}
	return SyncDir(filepath.Dir(path))
}

// Remove deletes path durably.
func Remove(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the entries of a directory durable: what was created, renamed
// or removed in it before the call. Its error is *[NotDurableError].
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return &NotDurableError{Path: dir, Err: err}
	}
	err = errors.Join(d.Sync(), d.Close())
	if err != nil {
		return &NotDurableError{Path: dir, Err: err}
	}
	return nil
}

func fail(op, path string, err error) error {
	return fmt.Errorf("%s %s: nothing was changed: %w", op, path, err)
}

// Temp is a synced file that waits to be moved into place, for callers who
// must do something between the slow sync and the quick move, such as taking a
// lock and checking a condition. Discard it in any case.
type Temp struct {
	f    *os.File
	gone bool
}

// Prepare writes data to a new temporary file in dir and syncs it.
func Prepare(dir string, data []byte, opts Options) (*Temp, error) {
	f, err := newTemp(dir)
	if err != nil {
		return nil, err
	}
	t := &Temp{f: f}
	perm := opts.Perm
	if perm == 0 {
		perm = 0o600
	}
	if perm != 0o600 {
		err = f.Chmod(perm)
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil && !opts.NoSync {
		err = f.Sync()
	}
	if err != nil {
		t.Discard()
		return nil, err
	}
	return t, nil
}

const (
	tempPrefix = ".hf-"
	tempSuffix = ".tmp"
)

// IsTemp says whether a file name is one of this package's temporary names.
func IsTemp(name string) bool {
	return strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix)
}

// newTemp creates a file that this process has locked. Between the creation
// and the lock a sweeper may take it for dead, lock and unlink it: then the
// lock is refused or the link count is zero, and another name is tried.
func newTemp(dir string) (*os.File, error) {
	const tries = 100
	for range tries {
		var b [12]byte
		_, _ = rand.Read(b[:])
		name := filepath.Join(dir, tempPrefix+hex.EncodeToString(b[:])+tempSuffix)
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		held, err := tryFlock(f)
		if err == nil && held {
			var links uint64
			if links, err = linkCount(f); err == nil && links > 0 {
				return f, nil
			}
		}
		_ = f.Close()
		if err != nil {
			_ = os.Remove(name)
			return nil, err
		}
	}
	return nil, fmt.Errorf("no temporary file in %s after %d tries: something removes them", dir, tries)
}

// Replace renames the file to path, in place of what is there. The directory
// is not synced yet: call [SyncDir] before acknowledging.
func (t *Temp) Replace(path string) error {
	if err := os.Rename(t.f.Name(), path); err != nil {
		return err
	}
	t.gone = true
	return nil
}

// Link gives the file the name path if that does not exist, else the error
// wraps fs.ErrExist. The directory is not synced yet.
func (t *Temp) Link(path string) error { return os.Link(t.f.Name(), path) }

// Discard removes the temporary name, if it is still there, and closes the
// file. It may be called more than once.
func (t *Temp) Discard() {
	if t.f == nil {
		return
	}
	// Whoever removes the name first is right: nobody reads it. A name that
	// can not be removed is left to Sweep.
	if !t.gone {
		_ = os.Remove(t.f.Name())
	}
	// The content is synced or given up, so closing can not lose anything.
	_ = t.f.Close()
	t.f = nil
}

// Sweep removes the temporary files in dir whose writers are dead and returns
// how many there were. Files of live writers, stopped ones included, stay.
func Sweep(dir string) (int, error) {
	d, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	names, err := d.Readdirnames(-1)
	_ = d.Close()
	if err != nil {
		return 0, err
	}
	removed := 0
	for _, name := range names {
		if !IsTemp(name) {
			continue
		}
		dead, err := sweepOne(filepath.Join(dir, name))
		if err != nil {
			return removed, err
		}
		if dead {
			removed++
		}
	}
	return removed, nil
}

// sweepOne unlinks by name while it holds the lock. The name can not have come
// to mean another file since the open, because names are random and used once.
func sweepOne(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	held, err := tryFlock(f)
	if err != nil || !held {
		return false, err
	}
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// tryFlock takes the exclusive lock without waiting.
func tryFlock(f *os.File) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

func linkCount(f *os.File) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	return uint64(st.Nlink), nil
}
