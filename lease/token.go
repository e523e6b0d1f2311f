package lease

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-dev/holdfast/store"
)

// block is how many tokens are drawn at once. A lease that stays in the store
// needs one more write for every so many acquisitions; one that is collected
// after each use needs one more for each.
const block = 128

// draw returns the token behind rec's and the end of its block. It must be
// called after rec was read, and its answer used in a write conditional on the
// version of rec: only then is the token above all that were ever in force
// (the package comment has the schedule).
func (m *Manager) draw(ctx context.Context, rec record) (token, ceiling Token, err error) {
	if rec.Token > 0 && rec.Token < rec.Ceiling {
		return rec.Token + 1, rec.Ceiling, nil
	}
	sum, err := m.raise(ctx, block)
	if err == nil && Token(sum)-block < rec.Ceiling {
		// The counter is behind a record: it was lost or restored from an old
		// copy. Leave what was handed out before behind.
		sum, err = m.raise(ctx, int64(rec.Ceiling)-sum+block)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("draw a block of tokens: %w", err)
	}
	return Token(sum) - block + 1, Token(sum), nil
}

// raise adds delta, at least block, to the counter; the last block of the sum
// is the caller's alone. Whether an add with a lost answer took effect does not
// matter: tokens may have gaps.
func (m *Manager) raise(ctx context.Context, delta int64) (int64, error) {
	delta = max(delta, block)
	if m.s.Capabilities().Add {
		low, high := store.Unbounded()
		sum, _, err := m.s.Add(ctx, m.counter(), delta, low, high)
		return sum, err
	}
	var sum int64
	_, err := m.s.Update(ctx, m.counter(), store.Retry{Attempts: store.UntilDeadline}, func(item store.Item, exists bool) ([]byte, error) {
		sum = 0
		if exists {
			n, err := strconv.ParseInt(string(item.Value), 10, 64)
			if err != nil {
				return nil, &store.CorruptError{Key: item.Key, Why: "a counter is expected, not " + strconv.Quote(string(item.Value))}
			}
			sum = n
		}
		sum += delta
		return strconv.AppendInt(nil, sum, 10), nil
	})
	return sum, err
}
