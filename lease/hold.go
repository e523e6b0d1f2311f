package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Lease is a lease that this process holds, or held. It is safe for concurrent
// use.
type Lease struct {
	m     *Manager
	name  string
	token Token

	ctx  context.Context
	end  context.CancelCauseFunc
	stop chan struct{}
	once sync.Once
	work sync.WaitGroup

	// write is held over each write of the record. It is a channel so that a
	// wait for it ends with a context.
	write   chan struct{}
	rec     record
	version store.Version
	free    bool

	mu       sync.Mutex
	deadline time.Time
	failure  error // of the last renewal
}

// hold starts the renewal. sent is when the acquisition was sent.
func (m *Manager) hold(ctx context.Context, name string, rec record, v store.Version, sent time.Time) *Lease {
	l := &Lease{m: m, name: name, token: rec.Token, rec: rec, version: v,
		stop: make(chan struct{}), write: make(chan struct{}, 1)}
	l.ctx, l.end = context.WithCancelCause(context.WithoutCancel(ctx))
	l.confirm(sent)
	l.work.Go(l.renewals)
	l.work.Go(l.watchdog)
	return l
}

// Name returns the name of the lease.
func (l *Lease) Name() string { return l.name }

// Token returns the fencing token of this acquisition.
func (l *Lease) Token() Token { return l.token }

// Context ends when the lease is lost, with *[LostError] as its cause, and at
// Release, with [ErrReleased]. It has the values of the context given to
// Acquire. Work under the lease should end with it, and must carry the token
// all the same: a process that was stopped goes on before it notices.
func (l *Lease) Context() context.Context { return l.ctx }

// confirm notes a write of the record that was sent at sent and took effect.
func (l *Lease) confirm(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A tenth is left for clocks that run at different rates.
	l.deadline, l.failure = sent.Add(l.rec.TTL-l.rec.TTL/10), nil
}

func (l *Lease) left() (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline.Sub(l.m.now()), l.failure
}

// watchdog ends the context when the deadline passes, also while a renewal is
// under way in a store that does not answer.
func (l *Lease) watchdog() {
	for {
		left, failure := l.left()
		if left <= 0 {
			l.end(&LostError{Name: l.name, Token: l.token, Why: "it could not be renewed in time", Err: failure})
			return
		}
		if !l.wait(left) {
			return
		}
	}
}

// wait lets time pass; false when the lease has ended meanwhile.
func (l *Lease) wait(d time.Duration) bool {
	fired, cancel := l.m.opts.Clock.After(d)
	select {
	case <-fired:
		return true
	case <-l.stop:
	case <-l.ctx.Done():
	}
	cancel()
	return false
}

// renewals renews every third of the TTL, and sooner after a failure.
func (l *Lease) renewals() {
	pause := l.rec.TTL / 3
	for {
		if !l.wait(pause) {
			return
		}
		pause = l.rec.TTL / 3
		if err := l.Renew(l.ctx); err != nil {
			pause = max(time.Millisecond, l.rec.TTL/20)
			l.mu.Lock()
			l.failure = err
			l.mu.Unlock()
		}
	}
}

// Renew renews the lease now; it renews itself anyway. *[LostError] says that
// it is lost; after other errors it is still held until its time is over.
func (l *Lease) Renew(ctx context.Context) error {
	_, err := l.Write(ctx)
	return err
}

// Write applies the steps together with a renewal of the lease, as one: if
// somebody else has taken the lease, nothing is written and the error is
// *[LostError]. A *store.ConflictError is about one of ops. It needs a store
// with batches, except without ops.
func (l *Lease) Write(ctx context.Context, ops ...store.Op) ([]store.Version, error) {
	if caps := l.m.s.Capabilities(); len(ops) > 0 && !caps.Batch {
		return nil, &store.UnsupportedError{Backend: caps.Name, Op: "guarded batch"}
	}
	unlock, err := l.writing(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	for {
		if l.ctx.Err() != nil {
			return nil, context.Cause(l.ctx)
		}
		sent := l.m.now()
		versions, err := l.put(ctx, l.rec, ops)
		if err == nil {
			l.confirm(sent)
			return versions, nil
		}
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) || conflict.Key != l.m.key(l.name) {
			return nil, fmt.Errorf("write under lease %q: %w", l.name, err)
		}
		if err := l.settle(ctx); err != nil {
			return nil, err
		}
	}
}

// writing waits for the turn to write the record.
func (l *Lease) writing(ctx context.Context) (unlock func(), err error) {
	select {
	case l.write <- struct{}{}:
		return func() { <-l.write }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("write under lease %q: not started: %w", l.name, context.Cause(ctx))
	}
}

// put writes rec over the known version, alone or together with ops.
func (l *Lease) put(ctx context.Context, rec record, ops []store.Op) ([]store.Version, error) {
	value, err := encode(rec)
	if err != nil {
		return nil, err
	}
	key, cond := l.m.key(l.name), store.IfVersion(l.version)
	if len(ops) == 0 {
		v, err := l.m.s.Put(ctx, key, value, cond)
		if err == nil {
			l.version = v
		}
		return nil, err
	}
	all := append([]store.Op{{Key: key, Value: value, Cond: cond}}, ops...)
	versions, err := l.m.s.Batch(ctx, all)
	if err != nil {
		return nil, err
	}
	l.version = versions[0]
	return versions[1:], nil
}

// settle is asked when the record is not at the known version: it is that of
// an earlier write of ours whose answer was lost, or the lease is lost. It
// ends the lease in the second case.
func (l *Lease) settle(ctx context.Context) error {
	item, err := l.m.s.Get(ctx, l.m.key(l.name))
	lost := &LostError{Name: l.name, Token: l.token, Why: "somebody else has taken it"}
	if errors.Is(err, store.ErrNotFound) {
		lost.Why = "its record was deleted"
		l.end(lost)
		return lost
	}
	if err != nil {
		return fmt.Errorf("look at lease %q: %w", l.name, err)
	}
	rec, err := decode(item)
	if err != nil {
		return err
	}
	if rec.Claim == l.rec.Claim && rec.Token == l.token && rec.Held {
		l.version = item.Version
		return nil
	}
	if rec.Token > l.token {
		lost.Holder, lost.Current = rec.Holder, rec.Token
	} else {
		lost.Why = "it was released or deleted"
	}
	l.end(lost)
	return lost
}

// Release gives the lease up and waits for its goroutines. It frees the lease
// only while the lease is this one's: if somebody else has taken it, nothing
// is changed and the error is *[LostError]. After another error it may be called
// again; a lease that is not freed ends with its TTL.
func (l *Lease) Release(ctx context.Context) error {
	l.once.Do(func() { close(l.stop) })
	// A renewal under way gets its answer, unless ctx ends first: to cancel it
	// would leave its outcome open.
	unlock, err := l.writing(ctx)
	l.end(ErrReleased)
	l.work.Wait()
	if err != nil {
		return err
	}
	defer unlock()
	freed := record{Token: l.rec.Token, Ceiling: l.rec.Ceiling}
	for !l.free {
		_, err := l.put(ctx, freed, nil)
		if errors.Is(err, store.ErrConflict) {
			var lost *LostError
			if err = l.settle(ctx); errors.As(err, &lost) && lost.Current == 0 {
				// Deleted, or free by an earlier try of this release.
				err = nil
				l.free = true
			} else if err == nil {
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("release: %w", err)
		}
		l.free = true
	}
	return nil
}

// Release frees the lease if its holder is the one with this token, for callers
// that kept only the token, such as another process of the same job. If
// somebody else has taken it since, nothing is changed and the error is
// *[LostError]; if it is free already, that is ok.
func (m *Manager) Release(ctx context.Context, name string, token Token) error {
	key := m.key(name)
	if err := checkName("release lease", name, key); err != nil {
		return err
	}
	for {
		item, err := m.s.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("release lease %q: %w", name, err)
		}
		rec, err := decode(item)
		switch {
		case err != nil:
			return err
		case rec.Token != token:
			return &LostError{Name: name, Token: token, Why: "somebody else has taken it", Holder: rec.Holder, Current: rec.Token}
		case !rec.Held:
			return nil
		}
		value, err := encode(record{Token: rec.Token, Ceiling: rec.Ceiling})
		if err != nil {
			return err
		}
		_, err = m.s.Put(ctx, key, value, store.IfVersion(item.Version))
		if !errors.Is(err, store.ErrConflict) {
			return wrap("release", name, err)
		}
		// A renewal came between; look again.
	}
}

// Do acquires the lease, runs f, and releases it. The context of f ends when
// ctx ends or the lease is lost, with *[LostError] as its cause. If f returns
// nil and the lease was lost meanwhile, Do returns that loss: f's writes with
// the token were refused or came in time, its other effects may have met
// those of a successor.
func (m *Manager) Do(ctx context.Context, name string, f func(ctx context.Context, l *Lease) error) error {
	l, err := m.Acquire(ctx, name)
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	defer func() {
		// If f panics, the lease is left to its TTL.
		unhook()
		cancel(ErrReleased)
		l.once.Do(func() { close(l.stop) })
	}()
	err = f(inner, l)
	lost := context.Cause(l.ctx)
	// The end of ctx is no reason to keep others waiting for the TTL.
	rctx, done := context.WithTimeout(context.WithoutCancel(ctx), l.rec.TTL)
	defer done()
	if rerr := l.Release(rctx); lost == nil || errors.Is(lost, ErrReleased) {
		lost = rerr
	}
	return errors.Join(err, lost)
}
