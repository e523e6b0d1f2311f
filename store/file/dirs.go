package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/atomicfile"
)

// ensureDir makes dir and its parents below the keys directory, durably. An
// existing directory is synced into its parent all the same, once per process:
// another process may have made it a moment ago and not have synced it yet,
// and a key acknowledged in it must not vanish with it.
func (b *Backend) ensureDir(dir string) error {
	if _, ok := b.known.Load(dir); ok {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := b.ensureDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := atomicfile.SyncDir(parent); err != nil {
		return err
	}
	b.known.Store(dir, true)
	return nil
}

// lock takes the slot of the key: first among the goroutines of this process,
// who wait in a queue, then among processes, where only one of each process
// has to poll.
func (b *Backend) lock(ctx context.Context, key string) (unlock func(), err error) {
	n := fnv1a(key) % slots
	select {
	case b.slots[n] <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("another writer of this process holds the lock: %w", context.Cause(ctx))
	}
	release, err := atomicfile.Lock(ctx, filepath.Join(b.root, "locks", fmt.Sprintf("%02x", n)))
	if err != nil {
		<-b.slots[n]
		return nil, err
	}
	return func() {
		release()
		<-b.slots[n]
	}, nil
}

// sweepEvery keeps many short-lived processes from walking a large store each.
const sweepEvery = time.Minute

func (b *Backend) sweepLoop(ctx context.Context, interval time.Duration) {
	stamp := filepath.Join(b.root, "locks", "swept")
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		info, err := os.Stat(stamp)
		if err != nil || time.Since(info.ModTime()) > min(sweepEvery, interval) {
			// What could not be removed now is left to the next round; no
			// reader or writer depends on it.
			if _, err := b.Sweep(ctx); err == nil {
				_ = os.WriteFile(stamp, nil, 0o600)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Sweep removes the temporary files that dead writers left behind and returns
// how many there were. It runs by itself after Open and then by
// Options.SweepInterval.
func (b *Backend) Sweep(ctx context.Context) (int, error) {
	removed := 0
	err := filepath.WalkDir(b.root, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if !d.IsDir() {
			return nil
		}
		if !strings.HasPrefix(d.Name(), "=") {
			if path != b.root {
				return nil
			}
			// The format file is made in the root itself.
			n, err := atomicfile.Sweep(path)
			removed += n
			return err
		}
		n, err := atomicfile.Sweep(path)
		removed += n
		if err == nil {
			err = fs.SkipDir
		}
		return err
	})
	if err != nil {
		return removed, fmt.Errorf("sweep %s: %w", b.root, err)
	}
	return removed, nil
}
