package document

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
)

// New returns the collection at Options.Prefix of s, which must enforce
// create-only and if-version.
func New[T any](s *store.Store, opts Options) (*Collection[T], error) {
	if err := backend.CheckKey("new collection", opts.Prefix); err != nil {
		return nil, err
	}
	if strings.HasSuffix(opts.Prefix, "/") {
		return nil, &store.InvalidError{Op: "new collection", What: fmt.Sprintf("prefix %q", opts.Prefix), Why: "leave out the slash at the end"}
	}
	caps := s.Capabilities()
	for _, kind := range []backend.Kind{backend.KindCreateOnly, backend.KindIfVersion} {
		if !caps.Put.Has(kind) {
			return nil, &store.UnsupportedError{Backend: caps.Name, Op: "new collection", Cond: kind}
		}
	}
	return newCollection[T](&inStore{s: s, prefix: opts.Prefix + "/"}, opts), nil
}

// inStore keeps each document under a key; the ETag is the key's version.
type inStore struct {
	s      *store.Store
	prefix string
}

func (i *inStore) load(ctx context.Context, id string) ([]byte, string, error) {
	item, err := i.s.Get(ctx, i.prefix+id)
	return item.Value, string(item.Version), err
}

func (i *inStore) create(ctx context.Context, id string, raw []byte) (string, error) {
	v, err := i.s.Put(ctx, i.prefix+id, raw, store.CreateOnly())
	return string(v), err
}

func (i *inStore) save(ctx context.Context, id string, raw []byte, tag string, _ func([]byte) ([]byte, error)) (string, error) {
	v, err := i.s.Put(ctx, i.prefix+id, raw, store.IfVersion(store.Version(tag)))
	return string(v), err
}

func (i *inStore) remove(ctx context.Context, id, tag string) error {
	return i.s.Delete(ctx, i.prefix+id, store.IfVersion(store.Version(tag)))
}

func (i *inStore) ids(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for item, err := range i.s.List(ctx, store.ListOptions{Prefix: i.prefix}) {
			if !yield(strings.TrimPrefix(item.Key, i.prefix), err) || err != nil {
				return
			}
		}
	}
}

func (i *inStore) retry(ctx context.Context, id string, r store.Retry, attempt func(context.Context) error) error {
	return i.s.Retry(ctx, i.prefix+id, r, attempt)
}
