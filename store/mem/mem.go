// Package mem keeps a store in the memory of one process: for tests, and for
// state that may be lost when the process ends.
//
// It is the plainest form of the contract - one map under one lock - and the
// twin that the other backends are compared with. Nothing is durable and
// nothing is shared with another process; Capabilities says so.
package mem

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// Backend is an empty store in memory once it comes from New.
type Backend struct {
	mu       sync.RWMutex
	items    map[string]backend.Item
	watchers map[*watcher]struct{}
	closed   chan struct{}
}

// New returns an empty store. Two calls share nothing.
func New() *Backend {
	return &Backend{
		items:    make(map[string]backend.Item),
		watchers: make(map[*watcher]struct{}),
		closed:   make(chan struct{}),
	}
}

// Capabilities implements backend.Backend.
func (b *Backend) Capabilities() backend.Capabilities {
	return backend.Capabilities{
		Name:   "mem",
		Put:    backend.Enforced{CreateOnly: true, IfVersion: true},
		Delete: backend.Enforced{IfVersion: true},
		Batch:  true, Add: true, Watch: true, ListVersions: true,
	}
}

// Close drops the data and ends the watches.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isClosed() {
		return nil
	}
	close(b.closed)
	b.items = nil
	return nil
}

func (b *Backend) isClosed() bool {
	select {
	case <-b.closed:
		return true
	default:
		return false
	}
}

// usable is asked under the lock.
func (b *Backend) usable(ctx context.Context, op, key string) error {
	if b.isClosed() {
		return fmt.Errorf("%s %q: %w", op, key, backend.ErrClosed)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s %q: %w", op, key, context.Cause(ctx))
	}
	return nil
}

// Get implements backend.Backend.
func (b *Backend) Get(ctx context.Context, key string) (backend.Item, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if err := b.usable(ctx, "get", key); err != nil {
		return backend.Item{}, err
	}
	item, ok := b.items[key]
	if !ok {
		return backend.Item{}, &backend.NotFoundError{Key: key}
	}
	// The caller owns what it gets.
	item.Value = bytes.Clone(item.Value)
	return item, nil
}

// check says whether cond holds for key; it is asked under the lock.
func (b *Backend) check(op, key string, cond backend.Condition) error {
	item, exists := b.items[key]
	holds := true
	switch cond.Kind() {
	case backend.KindCreateOnly:
		holds = !exists
	case backend.KindIfVersion:
		holds = exists && item.Version == cond.Version()
	}
	if holds {
		return nil
	}
	return &backend.ConflictError{Op: op, Key: key, Wanted: cond,
		Found: item.Version, Absent: !exists, FoundNonce: item.Nonce}
}

// Put implements backend.Backend.
func (b *Backend) Put(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.usable(ctx, "put", req.Key); err != nil {
		return "", err
	}
	if err := b.check("put", req.Key, req.Cond); err != nil {
		return "", err
	}
	return b.set(req.Key, req.Value, req.Nonce), nil
}

func (b *Backend) set(key string, value []byte, nonce string) backend.Version {
	item := backend.Item{Key: key, Value: bytes.Clone(value), Version: backend.Version(nonce), Nonce: nonce}
	b.items[key] = item
	b.tell(backend.Event{Item: item})
	return item.Version
}

func (b *Backend) remove(key string) {
	if _, had := b.items[key]; had {
		delete(b.items, key)
		b.tell(backend.Event{Item: backend.Item{Key: key}, Deleted: true})
	}
}

// Delete implements backend.Backend.
func (b *Backend) Delete(ctx context.Context, req backend.DeleteRequest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.usable(ctx, "delete", req.Key); err != nil {
		return err
	}
	if err := b.check("delete", req.Key, req.Cond); err != nil {
		return err
	}
	b.remove(req.Key)
	return nil
}

// Batch implements backend.Batcher.
func (b *Backend) Batch(ctx context.Context, ops []backend.Op) ([]backend.Version, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.usable(ctx, "batch", ""); err != nil {
		return nil, err
	}
	for _, op := range ops {
		if err := b.check("batch", op.Key, op.Cond); err != nil {
			return nil, err
		}
	}
	versions := make([]backend.Version, len(ops))
	for i, op := range ops {
		if op.Delete {
			b.remove(op.Key)
			continue
		}
		versions[i] = b.set(op.Key, op.Value, op.Nonce)
	}
	return versions, nil
}

// Add implements backend.Adder.
func (b *Backend) Add(ctx context.Context, req backend.AddRequest) (int64, backend.Version, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.usable(ctx, "add", req.Key); err != nil {
		return 0, "", err
	}
	var current int64
	if item, ok := b.items[req.Key]; ok {
		n, err := strconv.ParseInt(string(item.Value), 10, 64)
		if err != nil {
			return 0, "", &backend.CorruptError{Key: req.Key, Why: "an add needs a decimal integer"}
		}
		current = n
	}
	sum := current + req.Delta
	overflow := (req.Delta > 0 && current > math.MaxInt64-req.Delta) || (req.Delta < 0 && current < math.MinInt64-req.Delta)
	if overflow || sum < req.Min || sum > req.Max {
		return 0, "", &backend.BoundsError{Key: req.Key, Delta: req.Delta, Min: req.Min, Max: req.Max, Current: current}
	}
	return sum, b.set(req.Key, strconv.AppendInt(nil, sum, 10), req.Nonce), nil
}

// List implements backend.Backend. It takes the keys in one look and the items
// one by one.
func (b *Backend) List(ctx context.Context, req backend.ListRequest) iter.Seq2[backend.Item, error] {
	return func(yield func(backend.Item, error) bool) {
		keys, err := b.keys(ctx, req)
		if err != nil {
			yield(backend.Item{}, err)
			return
		}
		for _, key := range keys {
			b.mu.RLock()
			err := b.usable(ctx, "list", req.Prefix)
			item, still := b.items[key]
			b.mu.RUnlock()
			if err != nil {
				yield(backend.Item{}, err)
				return
			}
			if !still {
				continue
			}
			if req.Detail == backend.Values {
				item.Value = bytes.Clone(item.Value)
			} else {
				item.Value = nil
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}

func (b *Backend) keys(ctx context.Context, req backend.ListRequest) ([]string, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if err := b.usable(ctx, "list", req.Prefix); err != nil {
		return nil, err
	}
	var keys []string
	for key := range b.items {
		if strings.HasPrefix(key, req.Prefix) && key > req.After {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}
