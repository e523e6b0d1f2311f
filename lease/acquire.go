package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
)

// errLookAgain says that the record changed between the look and the write.
var errLookAgain = errors.New("the lease changed meanwhile")

// firstPause is the first pause of a waiting Acquire; it doubles up to Poll.
const firstPause = 2 * time.Millisecond

// Acquire takes the lease, waiting for it until ctx ends; then the error is
// *[HeldError] with the cause of ctx. The lease renews itself until Release,
// which must be called; it does not end with ctx.
func (m *Manager) Acquire(ctx context.Context, name string) (*Lease, error) {
	pause := firstPause
	var last error // of a look that came to an end before ctx did
	for {
		l, err := m.TryAcquire(ctx, name)
		if err == nil {
			return l, nil
		}
		var held *HeldError
		retry := errors.As(err, &held) || errors.Is(err, store.ErrUnknownOutcome)
		if ctx.Err() != nil && !retry && last != nil {
			err, retry = last, true
		}
		if !retry {
			return nil, err
		}
		last = err
		wait := pause/2 + rand.N(pause/2+1)
		if errors.As(err, &held) {
			wait = min(wait, held.Remaining)
		}
		fired, stop := m.opts.Clock.After(wait)
		select {
		case <-fired:
		case <-ctx.Done():
			stop()
			if held != nil {
				held.Cause = context.Cause(ctx)
			}
			return nil, err
		}
		pause = min(2*pause, m.opts.Poll)
	}
}

// TryAcquire takes the lease if it is free, or if this Manager has seen it
// unchanged for its whole TTL; otherwise it returns *[HeldError] at once. What
// it saw is remembered for the next call. An error that wraps
// store.ErrUnknownOutcome leaves open whether the lease is taken; the next call
// finds out.
func (m *Manager) TryAcquire(ctx context.Context, name string) (*Lease, error) {
	if err := checkName("acquire lease", name, m.key(name)); err != nil {
		return nil, err
	}
	for {
		l, err := m.look(ctx, name, nil)
		if !errors.Is(err, errLookAgain) {
			return l, wrap("acquire", name, err)
		}
		// Somebody else's write went through each time this one did not, so
		// this ends with somebody holding the lease, or with ctx.
	}
}

// Steal takes the lease away from the holder that was seen, without waiting for
// its TTL: for a person or a supervisor who knows that it is dead. If anything
// has happened to the lease since, a renewal included, it returns *[HeldError].
func (m *Manager) Steal(ctx context.Context, seen Info) (*Lease, error) {
	if err := checkName("steal lease", seen.Name, m.key(seen.Name)); err != nil {
		return nil, err
	}
	if seen.Version == "" {
		return nil, &store.InvalidError{Op: "steal lease", What: fmt.Sprintf("lease %q", seen.Name),
			Why: "it has no version, so there is no holder to take it from; use TryAcquire"}
	}
	l, err := m.look(ctx, seen.Name, &seen)
	if errors.Is(err, errLookAgain) {
		err = &HeldError{Name: seen.Name, Holder: seen.Holder, Token: seen.Token, Cause: errLookAgain}
	}
	return l, wrap("steal", seen.Name, err)
}

func wrap(op, name string, err error) error {
	var held *HeldError
	if err == nil || errors.As(err, &held) {
		return err
	}
	return fmt.Errorf("%s lease %q: %w", op, name, err)
}

// look reads the record once and takes the lease if it may. stealing names the
// version to take away; nil respects the holder's TTL.
func (m *Manager) look(ctx context.Context, name string, stealing *Info) (*Lease, error) {
	item, err := m.s.Get(ctx, m.key(name))
	if errors.Is(err, store.ErrNotFound) && stealing == nil {
		item, err = m.seed(ctx, name)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil, errLookAgain
	}
	if err != nil {
		return nil, err
	}
	rec, err := decode(item)
	if err != nil {
		return nil, err
	}
	switch {
	case stealing != nil:
		if item.Version != stealing.Version {
			return nil, errLookAgain
		}
	case rec.Held && !m.ours(name, item.Version, rec):
		if left := m.observe(name, item.Version, rec.TTL); left > 0 {
			return nil, &HeldError{Name: name, Holder: rec.Holder, Token: rec.Token, Remaining: left}
		}
	}
	return m.take(ctx, name, item.Version, rec)
}

// seed creates the record of an absent lease, without a holder and a token.
func (m *Manager) seed(ctx context.Context, name string) (store.Item, error) {
	value, err := encode(record{})
	if err != nil {
		return store.Item{}, err
	}
	v, err := m.s.Put(ctx, m.key(name), value, store.CreateOnly())
	switch {
	case errors.Is(err, store.ErrConflict):
		return store.Item{}, errLookAgain
	case err != nil:
		return store.Item{}, err
	}
	return store.Item{Key: m.key(name), Value: value, Version: v}, nil
}

// take replaces the record of version base by one of this process.
func (m *Manager) take(ctx context.Context, name string, base store.Version, old record) (*Lease, error) {
	token, ceiling, err := m.draw(ctx, old)
	if err != nil {
		return nil, err
	}
	rec := record{Token: token, Ceiling: ceiling, Held: true, Holder: m.opts.Holder, Claim: backend.NewNonce(), TTL: m.opts.TTL}
	value, err := encode(rec)
	if err != nil {
		return nil, err
	}
	sent := m.now()
	v, err := m.s.Put(ctx, m.key(name), value, store.IfVersion(base))
	switch {
	case err == nil:
		m.forget(name)
		return m.hold(ctx, name, rec, v, sent), nil
	case errors.Is(err, store.ErrConflict):
		return nil, errLookAgain
	case errors.Is(err, store.ErrUnknownOutcome):
		m.mu.Lock()
		m.unsure[name] = append(m.unsure[name], attempted{claim: rec.Claim, base: base})
		m.mu.Unlock()
	}
	return nil, err
}

// ours says whether the record is that of an acquisition of this Manager whose
// answer was lost: nobody works under it, so it is taken over at once.
func (m *Manager) ours(name string, v store.Version, rec record) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := false
	left := slices.DeleteFunc(m.unsure[name], func(a attempted) bool {
		found = found || a.claim == rec.Claim
		// Its base is gone and it is not there: it can not come any more.
		return a.claim != rec.Claim && a.base != v
	})
	if m.unsure[name] = left; len(left) == 0 {
		delete(m.unsure, name)
	}
	return found
}

// observe returns for how long the lease must still be seen at v before it may
// be taken over. It counts from the end of the first read that showed v, which
// is later than the write of v; that this same v is still there at the end is
// the condition of the write.
func (m *Manager) observe(name string, v store.Version, ttl time.Duration) time.Duration {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	o, known := m.seen[name]
	if !known || o.version != v {
		o = observation{version: v, since: now}
		m.seen[name] = o
	}
	return ttl - now.Sub(o.since)
}

func (m *Manager) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, name)
}
