package marker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// Status is what a resolver found out about the item of a marker.
type Status int

// The zero status is Unknown, so that a resolver that forgets to say anything
// deletes nothing.
const (
	Unknown Status = iota
	Live
	Dead
)

// Resolver looks an item up. An error means Unknown, whatever the status.
type Resolver[T any] func(ctx context.Context, m Marker) (T, Status, error)

// Item is a marker whose item is live.
type Item[T any] struct {
	Marker
	Value T
}

// Doubt is a marker whose item could not be judged.
type Doubt struct {
	Marker
	Err error // nil if the resolver just said Unknown
}

// View is what Active found and did.
type View[T any] struct {
	// Items are live, newest first.
	Items []Item[T]
	// Doubts were neither shown to be live nor dead; their markers stay.
	Doubts []Doubt
	// Hidden is how many markers were not resolved because of Cap.
	Hidden int
	// Pruned is how many dead, aged and superseded markers are gone.
	Pruned int
	// PruneErr is why pruning failed. The view is right all the same; the next
	// read tries again.
	PruneErr error
}

// Active reads the index, resolves the newest markers up to Cap, some at once,
// and prunes those that are dead, aged or superseded.
func Active[T any](ctx context.Context, ix *Index, resolve Resolver[T]) (View[T], error) {
	r, err := ix.Read(ctx)
	if err != nil {
		return View[T]{}, err
	}
	candidates := r.Markers[:min(len(r.Markers), ix.opts.Cap)]
	values := make([]T, len(candidates))
	states := make([]Status, len(candidates))
	errs := make([]error, len(candidates))
	slots := make(chan struct{}, ix.opts.Parallel)
	var wg sync.WaitGroup
	for i, m := range candidates {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			values[i], states[i], errs[i] = resolve(ctx, m)
		})
	}
	wg.Wait()
	v := View[T]{Hidden: len(r.Markers) - len(candidates)}
	dead := append(r.Aged, r.Superseded...)
	for i, m := range candidates {
		switch {
		case errs[i] == nil && states[i] == Live:
			v.Items = append(v.Items, Item[T]{Marker: m, Value: values[i]})
		case errs[i] == nil && states[i] == Dead:
			dead = append(dead, m)
		default:
			v.Doubts = append(v.Doubts, Doubt{Marker: m, Err: errs[i]})
		}
	}
	v.Pruned, v.PruneErr = ix.Prune(ctx, dead)
	return v, nil
}

// Gate says whether everything that belongs to a finished item is there.
type Gate func(ctx context.Context, m Marker) (complete bool, err error)

// Gated keeps an item live until its gate lets it pass. Without it, a job that
// has set its status to "done" and is still writing its results is pruned, and
// for a moment it is neither running nor finished with something to show. An
// error of the gate means Unknown.
func Gated[T any](resolve Resolver[T], gate Gate) Resolver[T] {
	return func(ctx context.Context, m Marker) (T, Status, error) {
		value, status, err := resolve(ctx, m)
		if err != nil || status != Dead {
			return value, status, err
		}
		complete, err := gate(ctx, m)
		if err != nil {
			return value, Unknown, fmt.Errorf("completion of %q: %w", m.ID, err)
		}
		if !complete {
			return value, Live, nil
		}
		return value, Dead, nil
	}
}

// AllPresent is the gate of items that are complete when all of these keys
// exist in s.
func AllPresent(s *store.Store, keys func(m Marker) []string) Gate {
	return func(ctx context.Context, m Marker) (bool, error) {
		for _, key := range keys(m) {
			_, err := s.Get(ctx, key)
			if errors.Is(err, store.ErrNotFound) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
		}
		return true, nil
	}
}
