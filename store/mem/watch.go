package mem

import (
	"bytes"
	"context"
	"iter"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// watcher holds the changes that its reader has not taken yet, the latest for
// each key, in the order of each key's first untaken change. A slow reader
// therefore never holds up a writer and never needs more memory than there are
// keys.
type watcher struct {
	prefix string
	more   chan struct{}

	mu      sync.Mutex
	order   []string
	pending map[string]backend.Event
}

func (w *watcher) push(ev backend.Event) {
	w.mu.Lock()
	if _, waiting := w.pending[ev.Key]; !waiting {
		w.order = append(w.order, ev.Key)
	}
	w.pending[ev.Key] = ev
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *watcher) take() []backend.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := make([]backend.Event, 0, len(w.order))
	for _, key := range w.order {
		events = append(events, w.pending[key])
	}
	w.order = nil
	clear(w.pending)
	return events
}

// tell is called under the store's lock, so events of a key come in its order.
func (b *Backend) tell(ev backend.Event) {
	for w := range b.watchers {
		if strings.HasPrefix(ev.Key, w.prefix) {
			w.push(ev)
		}
	}
}

// Watch implements backend.Watcher.
func (b *Backend) Watch(ctx context.Context, prefix string) iter.Seq2[backend.Event, error] {
	return func(yield func(backend.Event, error) bool) {
		w := &watcher{prefix: prefix, more: make(chan struct{}, 1), pending: make(map[string]backend.Event)}
		b.mu.Lock()
		b.watchers[w] = struct{}{}
		b.mu.Unlock()
		defer func() {
			b.mu.Lock()
			delete(b.watchers, w)
			b.mu.Unlock()
		}()
		for {
			select {
			case <-ctx.Done():
				yield(backend.Event{}, context.Cause(ctx))
				return
			case <-b.closed:
				yield(backend.Event{}, backend.ErrClosed)
				return
			case <-w.more:
			}
			for _, ev := range w.take() {
				ev.Value = bytes.Clone(ev.Value)
				if !yield(ev, nil) {
					return
				}
			}
		}
	}
}
