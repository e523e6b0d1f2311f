package idempotency

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// ClaimOptions are for [NewClaims]. Prefix is needed.
type ClaimOptions struct {
	// Prefix is where the claims are kept, without a slash at the end.
	Prefix string
	// TTL is how long an answer is kept; 0 means [DefaultTTL], and less than
	// [MinTTL] is refused.
	TTL time.Duration
	// Lease is how long a holder may take before another one takes over; 0
	// means a minute.
	Lease time.Duration
	// Now is the clock for leases and expiry; nil means time.Now. A clock that
	// is fast takes over early: the fence still lets one holder complete.
	Now func() time.Time
}

// Claims keeps keys in a store for effects that are not in the store, in two
// steps: claim, then complete. Of all holders of a key one completes; see the
// package comment for what that does not say about the effect. It is safe for
// concurrent use.
type Claims struct {
	s    *store.Store
	opts ClaimOptions
}

// claim is what is stored.
type claim struct {
	// State is "held", "free" or "done".
	State       string `json:"state"`
	Fence       uint64 `json:"fence"`
	Fingerprint []byte `json:"f,omitempty"`
	Answer      Answer `json:"a,omitzero"`
	// Until is the end of the lease, of a free record's rest, or of the answer,
	// in milliseconds since 1970.
	Until int64 `json:"until"`
}

// NewClaims keeps claims in a store that enforces create-only and if-version.
func NewClaims(s *store.Store, opts ClaimOptions) (*Claims, error) {
	if opts.Prefix == "" {
		return nil, &store.InvalidError{Op: "idempotency", What: "prefix", Why: "it is empty"}
	}
	caps := s.Capabilities()
	if !caps.Put.CreateOnly || !caps.Put.IfVersion || !caps.Delete.IfVersion {
		return nil, &store.UnsupportedError{Backend: caps.Name, Op: "idempotency claims (create-only and if-version writes and deletes)"}
	}
	var err error
	if opts.TTL, err = ttlOrError(opts.TTL); err != nil {
		return nil, err
	}
	if opts.Lease <= 0 {
		opts.Lease = time.Minute
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Claims{s: s, opts: opts}, nil
}

// Claim is a key that is held. It is not safe for concurrent use.
type Claim struct {
	// Fence grows with each holder of the key. Send it along with the effect
	// where the target can reject a smaller one than it has seen.
	Fence uint64

	c       *Claims
	req     Request
	version store.Version
}

func (c *Claims) key(req Request) string {
	// Scopes and keys hold characters that keys of a store may not.
	return fmt.Sprintf("%s/%x", c.opts.Prefix, Fingerprint([]byte(req.Scope), []byte(req.Key)))
}

// Begin claims the key. It returns a claim, or the recorded answer of a copy;
// one of the two is nil. While another holder's lease runs it is
// *[InProgressError].
func (c *Claims) Begin(ctx context.Context, req Request) (*Claim, *Answer, error) {
	if err := req.check(); err != nil {
		return nil, nil, err
	}
	item, err := c.s.Get(ctx, c.key(req))
	cond := store.CreateOnly()
	var old claim
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return nil, nil, err
	default:
		if err := json.Unmarshal(item.Value, &old); err != nil {
			return nil, nil, &store.CorruptError{Key: c.key(req), Why: err.Error()}
		}
		cond = store.IfVersion(item.Version)
	}
	now := c.opts.Now()
	current := now.UnixMilli() < old.Until
	if current && old.State != "free" {
		if len(old.Fingerprint) > 0 && len(req.Fingerprint) > 0 && !bytes.Equal(old.Fingerprint, req.Fingerprint) {
			return nil, nil, &MismatchError{Scope: req.Scope, Key: req.Key}
		}
		if old.State == "done" {
			return nil, &old.Answer, nil
		}
		return nil, nil, &InProgressError{Scope: req.Scope, Key: req.Key}
	}
	// The time in the fence keeps it growing when the record before it has been
	// swept, as long as the clock is not set back by more than the TTL.
	next := claim{State: "held", Fence: max(old.Fence+1, uint64(now.UnixMicro())), Fingerprint: req.Fingerprint,
		Until: now.Add(c.opts.Lease).UnixMilli()}
	version, err := c.put(ctx, req, next, cond)
	switch {
	case errors.Is(err, store.ErrConflict):
		return nil, nil, &InProgressError{Scope: req.Scope, Key: req.Key, Err: err}
	case err != nil:
		// If the claim did take effect, it frees itself after the lease.
		return nil, nil, err
	}
	return &Claim{Fence: next.Fence, c: c, req: req, version: version}, nil, nil
}

func (c *Claims) put(ctx context.Context, req Request, next claim, cond store.Condition) (store.Version, error) {
	raw, err := json.Marshal(next)
	if err != nil {
		return "", fmt.Errorf("claim idempotency key %q: %w", req.Key, err)
	}
	return c.s.Put(ctx, c.key(req), raw, cond)
}

// Complete records the answer, if the key is still this holder's. A holder that
// was replaced gets *[TakenOverError] and nothing is recorded: not because its
// lease has run out, which it may not notice, but because the version that it
// holds is not there any more.
//
// After store.ErrUnknownOutcome, Begin with the same key tells what was
// recorded.
func (h *Claim) Complete(ctx context.Context, a Answer) error {
	return h.finish(ctx, h.done(a))
}

func (h *Claim) done(a Answer) claim {
	return claim{State: "done", Fence: h.Fence, Fingerprint: h.req.Fingerprint, Answer: a, Until: h.c.opts.Now().Add(h.c.opts.TTL).UnixMilli()}
}

// CompleteWith records the answer together with further writes to the same
// store, as one batch: with the effect in it, the effect happens exactly once.
// A store that does not declare Batch refuses with store.ErrUnsupported. A
// conflict of one of ops is that conflict; nothing was written then.
func (h *Claim) CompleteWith(ctx context.Context, a Answer, ops ...store.Op) error {
	raw, err := json.Marshal(h.done(a))
	if err != nil {
		return fmt.Errorf("complete idempotency key %q: %w", h.req.Key, err)
	}
	key := h.c.key(h.req)
	_, err = h.c.s.Batch(ctx, append([]store.Op{{Key: key, Value: raw, Cond: store.IfVersion(h.version)}}, ops...))
	return h.failed(err)
}

// Abandon frees the key for the next copy, because the effect did not happen.
func (h *Claim) Abandon(ctx context.Context) error {
	// The record stays, so that the fence keeps growing.
	return h.finish(ctx, claim{State: "free", Fence: h.Fence, Fingerprint: h.req.Fingerprint, Until: h.c.opts.Now().Add(h.c.opts.TTL).UnixMilli()})
}

func (h *Claim) finish(ctx context.Context, next claim) error {
	_, err := h.c.put(ctx, h.req, next, store.IfVersion(h.version))
	return h.failed(err)
}

// failed turns the conflict on the claim into a takeover. Conflicts on other
// keys of a batch stay what they are.
func (h *Claim) failed(err error) error {
	if conflict, is := errors.AsType[*store.ConflictError](err); is && conflict.Key == h.c.key(h.req) {
		return &TakenOverError{Scope: h.req.Scope, Key: h.req.Key, Fence: h.Fence, Err: err}
	}
	if err != nil {
		return fmt.Errorf("complete idempotency key %q: %w", h.req.Key, err)
	}
	return nil
}

// Sweep deletes at most limit records whose time is over, answers and abandoned
// or crashed claims alike, and returns how many it deleted. A record that is
// taken over in between stays.
func (c *Claims) Sweep(ctx context.Context, limit int) (int, error) {
	n := 0
	if limit <= 0 {
		return 0, &store.InvalidError{Op: "sweep", What: fmt.Sprintf("limit %d", limit), Why: "it must be positive"}
	}
	for item, err := range c.s.List(ctx, store.ListOptions{Prefix: c.opts.Prefix + "/", Detail: store.Values}) {
		if err != nil {
			return n, err
		}
		var old claim
		if err := json.Unmarshal(item.Value, &old); err != nil {
			return n, &store.CorruptError{Key: item.Key, Why: err.Error()}
		}
		until := time.UnixMilli(old.Until)
		if old.State == "held" {
			// A crashed holder's fence rests as long as an answer does.
			until = until.Add(c.opts.TTL)
		}
		if c.opts.Now().Before(until) {
			continue
		}
		switch err := c.s.Delete(ctx, item.Key, store.IfVersion(item.Version)); {
		case err == nil:
			n++
		case !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound):
			return n, err
		}
		if n == limit {
			break
		}
	}
	return n, nil
}
