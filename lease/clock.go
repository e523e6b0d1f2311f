package lease

import "time"

// Clock measures durations on this machine. Tests give one that they move.
type Clock interface {
	// Now has a monotonic reading, or otherwise never steps.
	Now() time.Time
	// After sends once when d has passed; stop releases what it holds.
	After(d time.Duration) (fired <-chan time.Time, stop func())
}

// SystemClock is the clock of this machine.
type SystemClock struct{}

// Now implements Clock.
func (SystemClock) Now() time.Time { return time.Now() }

// After implements Clock.
func (SystemClock) After(d time.Duration) (<-chan time.Time, func()) {
	timer := time.NewTimer(d)
	return timer.C, func() { timer.Stop() }
}
