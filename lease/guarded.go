package lease

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
)

// Guarded is one key of a store that refuses writes of past holders. The
// object carries the highest token it has seen: a write reads it, compares, and
// writes on condition that the version is still the one read. Between the
// comparison and the write nothing can happen, because anything that did would
// be another version.
//
// The token must not be kept in a key of its own: A compares its token with
// that key and is paused; B raises the key and writes the object; A goes on
// and writes over it.
type Guarded struct {
	s   *store.Store
	key string
}

// NewGuarded returns the guarded object at key. It may live in another store
// than the lease. Stores that do not enforce the conditions are refused with
// *store.UnsupportedError.
func NewGuarded(s *store.Store, key string) (*Guarded, error) {
	if err := backend.CheckKey("new guarded object", key); err != nil {
		return nil, err
	}
	return &Guarded{s: s, key: key}, needs(s, "guarded object")
}

// Object is what a Guarded holds.
type Object struct {
	// Value is nil if Exists is false: nothing was saved yet, or it was removed.
	Value  []byte
	Exists bool
	// Fence is the highest token that the object has seen.
	Fence Token
	// Version is that of the object's last write, a raised fence included.
	Version store.Version
}

// The stored form is a line with the fence, and the value behind it.
const (
	header = "holdfast fence "
	full   = "value"
	empty  = "empty"
)

func (o Object) encode() []byte {
	state := empty
	if o.Exists {
		state = full
	}
	b := fmt.Appendf(nil, "%s%d %s\n", header, o.Fence, state)
	return append(b, o.Value...)
}

func parse(item store.Item) (Object, error) {
	line, value, ok := bytes.Cut(item.Value, []byte("\n"))
	rest, isOurs := bytes.CutPrefix(line, []byte(header))
	number, state, hasState := bytes.Cut(rest, []byte(" "))
	fence, err := strconv.ParseInt(string(number), 10, 64)
	exists := string(state) == full
	if !ok || !isOurs || !hasState || err != nil || !exists && (string(state) != empty || len(value) > 0) {
		return Object{}, &store.CorruptError{Key: item.Key, Why: "it does not begin with the line of a guarded object"}
	}
	o := Object{Exists: exists, Fence: Token(fence), Version: item.Version}
	if exists {
		o.Value = value
	}
	return o, nil
}

// change is the one place where the object is written: fresh read, comparison
// of the fence, conditional write, repeated while other writers come between.
func (g *Guarded) change(ctx context.Context, token Token, f func(Object) (Object, error)) (Object, error) {
	if token <= 0 {
		return Object{}, &store.InvalidError{Op: "write guarded object", What: fmt.Sprintf("token %d", token), Why: "tokens of leases are above 0"}
	}
	var out Object
	item, err := g.s.Update(ctx, g.key, store.Retry{Attempts: store.UntilDeadline}, func(item store.Item, exists bool) ([]byte, error) {
		var now Object
		if exists {
			var err error
			if now, err = parse(item); err != nil {
				return nil, err
			}
		}
		if now.Fence > token {
			return nil, &StaleError{What: fmt.Sprintf("%q", g.key), Token: token, Seen: now.Fence}
		}
		next, err := f(now)
		if err != nil {
			return nil, err
		}
		next.Fence = token
		out = next
		return next.encode(), nil
	})
	out.Version = item.Version
	if err != nil {
		return Object{}, err
	}
	return out, nil
}

// Load raises the fence to token and returns the object: from now on no write
// with a lower token is accepted, so what is returned stays as it is but for
// holders of this token and later ones. A token below the fence is
// *[StaleError].
func (g *Guarded) Load(ctx context.Context, token Token) (Object, error) {
	return g.change(ctx, token, func(now Object) (Object, error) { return now, nil })
}

// Read returns the object without raising the fence, for readers without a
// lease. One that was never written is empty.
func (g *Guarded) Read(ctx context.Context) (Object, error) {
	item, err := g.s.Get(ctx, g.key)
	if _, missing := err.(*store.NotFoundError); missing {
		return Object{}, nil
	}
	if err != nil {
		return Object{}, err
	}
	return parse(item)
}

// Save writes value with token. A token below the fence is *[StaleError], and
// nothing is written.
func (g *Guarded) Save(ctx context.Context, token Token, value []byte) (Object, error) {
	return g.change(ctx, token, func(Object) (Object, error) { return Object{Value: value, Exists: true}, nil })
}

// Update changes the object with token. change may run several times, when
// other goroutines of the same holder write too, and must have no other
// effects; its error ends the update and is returned.
func (g *Guarded) Update(ctx context.Context, token Token, change func(Object) ([]byte, error)) (Object, error) {
	return g.change(ctx, token, func(now Object) (Object, error) {
		value, err := change(now)
		return Object{Value: value, Exists: true}, err
	})
}

// Remove empties the object with token. The key stays, with the fence: to
// delete it would let the next stale write create it anew.
func (g *Guarded) Remove(ctx context.Context, token Token) error {
	_, err := g.change(ctx, token, func(Object) (Object, error) { return Object{}, nil })
	return err
}
