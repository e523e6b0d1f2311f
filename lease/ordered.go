package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Order sorts names into the one order in which several leases or locks are
// taken, ascending by bytes, and leaves duplicates out. Every caller that takes
// more than one must take them in this order, of whatever kind they are: with
// A holding x and waiting for y, and B holding y and waiting for x, nobody goes
// on before a TTL or a deadline ends one of them.
func Order(names ...string) []string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// Set is several leases that are held together.
type Set struct {
	leases []*Lease
	ctx    context.Context
	end    context.CancelCauseFunc
	unhook []func() bool
}

// Ordered takes several leases in the order of [Order], waiting for each until
// ctx ends. If one can not be had, those taken so far are released. Do not call
// it while holding another lease: the order is only one within a call.
func Ordered(ctx context.Context, m *Manager, names ...string) (*Set, error) {
	s := &Set{}
	s.ctx, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	for _, name := range Order(names...) {
		l, err := m.Acquire(ctx, name)
		if err != nil {
			rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releasePatience)
			defer cancel()
			return nil, errors.Join(fmt.Errorf("take %d leases in order: %w", len(names), err), s.Release(rctx))
		}
		s.leases = append(s.leases, l)
		s.unhook = append(s.unhook, context.AfterFunc(l.Context(), func() { s.end(context.Cause(l.Context())) }))
	}
	return s, nil
}

// releasePatience bounds a release after the caller's context has ended.
const releasePatience = 5 * time.Second

// Context ends when any of the leases is lost, or at Release.
func (s *Set) Context() context.Context { return s.ctx }

// Tokens are the fencing tokens by name.
func (s *Set) Tokens() map[string]Token {
	tokens := make(map[string]Token, len(s.leases))
	for _, l := range s.leases {
		tokens[l.name] = l.token
	}
	return tokens
}

// Release releases all, the last taken first. All are tried.
func (s *Set) Release(ctx context.Context) error {
	for _, unhook := range s.unhook {
		unhook()
	}
	s.end(ErrReleased)
	var errs []error
	for _, l := range slices.Backward(s.leases) {
		errs = append(errs, l.Release(ctx))
	}
	return errors.Join(errs...)
}
