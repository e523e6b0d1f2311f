package store

import (
	"context"
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
	if err != nil {
		yield(Event{}, err)
		return
	}
	for {
		if cause := sleep(ctx, s.opts.WatchInterval); cause != nil {
			yield(Event{}, cause)
			return
		}
		now, err := s.look(ctx, prefix)
		if err != nil {
			yield(Event{}, err)
			return
		}
		for key, item := range now {
			if old, had := known[key]; had && old.Version == item.Version {
				continue
			}
			if !yield(Event{Item: item}, nil) {
				return
			}
		}
		for key := range known {
			if _, still := now[key]; !still && !yield(Event{Item: Item{Key: key}, Deleted: true}, nil) {
				return
			}
		}
		for key, item := range now {
			item.Value = nil
			now[key] = item
		}
		known = now
	}
}

func (s *Store) look(ctx context.Context, prefix string) (map[string]Item, error) {
	items := make(map[string]Item)
	for item, err := range s.List(ctx, ListOptions{Prefix: prefix, Detail: Values}) {
		if err != nil {
			return nil, err
		}
		items[item.Key] = item
	}
	return items, nil
}
