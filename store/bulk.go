package store

import (
	"context"
	"errors"
	"sync"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// bulkParallel bounds the deletes under way at once where the backend has no
// bulk delete of its own.
const bulkParallel = 16

// DeleteMany deletes many keys in as few round trips and syncs as the backend
// allows. The deletions are independent: one whose condition does not hold is
// left alone and is not an error. It returns how many keys are gone by this
// call; after an error some of the others may be gone too.
func (s *Store) DeleteMany(ctx context.Context, deletions []Deletion) (int, error) {
	ctx, done := s.tel.start(ctx, opDeleteMany, backend.KindNone)
	n, err := s.deleteMany(ctx, deletions)
	done(err)
	return n, err
}

func (s *Store) deleteMany(ctx context.Context, deletions []Deletion) (int, error) {
	for _, d := range deletions {
		if err := s.checkDelete("delete many", d.Key, d.Cond); err != nil {
			return 0, err
		}
	}
	if len(deletions) == 0 {
		return 0, nil
	}
	if err := ended(ctx, "delete many", deletions[0].Key); err != nil {
		return 0, err
	}
	if b, ok := s.b.(backend.BulkDeleter); ok {
		return b.DeleteMany(ctx, deletions)
	}
	var (
		mu    sync.Mutex
		gone  int
		first error
		wg    sync.WaitGroup
		slots = make(chan struct{}, bulkParallel)
	)
	for _, d := range deletions {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			err := s.b.Delete(ctx, d)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				gone++
			case !errors.Is(err, ErrConflict) && first == nil:
				first = err
			}
		})
	}
	wg.Wait()
	return gone, first
}
