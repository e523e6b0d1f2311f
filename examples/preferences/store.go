package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// store is one way to change the file. Each is the right one but for one point.
type store struct {
	path  string
	lock  func(path string) (unlock func() error, err error)
	load  func(path string) (preferences, error)
	write func(path string, data []byte) error
}

func newStore(name, path string) (*store, error) {
	right := store{path: path, lock: flock, load: load, write: replace}
	s := right
	switch name {
	case "rmw":
		s.lock = noLock
	case "fixed-temp-name":
		s.lock, s.write = noLock, replaceFixed
	case "in-place":
		s.write = inPlace
	case "no-fsync":
		s.write = replaceNoSync
	case "lock-by-age":
		s.lock = lockByAge
	case "swallowed-error":
		s.load, s.write = loadOrEmpty, inPlaceSynced
	case "right":
	default:
		return nil, fmt.Errorf("STORE=%q is not known", name)
	}
	if name == "lock-by-age" {
		return &s, nil
	}
	// What a crash has left of a write is nobody's any more: whoever writes holds
	// the lock.
	unlock, err := s.lock(path)
	if err != nil {
		return nil, err
	}
	return &s, errors.Join(sweep(path), unlock())
}

// change reads the document, lets f change it, and writes it.
func (s *store) change(f func(preferences)) (err error) {
	unlock, err := s.lock(s.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	p, err := s.load(s.path)
	if err != nil {
		return err
	}
	f(p)
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return s.write(s.path, data)
}

func (s *store) read() (preferences, error) { return s.load(s.path) }

// Reading.

func load(path string) (preferences, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := preferences{}
	return p, json.Unmarshal(data, &p)
}

// loadOrEmpty takes a file that can not be read for one that is empty: the next
// write then makes it so.
func loadOrEmpty(path string) (preferences, error) {
	p, err := load(path)
	if err != nil {
		return preferences{}, nil
	}
	return p, nil
}

// Writing.

// replace is the durable way: a temporary file with a name of its own, its data
// on the disk before the rename, and the rename on the disk before the answer.
func replace(path string, data []byte) error {
	if err := replaceWith(path, data, (*os.File).Sync); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func replaceNoSync(path string, data []byte) error {
	return replaceWith(path, data, func(*os.File) error { return nil })
}

func replaceWith(path string, data []byte, sync func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix+"*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, sync(f), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

const tempPrefix = "preferences-new-"

// sweep removes temporary files that were never renamed.
func sweep(path string) error {
	old, err := filepath.Glob(filepath.Join(filepath.Dir(path), tempPrefix+"*"))
	for _, name := range old {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// replaceFixed uses one name for all: two writers write into the same file.
func replaceFixed(path string, data []byte) error {
	temp := path + ".tmp"
	if err := os.WriteFile(temp, data, 0o644); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// inPlace has moments at which the file is empty.
func inPlace(path string, data []byte) error { return os.WriteFile(path, data, 0o644) }

func inPlaceSynced(path string, data []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// Locking.

func noLock(string) (func() error, error) { return func() error { return nil }, nil }

// flock is freed by the system when the process ends, however it ends.
func flock(path string) (func() error, error) {
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// staleAfter is the age at which a lock file is taken for that of a dead process.
const staleAfter = 10 * time.Second

// lockByAge takes a lock file away that is old. Its holder may only have been
// slow, and still write.
func lockByAge(path string) (func() error, error) {
	lock := path + ".lock"
	for {
		f, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err == nil {
			return func() error { return os.Remove(lock) }, f.Close()
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		info, err := os.Stat(lock)
		if err == nil && time.Since(info.ModTime()) > staleAfter {
			err = os.Remove(lock)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}
