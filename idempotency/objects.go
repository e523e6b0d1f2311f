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

// ObjectOptions are for [NewObjects]. Prefix is needed.
type ObjectOptions struct {
	// Prefix is where the objects are kept, without a slash at the end.
	Prefix string
	// TTL is how long an answer is kept; 0 means [DefaultTTL], and less than
	// [MinTTL] is refused.
	TTL time.Duration
	// MaxKeys is how many unexpired keys one object holds; 0 means 1024. The
	// object is read and written as a whole, answers included.
	MaxKeys int
	// Retry bounds the rounds that are lost to other writers of the object. The
	// zero value is store.UntilDeadline.
	Retry store.Retry
	// Now is the clock that keys expire by; nil means time.Now. The clocks of
	// the writers may differ by much less than the TTL.
	Now func() time.Time
}

// Objects keeps objects of type T in a store, as JSON, each with the keys of the
// requests that have changed it: one conditional write carries the change, the
// key and the answer, on every store that enforces if-version. All changes must
// go through it. It is safe for concurrent use.
type Objects[T any] struct {
	s    *store.Store
	opts ObjectOptions
}

// object is what is stored.
type object[T any] struct {
	Value T                  `json:"value"`
	Keys  map[string]keyInfo `json:"keys,omitempty"`
}

type keyInfo struct {
	Fingerprint []byte `json:"f,omitempty"`
	Answer      Answer `json:"a,omitzero"`
	// Expires is in seconds since 1970.
	Expires int64 `json:"e"`
}

// NewObjects keeps objects in a store.
func NewObjects[T any](s *store.Store, opts ObjectOptions) (*Objects[T], error) {
	if opts.Prefix == "" {
		return nil, &store.InvalidError{Op: "idempotency", What: "prefix", Why: "it is empty"}
	}
	caps := s.Capabilities()
	if !caps.Put.CreateOnly || !caps.Put.IfVersion {
		return nil, &store.UnsupportedError{Backend: caps.Name, Op: "idempotency keys in objects (create-only and if-version writes)"}
	}
	var err error
	if opts.TTL, err = ttlOrError(opts.TTL); err != nil {
		return nil, err
	}
	if opts.MaxKeys <= 0 {
		opts.MaxKeys = 1024
	}
	if opts.Retry.Attempts == 0 {
		opts.Retry.Attempts = store.UntilDeadline
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Objects[T]{s: s, opts: opts}, nil
}

func (o *Objects[T]) key(id string) string { return o.opts.Prefix + "/" + id }

func (o *Objects[T]) load(ctx context.Context, id string) (object[T], store.Condition, error) {
	var obj object[T]
	item, err := o.s.Get(ctx, o.key(id))
	if errors.Is(err, store.ErrNotFound) {
		return obj, store.CreateOnly(), nil
	}
	if err != nil {
		return obj, store.Condition{}, err
	}
	d := json.NewDecoder(bytes.NewReader(item.Value))
	d.DisallowUnknownFields()
	if err := d.Decode(&obj); err != nil {
		return obj, store.Condition{}, &store.CorruptError{Key: o.key(id), Why: err.Error()}
	}
	return obj, store.IfVersion(item.Version), nil
}

// Load returns the object, or store.ErrNotFound.
func (o *Objects[T]) Load(ctx context.Context, id string) (T, error) {
	obj, cond, err := o.load(ctx, id)
	if err == nil && cond == store.CreateOnly() {
		err = &store.NotFoundError{Key: o.key(id)}
	}
	return obj.Value, err
}

// Do changes the object once for the key and returns the answer; for a copy it
// returns the recorded answer and does not run change. An object that is absent
// is made, from the zero value.
//
// change may run several times, on fresh values, and must have no other effects.
// An error of change is returned as it is, and nothing is written. Two copies at
// the same time need no "in progress": one wins the write, and the other one
// reads what it has recorded.
//
// A lost answer of the store is settled by reading the key back; what remains
// unknown is *[UnknownOutcomeError].
func (o *Objects[T]) Do(ctx context.Context, id string, req Request, change func(*T) (Answer, error)) (Result, error) {
	if err := req.check(); err != nil {
		return Result{}, err
	}
	r := round[T]{o: o, id: id, req: req, change: change}
	var result Result
	err := o.s.Retry(ctx, o.key(id), o.opts.Retry, func(ctx context.Context) (err error) {
		r.tries++
		result, err = r.once(ctx)
		return err
	})
	if r.stop != nil {
		err = r.stop
	}
	result.Attempts = r.tries
	if err == nil {
		return result, nil
	}
	if r.lost != nil && !isMismatch(err) {
		err = &UnknownOutcomeError{Scope: req.Scope, Key: req.Key, Lost: r.lost, Err: err}
	}
	return Result{Attempts: r.tries}, err
}

// round is one call of Do.
type round[T any] struct {
	o      *Objects[T]
	id     string
	req    Request
	change func(*T) (Answer, error)
	tries  int
	// lost is a write without an answer that may still take effect.
	lost error
	// stop ends the loop, whatever it is: an error of change may be a conflict
	// of something else.
	stop error
}

// roundError makes the store's loop begin another round.
type roundError struct{ error }

func (e *roundError) Unwrap() error        { return e.error }
func (e *roundError) Is(target error) bool { return target == store.ErrConflict }

func isMismatch(err error) bool {
	_, is := errors.AsType[*MismatchError](err)
	return is
}

func (r *round[T]) once(ctx context.Context) (Result, error) {
	o := r.o
	obj, cond, err := o.load(ctx, r.id)
	if err != nil {
		return Result{}, err
	}
	now := o.opts.Now()
	name := keyName(r.req)
	if known, ok := obj.Keys[name]; ok && now.Unix() < known.Expires {
		if len(known.Fingerprint) > 0 && len(r.req.Fingerprint) > 0 && !bytes.Equal(known.Fingerprint, r.req.Fingerprint) {
			return Result{}, &MismatchError{Scope: r.req.Scope, Key: r.req.Key}
		}
		return Result{Answer: known.Answer, Replayed: r.lost == nil, Settled: r.lost != nil}, nil
	}
	for other, info := range obj.Keys {
		if now.Unix() >= info.Expires {
			delete(obj.Keys, other)
		}
	}
	if len(obj.Keys) >= o.opts.MaxKeys {
		return Result{}, &FullError{ID: r.id, Keys: len(obj.Keys)}
	}
	answer, err := r.change(&obj.Value)
	if err != nil {
		r.stop = err
		return Result{}, nil
	}
	if obj.Keys == nil {
		obj.Keys = map[string]keyInfo{}
	}
	obj.Keys[name] = keyInfo{Fingerprint: r.req.Fingerprint, Answer: answer, Expires: now.Add(o.opts.TTL).Unix()}
	err = o.save(ctx, r.id, obj, cond)
	unknown, isUnknown := errors.AsType[*store.UnknownOutcomeError](err)
	switch {
	case isUnknown && unknown.Undurable:
		// It is there, and reading can not tell whether it stays.
		r.lost, r.stop = err, err
		return Result{}, nil
	case isUnknown:
		// Another round is safe: the write that is under way needs the version
		// that this round has read. If the next round reads the same version,
		// at most one of the two writes meets it; if not, it sees whether the
		// key is there.
		r.lost = err
		return Result{}, &roundError{err}
	}
	return Result{Answer: answer}, err
}

func (o *Objects[T]) save(ctx context.Context, id string, obj object[T], cond store.Condition) error {
	raw, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("save object %q: %w", id, err)
	}
	_, err = o.s.Put(ctx, o.key(id), raw, cond)
	return err
}

// Update changes the object without a key, for changes that may happen twice.
// An unknown outcome is not tried again.
func (o *Objects[T]) Update(ctx context.Context, id string, change func(*T) error) error {
	return o.s.Retry(ctx, o.key(id), o.opts.Retry, func(ctx context.Context) error {
		obj, cond, err := o.load(ctx, id)
		if err != nil {
			return err
		}
		if err := change(&obj.Value); err != nil {
			return err
		}
		return o.save(ctx, id, obj, cond)
	})
}

// keyName can not be mixed up: scopes and keys have no control characters.
func keyName(req Request) string { return req.Scope + "\n" + req.Key }
