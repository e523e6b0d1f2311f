package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// Retry bounds a loop of fresh read, change, conditional write. The zero value
// is five attempts with full jitter, which suits a person's action.
type Retry struct {
	// Attempts is how many writes are tried; 0 means 5. UntilDeadline tries
	// until the context ends: five tries are too few on a key that 64 writers
	// change at once, where each round has one winner.
	Attempts int
	// Base is the longest first wait, doubled for each further one up to Cap;
	// the real wait is drawn evenly between zero and that ("full jitter"), so
	// that losers of one round do not meet again in the next. 0 means 5 ms
	// and 250 ms.
	Base, Cap time.Duration
	// OnRetry is told of each lost attempt that will be tried again, counted
	// from 1, before the wait.
	OnRetry func(attempt int, wait time.Duration, lost error)
}

// UntilDeadline as Retry.Attempts tries until the context ends. A context
// without a deadline gets DefaultPatience.
const UntilDeadline = -1

// DefaultPatience bounds UntilDeadline where the context has no deadline.
const DefaultPatience = 30 * time.Second

func (r Retry) withDefaults() Retry {
	if r.Attempts == 0 {
		r.Attempts = 5
	}
	if r.Base <= 0 {
		r.Base = 5 * time.Millisecond
	}
	if r.Cap <= 0 {
		r.Cap = 250 * time.Millisecond
	}
	return r
}

// wait draws the pause after the given lost attempt, counted from 1.
func (r Retry) wait(attempt int) time.Duration {
	top := r.Cap
	if shift := attempt - 1; shift < 30 && r.Base<<shift < top {
		top = r.Base << shift
	}
	return rand.N(top + 1)
}

// ExhaustedError says that a retry loop ended without a write. It wraps the
// last conflict, so errors.Is(err, ErrConflict) is true: nothing was written.
type ExhaustedError struct {
	Key      string
	Attempts int
	Elapsed  time.Duration
	// Last is the last conflict.
	Last error
	// Cause is the end of the context, if that stopped the loop.
	Cause error
}

func (e *ExhaustedError) Error() string {
	why := "the attempts are used up"
	if e.Cause != nil {
		why = e.Cause.Error()
	}
	return fmt.Sprintf("update %q: lost %d attempts in %s (%s); nothing was written; last: %v",
		e.Key, e.Attempts, e.Elapsed.Round(time.Millisecond), why, e.Last)
}

// Unwrap returns the last conflict and the cause.
func (e *ExhaustedError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Last}
	}
	return []error{e.Last, e.Cause}
}

// Update changes the value at key by a fresh read, change and conditional
// write, repeated on conflict. change gets the current item and whether it
// exists, and returns the new value; it may run several times and must have no
// other effects. An error from change ends the loop and is returned as it is.
//
// An unknown outcome ends the loop: running change again on a value that
// already holds its effect would apply it twice.
func (s *Store) Update(ctx context.Context, key string, retry Retry, change func(item Item, exists bool) ([]byte, error)) (Item, error) {
	var out Item
	err := s.Retry(ctx, key, retry, func(ctx context.Context) error {
		item, err := s.Get(ctx, key)
		exists := err == nil
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		value, err := change(item, exists)
		if err != nil {
			return err
		}
		cond := CreateOnly()
		if exists {
			cond = IfVersion(item.Version)
		}
		v, err := s.Put(ctx, key, value, cond)
		if err != nil {
			return err
		}
		out = Item{Key: key, Value: value, Version: v}
		return nil
	})
	return out, err
}

// Retry runs attempt until it returns something other than a conflict, within
// the bounds of retry. It is the loop of Update, for packages with their own
// attempt. key is for messages.
func (s *Store) Retry(ctx context.Context, key string, retry Retry, attempt func(context.Context) error) error {
	return RunRetry(ctx, key, retry, func(ctx context.Context) { s.tel.retry(ctx, opPut) }, attempt)
}

// RunRetry is the loop of [Store.Retry] for states outside a store. counted, if
// not nil, is called before each further attempt.
func RunRetry(ctx context.Context, key string, retry Retry, counted func(context.Context), attempt func(context.Context) error) error {
	retry = retry.withDefaults()
	if _, has := ctx.Deadline(); !has && retry.Attempts < 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, DefaultPatience,
			fmt.Errorf("no success within %s: %w", DefaultPatience, context.DeadlineExceeded))
		defer cancel()
	}
	start := time.Now()
	for n := 1; ; n++ {
		err := attempt(ctx)
		if err == nil || !errors.Is(err, backend.ErrConflict) {
			return err
		}
		exhausted := &ExhaustedError{Key: key, Attempts: n, Last: err}
		if retry.Attempts > 0 && n >= retry.Attempts {
			exhausted.Elapsed = time.Since(start)
			return exhausted
		}
		wait := retry.wait(n)
		if retry.OnRetry != nil {
			retry.OnRetry(n, wait, err)
		}
		if cause := sleep(ctx, wait); cause != nil {
			exhausted.Elapsed, exhausted.Cause = time.Since(start), cause
			return exhausted
		}
		if counted != nil {
			counted(ctx)
		}
	}
}
