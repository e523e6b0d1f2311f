package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// Add implements backend.Adder: read, compare and replace under the lock.
func (b *Backend) Add(ctx context.Context, req backend.AddRequest) (int64, backend.Version, error) {
	if err := b.usable(ctx, "add", req.Key); err != nil {
		return 0, "", err
	}
	p := b.place(req.Key)
	sum, err := b.addLocked(ctx, p, req)
	if err != nil {
		return 0, "", err
	}
	v, err := b.acknowledge("add", p, backend.None(), req.Nonce)
	return sum, v, err
}

func (b *Backend) addLocked(ctx context.Context, p place, req backend.AddRequest) (int64, error) {
	for {
		sum, retry, err := b.tryAdd(ctx, p, req)
		if !retry {
			return sum, err
		}
	}
}

// tryAdd asks for a retry if the key was created, which needs no lock, while
// this add was about to create it.
func (b *Backend) tryAdd(ctx context.Context, p place, req backend.AddRequest) (sum int64, retry bool, err error) {
	unlock, err := b.lock(ctx, p.key)
	if err != nil {
		return 0, false, fmt.Errorf("add to %q: nothing was written: %w", p.key, err)
	}
	defer unlock()
	item, err := read(p)
	absent := errors.Is(err, backend.ErrNotFound)
	if err != nil && !absent {
		return 0, false, err
	}
	var current int64
	if !absent {
		if current, err = strconv.ParseInt(string(item.Value), 10, 64); err != nil {
			return 0, false, &backend.CorruptError{Key: p.key, Why: "an add needs a decimal integer"}
		}
	}
	sum = current + req.Delta
	overflow := (req.Delta > 0 && current > math.MaxInt64-req.Delta) || (req.Delta < 0 && current < math.MinInt64-req.Delta)
	if overflow || sum < req.Min || sum > req.Max {
		return 0, false, &backend.BoundsError{Key: p.key, Delta: req.Delta, Min: req.Min, Max: req.Max, Current: current}
	}
	t, err := b.prepareValue(p, req.Nonce, strconv.AppendInt(nil, sum, 10))
	if err != nil {
		return 0, false, err
	}
	defer t.Discard()
	if absent {
		err = t.Link(p.path)
		if errors.Is(err, fs.ErrExist) {
			return 0, true, nil
		}
	} else {
		err = t.Replace(p.path)
	}
	if err != nil {
		return 0, false, fmt.Errorf("add to %q: nothing was written: %w", p.key, err)
	}
	return sum, false, nil
}
