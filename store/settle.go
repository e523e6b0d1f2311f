package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// settleTries bounds the reads after a lost answer. The usual cause is a
// broken connection, which the next read replaces; when the store stays away,
// the caller learns "unknown" rather than waiting out its deadline.
const settleTries = 3

// settle tries to turn a lost answer into ok or conflict, within ctx:
//
//   - The item carries this write's nonce: it took effect.
//   - The condition was if-version and the item still has the wanted version:
//     the request is sent again with the same nonce. This is safe because
//     versions never repeat: of the first request, which may still be under
//     way, and the second, at most one can meet that version.
//   - Anything else stays unknown. The key may hold another writer's value
//     that replaced ours; the key may be absent because our value was deleted.
//     A create-only or blind request is not sent again: between its first
//     effect and the second somebody may have deleted or replaced the item,
//     and the second would bring it back.
func (s *Store) settle(ctx context.Context, req backend.PutRequest, lost *UnknownOutcomeError) (Version, error) {
	for try := range settleTries {
		if ctx.Err() != nil {
			break
		}
		item, err := s.b.Get(ctx, req.Key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			if sleep(ctx, time.Duration(try+1)*10*time.Millisecond) != nil {
				break
			}
			continue
		}
		if err == nil && item.Nonce == req.Nonce {
			return item.Version, nil
		}
		if err != nil || req.Cond.Kind() != backend.KindIfVersion || item.Version != req.Cond.Version() {
			break
		}
		s.tel.retry(ctx, opPut)
		v, err := s.b.Put(ctx, req)
		if err == nil {
			return v, nil
		}
		// A conflict here is read again: it is ok if the first request won.
		if !errors.Is(err, ErrConflict) && !errors.Is(err, ErrUnknownOutcome) {
			break
		}
	}
	return "", lost
}

// Resolve asks again what became of an unknown write, for callers whose
// context ended before the store could. It returns the version if the write
// took effect and is still the latest, and lost itself if that cannot be
// known. It never writes.
func (s *Store) Resolve(ctx context.Context, lost *UnknownOutcomeError) (Version, error) {
	if lost.Nonce == "" {
		return "", lost
	}
	item, err := s.Get(ctx, lost.Key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", err
	}
	if err == nil && item.Nonce == lost.Nonce {
		return item.Version, nil
	}
	return "", lost
}

// settleBatch looks for the nonce of any write of the batch. A batch is one
// unit, so one nonce proves all; the absence of all proves nothing.
func (s *Store) settleBatch(ctx context.Context, ops []Op, lost *UnknownOutcomeError) ([]Version, error) {
	proven := false
	versions := make([]Version, len(ops))
	for i, op := range ops {
		if op.Delete {
			continue
		}
		item, err := s.b.Get(ctx, op.Key)
		if err == nil && item.Nonce == op.Nonce {
			proven = true
			versions[i] = item.Version
		}
	}
	if !proven {
		return nil, lost
	}
	return versions, nil
}

// settleAdd recognises the add by its nonce; the value read with it is the sum.
func (s *Store) settleAdd(ctx context.Context, req backend.AddRequest, lost *UnknownOutcomeError) (int64, Version, error) {
	item, err := s.b.Get(ctx, req.Key)
	if err != nil || item.Nonce != req.Nonce {
		return 0, "", lost
	}
	sum, err := strconv.ParseInt(string(item.Value), 10, 64)
	if err != nil {
		return 0, "", &CorruptError{Key: req.Key, Why: "a sum is expected, not " + strconv.Quote(string(item.Value))}
	}
	return sum, item.Version, nil
}

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
