package store

import (
	"context"
	"errors"
	"iter"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// Watch yields the changes under prefix that happen after the iteration has
// begun, until ctx ends; the last pair then carries its cause. Several quick
// changes of one key may arrive as the last one, and a key that was created
// and deleted between two looks may not be seen at all.
//
// Where the backend does not report changes itself, Watch lists the prefix
// every Options.WatchInterval and compares versions; it then holds the keys and
// versions under prefix in memory.
func (s *Store) Watch(ctx context.Context, prefix string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, done := s.tel.start(ctx, opWatch, backend.KindNone)
		defer done(nil)
		if err := backend.CheckPrefix("watch", prefix); err != nil {
			yield(Event{}, err)
			return
		}
		if w, ok := s.b.(backend.Watcher); ok && s.caps.Watch {
			for ev, err := range w.Watch(ctx, prefix) {
				if !yield(ev, err) || err != nil {
					return
				}
			}
			return
		}
		s.poll(ctx, prefix, yield)
	}
}

// poll compares listings. A listing that fails ends the watch: to go on after
// it would report every key as deleted.
func (s *Store) poll(ctx context.Context, prefix string, yield func(Event, error) bool) {
	known, err := s.look(ctx, prefix)
	for err == nil {
		if err = sleep(ctx, s.opts.WatchInterval); err != nil {
			break
		}
		var now map[string]Version
		if now, err = s.look(ctx, prefix); err != nil {
			break
		}
		for key, v := range now {
			if known[key] == v {
				continue
			}
			item, getErr := s.b.Get(ctx, key)
			if errors.Is(getErr, ErrNotFound) {
				// Gone since the look; told below if it was known.
				delete(now, key)
				continue
			}
			if err = getErr; err != nil {
				break
			}
			now[key] = item.Version
			if !yield(Event{Item: item}, nil) {
				return
			}
		}
		for key := range known {
			if _, still := now[key]; !still && err == nil && !yield(Event{Item: Item{Key: key}, Deleted: true}, nil) {
				return
			}
		}
		known = now
	}
	yield(Event{}, err)
}

func (s *Store) look(ctx context.Context, prefix string) (map[string]Version, error) {
	versions := make(map[string]Version)
	for item, err := range s.List(ctx, ListOptions{Prefix: prefix, Detail: Versions}) {
		if err != nil {
			return nil, err
		}
		versions[item.Key] = item.Version
	}
	return versions, nil
}
