// Package fakeclock is a clock that tests move.
package fakeclock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Clock stands still until Advance. The zero value is not usable; see New.
type Clock struct {
	mu      sync.Mutex
	now     time.Time
	waiters []*waiter
	// changed is closed and replaced whenever somebody starts or ends waiting.
	changed chan struct{}
}

type waiter struct {
	at time.Time
	ch chan time.Time
}

// New returns a clock that shows now.
func New(now time.Time) *Clock { return &Clock{now: now, changed: make(chan struct{})} }

// Now returns what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *Clock) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// After sends when the clock has been moved by d.
func (c *Clock) After(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &waiter{at: c.now.Add(d), ch: make(chan time.Time, 1)}
	if d <= 0 {
		w.ch <- c.now
		return w.ch, func() {}
	}
	c.waiters = append(c.waiters, w)
	c.tell()
	return w.ch, func() { c.stop(w) }
}

func (c *Clock) stop(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiters, w); i >= 0 {
		c.waiters = slices.Delete(c.waiters, i, i+1)
		c.tell()
	}
}

// Advance moves the clock and fires what is due.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.waiters = slices.DeleteFunc(c.waiters, func(w *waiter) bool {
		if w.at.After(c.now) {
			return false
		}
		w.ch <- c.now
		return true
	})
	c.tell()
}

// Waiting blocks until at least n calls of After wait.
func (c *Clock) Waiting(ctx context.Context, n int) error {
	for {
		c.mu.Lock()
		have, changed := len(c.waiters), c.changed
		c.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d wait for the clock, not %d: %w", have, n, context.Cause(ctx))
		}
	}
}
