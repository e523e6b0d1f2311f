//go:build unix

package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The pauses between tries of a lock that somebody holds. flock can wait by
// itself, but then the end of a context could not interrupt it.
const (
	lockPauseMin = 50 * time.Microsecond
	lockPauseMax = 2 * time.Millisecond
)

// Lock takes the exclusive lock that path names, creating the file if needed,
// and returns the function that releases it. It excludes other processes and
// other goroutines of this one. The system releases it when the process ends,
// however it ends; a process that is merely stopped keeps it.
//
// The lock file is best left in place. Lock withstands its removal all the
// same: after taking the lock it checks that the locked file is still the one
// at path. Without that check, A holds the lock, somebody removes the file, B
// creates a new one and locks that: both hold "the" lock.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	pause := lockPauseMin
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		held, err := tryFlock(f)
		if err == nil && held {
			var same bool
			if same, err = isAt(f, path); err == nil && same {
				return func() { _ = f.Close() }, nil
			}
		}
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if held {
			continue
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("lock %s: somebody else holds it: %w", path, context.Cause(ctx))
		}
		pause = min(2*pause, lockPauseMax)
	}
}

// isAt says whether the open file is the one that path names.
func isAt(f *os.File, path string) (bool, error) {
	var open, named unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &open); err != nil {
		return false, err
	}
	if open.Nlink == 0 {
		return false, nil
	}
	err := unix.Stat(path, &named)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && open.Dev == named.Dev && open.Ino == named.Ino, err
}
