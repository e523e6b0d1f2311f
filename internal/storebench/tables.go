package storebench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/internal/benchkit"
	"github.com/holdfast-dev/holdfast/marker"
	"github.com/holdfast-dev/holdfast/store"
)

// rate is calls per second in the time of a cell.
func (b *bench) rate(ctx context.Context, writers int, f func(ctx context.Context, writer, call int) error) (float64, error) {
	s, err := benchkit.Measure(ctx, b.opts.Time, writers, f)
	return s.Rate, err
}

// keepItems is how many entries the shared list holds: a list of what is
// running now does not grow for ever.
const keepItems = 100

// addToList is one registration by compare-and-set on the shared list.
func addToList(ctx context.Context, s *store.Store, id string) error {
	_, err := s.Update(ctx, "list", store.Retry{Attempts: store.UntilDeadline, Base: time.Millisecond, Cap: 50 * time.Millisecond},
		func(item store.Item, exists bool) ([]byte, error) {
			var list []string
			if exists {
				if err := json.Unmarshal(item.Value, &list); err != nil {
					return nil, err
				}
			}
			list = append(list, id)
			if len(list) > keepItems {
				list = list[len(list)-keepItems:]
			}
			return json.Marshal(list)
		})
	return err
}

func (b *bench) writers(ctx context.Context) error {
	var rows [][]string
	for _, kind := range b.backends() {
		for _, writers := range b.opts.Writers {
			list, err := b.cell(ctx, kind, writers, func(s *store.Store) (func(context.Context, string) error, error) {
				return func(ctx context.Context, id string) error { return addToList(ctx, s, id) }, nil
			})
			if err != nil {
				return err
			}
			marks, err := b.cell(ctx, kind, writers, func(s *store.Store) (func(context.Context, string) error, error) {
				ix, err := marker.New(s, marker.Options{Prefix: "running"})
				return func(ctx context.Context, id string) error { return ix.Register(ctx, id, nil) }, err
			})
			if err != nil {
				return err
			}
			rows = append(rows, []string{kind, strconv.Itoa(writers), fmt.Sprintf("%.0f", list), fmt.Sprintf("%.0f", marks), fmt.Sprintf("%.1f", marks/list)})
		}
	}
	return b.Table("Registrations per second: one list by compare-and-set, one marker per item",
		[]string{"store", "writers", "CAS list", "markers", "times"}, rows)
}

func (b *bench) cell(ctx context.Context, kind string, writers int, make func(*store.Store) (func(context.Context, string) error, error)) (rate float64, err error) {
	s, err := b.fresh(ctx, kind, writers, true)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	register, err := make(s)
	if err != nil {
		return 0, err
	}
	run := rand.Uint32()
	return b.rate(ctx, writers, func(ctx context.Context, w, n int) error {
		return register(ctx, fmt.Sprintf("%08x-%d-%d", run, w, n))
	})
}

func (b *bench) group(ctx context.Context) error {
	var rows [][]string
	for _, writers := range b.opts.Writers {
		rates := make([]float64, 2)
		for i, kind := range []string{"sqlite, one transaction per write", "sqlite"} {
			var err error
			rates[i], err = b.cell(ctx, kind, writers, func(s *store.Store) (func(context.Context, string) error, error) {
				return func(ctx context.Context, id string) error {
					_, err := s.Put(ctx, id, []byte("value"), store.CreateOnly())
					return err
				}, nil
			})
			if err != nil {
				return err
			}
		}
		rows = append(rows, []string{strconv.Itoa(writers), fmt.Sprintf("%.0f", rates[0]), fmt.Sprintf("%.0f", rates[1]), fmt.Sprintf("%.1f", rates[1]/rates[0])})
	}
	return b.Table("SQLite, writes per second: one transaction each, group commit",
		[]string{"writers", "one each", "group", "times"}, rows)
}

func (b *bench) markers(ctx context.Context) error {
	var rows [][]string
	for _, kind := range b.backends() {
		for _, size := range b.opts.Markers {
			row, err := b.markersOf(ctx, kind, size)
			if err != nil {
				return fmt.Errorf("%s with %d markers: %w", kind, size, err)
			}
			rows = append(rows, row)
		}
	}
	return b.Table("Index of so many markers, half of them aged; time, and markers per second",
		[]string{"store", "markers", "keys", "/s", "list", "/s", "age-prune half", "/s"}, rows)
}

// markersOf fills an index, walks its keys, lists it with metadata and prunes
// the aged half.
func (b *bench) markersOf(ctx context.Context, kind string, size int) (row []string, err error) {
	b.n++
	name := fmt.Sprintf("index%d", b.n)
	now := time.Now()
	if err := b.fill(ctx, kind, name, size, now); err != nil {
		return nil, err
	}
	s, err := b.reopen(ctx, kind, name, 16, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ix, err := marker.New(s, marker.Options{Prefix: "running", Time: marker.UUIDv7, MaxAge: time.Hour, Now: func() time.Time { return now }})
	if err != nil {
		return nil, err
	}
	row = []string{kind, strconv.Itoa(size)}
	measure := func(count int, f func() (int, error)) error {
		began := time.Now()
		n, err := f()
		took := time.Since(began)
		if err == nil && n != count {
			err = fmt.Errorf("%d markers came, %d were due", n, count)
		}
		row = append(row, took.Round(time.Millisecond).String(), fmt.Sprintf("%.0f", float64(count)/took.Seconds()))
		return err
	}
	return row, errors.Join(
		measure(size, func() (int, error) {
			n := 0
			for _, err := range ix.All(ctx) {
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		}),
		measure(size, func() (int, error) {
			r, err := ix.Read(ctx)
			return len(r.Markers) + len(r.Aged), err
		}),
		measure(size/2, func() (int, error) { return ix.PruneAged(ctx) }),
	)
}

// fill registers size markers, every second one two hours old, in batches
// where the store has them.
func (b *bench) fill(ctx context.Context, kind, name string, size int, now time.Time) (err error) {
	s, err := b.reopen(ctx, kind, name, 4, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	const batch = 1000
	var next atomic.Int64
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for errs[w] == nil {
				from := int(next.Add(batch)) - batch
				if from >= size {
					return
				}
				errs[w] = fillBatch(ctx, s, from, min(from+batch, size), now)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func fillBatch(ctx context.Context, s *store.Store, from, to int, now time.Time) error {
	ops := make([]store.Op, 0, to-from)
	for n := from; n < to; n++ {
		at := now.Add(-time.Duration(n) * time.Microsecond)
		if n%2 == 1 {
			at = at.Add(-2 * time.Hour)
		}
		ops = append(ops, store.Op{Key: "running/" + marker.NewID(at), Value: []byte("meta")})
	}
	if s.Capabilities().Batch {
		_, err := s.Batch(ctx, ops)
		return err
	}
	for _, op := range ops {
		if _, err := s.Put(ctx, op.Key, op.Value, store.None()); err != nil {
			return err
		}
	}
	return nil
}
