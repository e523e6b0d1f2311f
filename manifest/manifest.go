package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
)

// Blobs deletes blobs. That a blob does not exist (any more) is not an error.
type Blobs interface {
	Delete(ctx context.Context, ref string) error
}

// NewRef returns a reference that was never used.
func NewRef() string { return backend.NewNonce() }

// Options are for New. The zero value is useful.
type Options struct {
	// Retry bounds each change; the zero value is five attempts.
	Retry store.Retry
	// Blobs deletes what is displaced; nil means that items have no blobs, and
	// a change that displaces one is refused.
	Blobs Blobs
}

// Manifest is an ordered list in a store. It is safe for concurrent use.
type Manifest[T any] struct {
	s    *store.Store
	key  string
	opts Options

	mu sync.Mutex
	// gone are blobs that this process has deleted; the next save takes them
	// out of the list of the doomed.
	gone map[string]bool
}

// body is what is stored.
type body[T any] struct {
	Items  []Item[T] `json:"items"`
	Doomed []string  `json:"doomed,omitempty"`
}

// Saved is what a change came to.
type Saved[T any] struct {
	Items   []Item[T]
	Version store.Version
	// Deleted are the displaced blobs that are gone, Left those that could not
	// be deleted, because of LeftErr; a Sweep tries them again.
	Deleted, Left []string
	LeftErr       error
}

// New returns the manifest at key of s, which must enforce create-only and
// if-version. Nothing is written before the first change.
func New[T any](s *store.Store, key string, opts Options) (*Manifest[T], error) {
	if err := backend.CheckKey("new manifest", key); err != nil {
		return nil, err
	}
	caps := s.Capabilities()
	for _, kind := range []backend.Kind{backend.KindCreateOnly, backend.KindIfVersion} {
		if !caps.Put.Has(kind) {
			return nil, &store.UnsupportedError{Backend: caps.Name, Op: "new manifest", Cond: kind}
		}
	}
	return &Manifest[T]{s: s, key: key, opts: opts, gone: map[string]bool{}}, nil
}

// load returns the body and the condition for a write that builds on it. An
// absent object is an empty list; a failed read is an error.
func (m *Manifest[T]) load(ctx context.Context) (body[T], store.Condition, error) {
	item, err := m.s.Get(ctx, m.key)
	if errors.Is(err, store.ErrNotFound) {
		return body[T]{}, store.CreateOnly(), nil
	}
	if err != nil {
		return body[T]{}, store.Condition{}, err
	}
	var b body[T]
	if err := json.Unmarshal(item.Value, &b); err != nil {
		return body[T]{}, store.Condition{}, &store.CorruptError{Key: m.key, Why: "not a manifest: " + err.Error()}
	}
	return b, store.IfVersion(item.Version), nil
}

// Load returns the items, in order, and the version, which is empty if nothing
// was ever saved.
func (m *Manifest[T]) Load(ctx context.Context) ([]Item[T], store.Version, error) {
	b, cond, err := m.load(ctx)
	return b.Items, cond.Version(), err
}

// Append adds items at the end.
func (m *Manifest[T]) Append(ctx context.Context, items ...Item[T]) (Saved[T], error) {
	return m.Update(ctx, func(l *List[T]) error { l.Append(items...); return nil })
}

// Insert puts items before a position.
func (m *Manifest[T]) Insert(ctx context.Context, at int, items ...Item[T]) (Saved[T], error) {
	return m.Update(ctx, func(l *List[T]) error { l.Insert(at, items...); return nil })
}

// Move takes an item to a position.
func (m *Manifest[T]) Move(ctx context.Context, id string, to int) (Saved[T], error) {
	return m.Update(ctx, func(l *List[T]) error { return l.Move(id, to) })
}

// Remove takes items out and deletes the blobs that nothing refers to then.
func (m *Manifest[T]) Remove(ctx context.Context, ids ...string) (Saved[T], error) {
	return m.Update(ctx, func(l *List[T]) error { return l.Remove(ids...) })
}

// Dedupe keeps one of the items with the same key; see [List.Dedupe].
func (m *Manifest[T]) Dedupe(ctx context.Context, key func(Item[T]) string) (Saved[T], error) {
	return m.Update(ctx, func(l *List[T]) error { l.Dedupe(key); return nil })
}

// Update applies change to the fresh list and saves it if nobody has saved in
// between, again and again within Options.Retry. After the save has won, the
// blobs that it displaced are deleted. An error means that nothing was
// deleted; it is *store.ExhaustedError if every attempt lost, and
// *store.UnknownOutcomeError if the answer was lost.
func (m *Manifest[T]) Update(ctx context.Context, change func(*List[T]) error) (Saved[T], error) {
	var saved Saved[T]
	var doomed []string
	err := m.s.Retry(ctx, m.key, m.opts.Retry, func(ctx context.Context) error {
		var err error
		saved, doomed, err = m.attempt(ctx, change)
		return err
	})
	if err != nil {
		return Saved[T]{}, err
	}
	saved.Deleted, saved.Left, saved.LeftErr = m.deleteBlobs(ctx, doomed)
	return saved, nil
}

// attempt returns the displaced blobs of the body that it has saved.
func (m *Manifest[T]) attempt(ctx context.Context, change func(*List[T]) error) (Saved[T], []string, error) {
	b, cond, err := m.load(ctx)
	if err != nil {
		return Saved[T]{}, nil, err
	}
	list := List[T]{Items: b.Items}
	before := list.refs()
	if err := change(&list); err != nil {
		return Saved[T]{}, nil, err
	}
	if err := list.check(); err != nil {
		return Saved[T]{}, nil, err
	}
	for _, item := range list.Items {
		for _, ref := range item.Refs {
			if slices.Contains(b.Doomed, ref) {
				return Saved[T]{}, nil, &DoomedError{ID: item.ID, Ref: ref}
			}
		}
	}
	after := list.refs()
	var displaced []string
	for ref := range before {
		if !after[ref] {
			displaced = append(displaced, ref)
		}
	}
	slices.Sort(displaced)
	if len(displaced) > 0 && m.opts.Blobs == nil {
		return Saved[T]{}, nil, &store.InvalidError{Op: "save manifest", What: fmt.Sprintf("%q", m.key),
			Why: fmt.Sprintf("the change displaces blob %q and Options.Blobs, which would delete it, is not set", displaced[0])}
	}
	cleared := m.cleared(b.Doomed)
	doomed := append(slices.DeleteFunc(b.Doomed, func(ref string) bool { return cleared[ref] }), displaced...)
	v, err := m.write(ctx, body[T]{Items: list.Items, Doomed: doomed}, cond)
	if err != nil {
		return Saved[T]{}, nil, err
	}
	m.forget(cleared)
	return Saved[T]{Items: list.Items, Version: v}, displaced, nil
}

func (m *Manifest[T]) write(ctx context.Context, b body[T], cond store.Condition) (store.Version, error) {
	raw, err := json.Marshal(b)
	if err != nil {
		return "", fmt.Errorf("save manifest %q: %w", m.key, err)
	}
	return m.s.Put(ctx, m.key, raw, cond)
}

// cleared are those of doomed that this process has deleted.
func (m *Manifest[T]) cleared(doomed []string) map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]bool{}
	for _, ref := range doomed {
		if m.gone[ref] {
			out[ref] = true
		}
	}
	return out
}

func (m *Manifest[T]) forget(refs map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ref := range refs {
		delete(m.gone, ref)
	}
}

// deleteBlobs deletes what a saved body calls doomed.
func (m *Manifest[T]) deleteBlobs(ctx context.Context, doomed []string) (deleted, left []string, err error) {
	var errs []error
	for _, ref := range doomed {
		if err := m.opts.Blobs.Delete(ctx, ref); err != nil {
			left = append(left, ref)
			errs = append(errs, fmt.Errorf("delete blob %q: %w", ref, err))
			continue
		}
		deleted = append(deleted, ref)
		m.mu.Lock()
		m.gone[ref] = true
		m.mu.Unlock()
	}
	return deleted, left, errors.Join(errs...)
}

// Sweep deletes the blobs that crashed or failed deletions have left and takes
// them out of the list of the doomed. It returns how many there were. It may
// run at any time, in several processes at once.
func (m *Manifest[T]) Sweep(ctx context.Context) (int, error) {
	if m.opts.Blobs == nil {
		return 0, nil
	}
	b, _, err := m.load(ctx)
	if err != nil || len(b.Doomed) == 0 {
		return 0, err
	}
	deleted, _, deleteErr := m.deleteBlobs(ctx, b.Doomed)
	if len(deleted) == 0 {
		return 0, deleteErr
	}
	_, err = m.Update(ctx, func(*List[T]) error { return nil })
	return len(deleted), errors.Join(deleteErr, err)
}

// StoreBlobs keeps blobs in a store, under a prefix without a slash at the end.
type StoreBlobs struct {
	Store  *store.Store
	Prefix string
}

// Put stores a blob under a new reference.
func (b StoreBlobs) Put(ctx context.Context, data []byte) (ref string, err error) {
	ref = NewRef()
	_, err = b.Store.Put(ctx, b.Prefix+"/"+ref, data, store.CreateOnly())
	return ref, err
}

// Get returns a blob.
func (b StoreBlobs) Get(ctx context.Context, ref string) ([]byte, error) {
	item, err := b.Store.Get(ctx, b.Prefix+"/"+ref)
	return item.Value, err
}

// Delete implements Blobs.
func (b StoreBlobs) Delete(ctx context.Context, ref string) error {
	return b.Store.Delete(ctx, b.Prefix+"/"+ref, store.None())
}
