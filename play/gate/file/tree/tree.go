// Package tree records a directory, puts it back exactly and fast, and shows it
// as the tables that the oracle compares.
//
// # Model
//
// A [State] has the regular files with their content, the directories and the
// symbolic links below one directory, with their modes and times of last change.
// [State.Restore] writes only what differs and keeps the inodes of files that
// stay, so that a program that has one open goes on with it.
//
// # Limits
//
// Owners, extended attributes, hard links (each name becomes a file of its own)
// and special files are not kept; sockets and pipes are left alone.
package tree

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Node is one file, directory or link.
type Node struct {
	// Mode has the type (regular, fs.ModeDir or fs.ModeSymlink), the permissions
	// and the set-id and sticky bits.
	Mode fs.FileMode
	// Data is the content of a file, the target of a link.
	Data []byte
	// Time of last change; not compared, and zero is left as it comes.
	Time time.Time
}

// State is a directory's content by path relative to it, in slashes. The
// directory itself is not in it.
type State map[string]Node

// Options of Capture and Restore.
type Options struct {
	// Ignore are patterns as in path.Match, for the path or for the last element
	// of it. What they match is neither recorded nor touched.
	Ignore []string
	// MaxBytes bounds the content of all files together; 0 is 256 MiB.
	MaxBytes int64
}

const defaultMaxBytes = 256 << 20

// TooBigError says that a directory has more content than can be recorded.
type TooBigError struct {
	Dir string
	Max int64
}

func (e *TooBigError) Error() string {
	return fmt.Sprintf("record directory %s: it has more than %d bytes; watch a smaller directory or ignore its large files", e.Dir, e.Max)
}

func (o Options) ignored(path string) bool {
	base := path[strings.LastIndexByte(path, '/')+1:]
	return slices.ContainsFunc(o.Ignore, func(p string) bool {
		whole, _ := filepath.Match(p, path)
		last, _ := filepath.Match(p, base)
		return whole || last
	})
}

// kept are the bits of a mode that are recorded.
const kept = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky | fs.ModeType

// Capture records what is below a directory. The error is a *[TooBigError] or
// that of a file that can not be read.
func Capture(dir string, o Options) (State, error) {
	bound := o.MaxBytes
	if bound == 0 {
		bound = defaultMaxBytes
	}
	left := bound
	s := State{}
	err := walk(dir, o, func(path, full string, info fs.FileInfo) error {
		n := Node{Mode: info.Mode() & kept, Time: info.ModTime()}
		var err error
		switch {
		case n.Mode.IsRegular():
			if left -= info.Size(); left < 0 {
				return &TooBigError{Dir: dir, Max: bound}
			}
			n.Data, err = os.ReadFile(full)
		case n.Mode&fs.ModeSymlink != 0:
			var target string
			target, err = os.Readlink(full)
			n.Data = []byte(target)
		}
		s[path] = n
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("record directory %s: %w", dir, err)
	}
	return s, nil
}

// walk visits what is below dir, parents first, and passes over special files
// and what is gone meanwhile.
func walk(dir string, o Options, visit func(path, full string, info fs.FileInfo) error) error {
	return filepath.WalkDir(dir, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) && full != dir {
				return nil
			}
			return err
		}
		if full == dir {
			return nil
		}
		path, err := filepath.Rel(dir, full)
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		if o.ignored(path) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || info.Mode()&(fs.ModeType&^(fs.ModeDir|fs.ModeSymlink)) != 0 {
			return err
		}
		return visit(path, full, info)
	})
}

// Restore brings a directory, which must exist, into the state.
func (s State) Restore(dir string, o Options) error {
	if err := s.restore(dir, o); err != nil {
		return fmt.Errorf("restore directory %s: %w", dir, err)
	}
	return nil
}

func (s State) restore(dir string, o Options) error {
	var extra []string
	err := walk(dir, o, func(path, full string, info fs.FileInfo) error {
		n, wanted := s[path]
		if wanted && n.Mode.Type() == info.Mode().Type() {
			return nil
		}
		extra = append(extra, full)
		if info.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, full := range extra {
		if err := os.RemoveAll(full); err != nil {
			return err
		}
	}
	paths := slices.Sorted(maps.Keys(s)) // parents first
	for _, p := range paths {
		if err := s[p].put(filepath.Join(dir, filepath.FromSlash(p))); err != nil {
			return err
		}
	}
	// A directory's time changes with its entries, so children come first.
	for _, p := range slices.Backward(paths) {
		n := s[p]
		if n.Mode.IsDir() && !n.Time.IsZero() {
			if err := os.Chtimes(filepath.Join(dir, filepath.FromSlash(p)), time.Time{}, n.Time); err != nil {
				return err
			}
		}
	}
	return nil
}

// put brings one file into its state.
func (n Node) put(full string) error {
	info, err := os.Lstat(full)
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch {
	case n.Mode.IsDir():
		if !there {
			if err := os.Mkdir(full, 0o700); err != nil {
				return err
			}
		}
	case n.Mode&fs.ModeSymlink != 0:
		if there {
			if target, err := os.Readlink(full); err != nil || target == string(n.Data) {
				return err
			}
			if err := os.Remove(full); err != nil {
				return err
			}
		}
		return os.Symlink(string(n.Data), full)
	default:
		if err := n.putFile(full, info); err != nil {
			return err
		}
	}
	if there && info.Mode()&kept == n.Mode {
		return nil
	}
	return os.Chmod(full, n.Mode)
}

func (n Node) putFile(full string, info fs.FileInfo) error {
	if info != nil && info.Size() == int64(len(n.Data)) {
		now, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		if bytes.Equal(now, n.Data) {
			if n.Time.IsZero() || info.ModTime().Equal(n.Time) {
				return nil
			}
			return os.Chtimes(full, time.Time{}, n.Time)
		}
	}
	f, err := os.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(n.Data)
	if err = errors.Join(err, f.Close()); err != nil || n.Time.IsZero() {
		return err
	}
	return os.Chtimes(full, time.Time{}, n.Time)
}

// Digest is equal for equal states; times do not count.
func (s State) Digest() string {
	h := sha256.New()
	for _, p := range slices.Sorted(maps.Keys(s)) {
		n := s[p]
		fmt.Fprintf(h, "%d:%s %o %d:", len(p), p, uint32(n.Mode), len(n.Data))
		h.Write(n.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Clone is a copy that shares the content of files.
func (s State) Clone() State { return maps.Clone(s) }
