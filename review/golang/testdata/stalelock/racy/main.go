// Package racy breaks a lock file by its age.
package racy

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

const staleAfter = time.Minute

// Lock waits for the lock file, and removes one that looks old.
func Lock(dir string) error {
	name := dir + "/acme.lock"
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			return f.Close()
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err := os.Stat(name)
		if err == nil && time.Since(info.ModTime()) > staleAfter {
			os.Remove(name)
			continue
		}
		time.Sleep(time.Second)
	}
}

// Unlock removes whatever is there.
func Unlock(dir string) error { return os.Remove(dir + "/acme.lock") }
