package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// Store is a backend behind the checks that no backend may forget: keys,
// empty versions, undeclared conditions, values over the limit, lost answers.
// It is safe for concurrent use.
type Store struct {
	b    backend.Backend
	caps backend.Capabilities
	tel  *telemetry
	opts Options
}

// Options are for [New]. The zero value is useful.
type Options struct {
	// Telemetry names where spans and counters go; the zero value uses the
	// process-wide OpenTelemetry providers.
	Telemetry Telemetry
	// WatchInterval is how often Watch lists on a backend that does not report
	// changes itself. 0 means one second.
	WatchInterval time.Duration
}

// New puts a store in front of a backend and takes over closing it.
func New(b backend.Backend, opts Options) *Store {
	caps := b.Capabilities()
	if opts.WatchInterval <= 0 {
		opts.WatchInterval = time.Second
	}
	return &Store{b: b, caps: caps, tel: newTelemetry(caps.Name, opts.Telemetry), opts: opts}
}

// Capabilities says what the backend enforces.
func (s *Store) Capabilities() Capabilities { return s.caps }

// Backend returns the backend, for what is special to it.
func (s *Store) Backend() Backend { return s.b }

// Close releases the backend. Calls after it fail with [ErrClosed].
func (s *Store) Close() error { return s.b.Close() }

// Get returns the item at key. *[NotFoundError] means that the store answered
// that there is none; every other error means that nothing is known.
func (s *Store) Get(ctx context.Context, key string) (Item, error) {
	ctx, done := s.tel.start(ctx, opGet, backend.KindNone)
	item, err := s.get(ctx, key)
	done(err)
	return item, err
}

func (s *Store) get(ctx context.Context, key string) (Item, error) {
	if err := backend.CheckKey("get", key); err != nil {
		return Item{}, err
	}
	if err := ended(ctx, "get", key); err != nil {
		return Item{}, err
	}
	return s.b.Get(ctx, key)
}

// Put writes value at key if cond holds, and returns the version of this
// write. The outcomes are described in the package comment.
func (s *Store) Put(ctx context.Context, key string, value []byte, cond Condition) (Version, error) {
	ctx, done := s.tel.start(ctx, opPut, cond.Kind())
	v, err := s.put(ctx, key, value, cond)
	done(err)
	return v, err
}

func (s *Store) put(ctx context.Context, key string, value []byte, cond Condition) (Version, error) {
	if err := s.checkPut("put", key, value, cond); err != nil {
		return "", err
	}
	if err := ended(ctx, "put", key); err != nil {
		return "", err
	}
	req := backend.PutRequest{Key: key, Value: value, Cond: cond, Nonce: backend.NewNonce()}
	v, err := s.b.Put(ctx, req)
	if err == nil {
		return v, nil
	}
	var conflict *ConflictError
	if errors.As(err, &conflict) && conflict.FoundNonce == req.Nonce {
		// A client library below sent the request twice: the first attempt
		// took effect and the second met it. That is this write's success.
		return conflict.Found, nil
	}
	var unknown *UnknownOutcomeError
	if errors.As(err, &unknown) && !unknown.Undurable {
		return s.settle(ctx, req, unknown)
	}
	return "", err
}

func (s *Store) checkPut(op, key string, value []byte, cond Condition) error {
	if err := backend.CheckKey(op, key); err != nil {
		return err
	}
	if limit := s.caps.MaxValueBytes; limit > 0 && len(value) > limit {
		return &InvalidError{Op: op, What: fmt.Sprintf("value of %q", key),
			Why: fmt.Sprintf("it has %d bytes, the %s backend takes %d", len(value), s.caps.Name, limit)}
	}
	return backend.CheckCondition(s.caps.Name, op, key, cond, s.caps.Put)
}

// Delete removes key if cond ([None] or [IfVersion]) holds. Without a
// condition, deleting an absent key is ok.
func (s *Store) Delete(ctx context.Context, key string, cond Condition) error {
	ctx, done := s.tel.start(ctx, opDelete, cond.Kind())
	err := s.delete(ctx, key, cond)
	done(err)
	return err
}

func (s *Store) delete(ctx context.Context, key string, cond Condition) error {
	if err := s.checkDelete("delete", key, cond); err != nil {
		return err
	}
	if err := ended(ctx, "delete", key); err != nil {
		return err
	}
	return s.b.Delete(ctx, backend.DeleteRequest{Key: key, Cond: cond})
}

func (s *Store) checkDelete(op, key string, cond Condition) error {
	if err := backend.CheckKey(op, key); err != nil {
		return err
	}
	if cond.Kind() == backend.KindCreateOnly {
		return &InvalidError{Op: op, What: fmt.Sprintf("condition on %q", key), Why: "create-only has no meaning for a delete"}
	}
	return backend.CheckCondition(s.caps.Name, op, key, cond, s.caps.Delete)
}

// List yields the items that opts selects, in ascending byte order of their
// keys, fetching pages as the caller goes on. After an error it stops. A
// listing is not a snapshot: a key that exists throughout is in it exactly
// once; one that is written or deleted meanwhile may or may not be.
func (s *Store) List(ctx context.Context, opts ListOptions) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		ctx, done := s.tel.start(ctx, opList, backend.KindNone)
		err := s.list(ctx, opts, yield)
		done(err)
	}
}

// list returns what went wrong, after it has yielded it.
func (s *Store) list(ctx context.Context, opts ListOptions, yield func(Item, error) bool) error {
	err := backend.CheckPrefix("list", opts.Prefix)
	if err == nil {
		err = ended(ctx, "list", opts.Prefix)
	}
	if err != nil {
		yield(Item{}, err)
		return err
	}
	for item, err := range s.b.List(ctx, opts) {
		if err != nil {
			yield(Item{}, err)
			return err
		}
		if !yield(item, nil) {
			return nil
		}
	}
	return nil
}

// Batch applies all steps as one, or none of them. Keys must differ. A
// *[ConflictError] names the first key whose condition failed. Backends that
// do not declare Batch refuse with *[UnsupportedError].
func (s *Store) Batch(ctx context.Context, ops []Op) ([]Version, error) {
	ctx, done := s.tel.start(ctx, opBatch, backend.KindNone)
	versions, err := s.batch(ctx, ops)
	done(err)
	return versions, err
}

func (s *Store) batch(ctx context.Context, ops []Op) ([]Version, error) {
	b, ok := s.b.(backend.Batcher)
	if !ok || !s.caps.Batch {
		return nil, &UnsupportedError{Backend: s.caps.Name, Op: "batch"}
	}
	seen := make(map[string]bool, len(ops))
	sent := make([]Op, len(ops))
	for i, op := range ops {
		if seen[op.Key] {
			return nil, &InvalidError{Op: "batch", What: fmt.Sprintf("key %q", op.Key), Why: "it occurs twice; the steps of a batch have no order"}
		}
		seen[op.Key] = true
		check := s.checkPut("batch", op.Key, op.Value, op.Cond)
		if op.Delete {
			check = s.checkDelete("batch", op.Key, op.Cond)
		}
		if check != nil {
			return nil, check
		}
		op.Nonce = backend.NewNonce()
		sent[i] = op
	}
	if err := ended(ctx, "batch", fmt.Sprintf("%d keys", len(ops))); err != nil {
		return nil, err
	}
	if len(ops) == 0 {
		return nil, nil
	}
	versions, err := b.Batch(ctx, sent)
	var unknown *UnknownOutcomeError
	if errors.As(err, &unknown) && !unknown.Undurable {
		return s.settleBatch(ctx, sent, unknown)
	}
	return versions, err
}

// Unbounded are the bounds of a guarded add that only overflow can leave.
func Unbounded() (lowest, highest int64) { return math.MinInt64, math.MaxInt64 }

// Add adds delta to the decimal integer at key in one native step if the sum
// stays between lowest and highest, both inclusive; an absent key counts as
// zero. Outside, it returns *[BoundsError] and writes nothing. Backends that do
// not declare Add refuse with *[UnsupportedError].
func (s *Store) Add(ctx context.Context, key string, delta, lowest, highest int64) (int64, Version, error) {
	ctx, done := s.tel.start(ctx, opAdd, backend.KindNone)
	sum, v, err := s.add(ctx, key, delta, lowest, highest)
	done(err)
	return sum, v, err
}

func (s *Store) add(ctx context.Context, key string, delta, lowest, highest int64) (int64, Version, error) {
	b, ok := s.b.(backend.Adder)
	if !ok || !s.caps.Add {
		return 0, "", &UnsupportedError{Backend: s.caps.Name, Op: "add"}
	}
	if err := backend.CheckKey("add", key); err != nil {
		return 0, "", err
	}
	if lowest > highest {
		return 0, "", &InvalidError{Op: "add", What: fmt.Sprintf("bounds of %q", key), Why: fmt.Sprintf("%d is above %d", lowest, highest)}
	}
	if err := ended(ctx, "add", key); err != nil {
		return 0, "", err
	}
	req := backend.AddRequest{Key: key, Delta: delta, Min: lowest, Max: highest, Nonce: backend.NewNonce()}
	sum, v, err := b.Add(ctx, req)
	var unknown *UnknownOutcomeError
	if errors.As(err, &unknown) && !unknown.Undurable {
		return s.settleAdd(ctx, req, unknown)
	}
	return sum, v, err
}

// ended is the one place where a call that comes with an ended context stops,
// before anything was sent.
func ended(ctx context.Context, op, key string) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%s %q: not started, the context has ended: %w", op, key, context.Cause(ctx))
}
