package storetest_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
	"github.com/holdfast-dev/holdfast/store/mem"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// broken is a memory store with one defect. Each field, if set, replaces the
// method of the same name.
type broken struct {
	*mem.Backend
	get   func(ctx context.Context, key string) (backend.Item, error)
	put   func(ctx context.Context, req backend.PutRequest) (backend.Version, error)
	del   func(ctx context.Context, req backend.DeleteRequest) error
	list  func(ctx context.Context, req backend.ListRequest) iter.Seq2[backend.Item, error]
	batch func(ctx context.Context, ops []backend.Op) ([]backend.Version, error)
	add   func(ctx context.Context, req backend.AddRequest) (int64, backend.Version, error)
	many  func(ctx context.Context, reqs []backend.DeleteRequest) (int, error)
	watch func(ctx context.Context, prefix string) iter.Seq2[backend.Event, error]
}

func (b *broken) Get(ctx context.Context, key string) (backend.Item, error) {
	if b.get != nil {
		return b.get(ctx, key)
	}
	return b.Backend.Get(ctx, key)
}

func (b *broken) Put(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
	if b.put != nil {
		return b.put(ctx, req)
	}
	return b.Backend.Put(ctx, req)
}

func (b *broken) Delete(ctx context.Context, req backend.DeleteRequest) error {
	if b.del != nil {
		return b.del(ctx, req)
	}
	return b.Backend.Delete(ctx, req)
}

func (b *broken) List(ctx context.Context, req backend.ListRequest) iter.Seq2[backend.Item, error] {
	if b.list != nil {
		return b.list(ctx, req)
	}
	return b.Backend.List(ctx, req)
}

func (b *broken) Batch(ctx context.Context, ops []backend.Op) ([]backend.Version, error) {
	if b.batch != nil {
		return b.batch(ctx, ops)
	}
	return b.Backend.Batch(ctx, ops)
}

func (b *broken) Add(ctx context.Context, req backend.AddRequest) (int64, backend.Version, error) {
	if b.add != nil {
		return b.add(ctx, req)
	}
	return b.Backend.Add(ctx, req)
}

func (b *broken) Watch(ctx context.Context, prefix string) iter.Seq2[backend.Event, error] {
	if b.watch != nil {
		return b.watch(ctx, prefix)
	}
	return b.Backend.Watch(ctx, prefix)
}

func (b *broken) DeleteMany(ctx context.Context, reqs []backend.DeleteRequest) (int, error) {
	if b.many != nil {
		return b.many(ctx, reqs)
	}
	n := 0
	for _, r := range reqs {
		err := b.Delete(ctx, r)
		switch {
		case err == nil:
			n++
		case !errors.Is(err, backend.ErrConflict):
			return n, err
		}
	}
	return n, nil
}

// defect is one way to break the contract and the cases that must notice.
type defect struct {
	name    string
	spoil   func(b *broken)
	noticed []string
}

func dropCondition(kind backend.Kind) func(*broken) {
	return func(b *broken) {
		b.put = func(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
			if req.Cond.Kind() == kind {
				req.Cond = backend.None()
			}
			return b.Backend.Put(ctx, req)
		}
	}
}

// checkThenWrite looks and then writes, as two steps.
func checkThenWrite(b *broken) {
	b.put = func(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
		item, err := b.Backend.Get(ctx, req.Key)
		absent := errors.Is(err, backend.ErrNotFound)
		if err != nil && !absent {
			return "", err
		}
		bad := (req.Cond.Kind() == backend.KindCreateOnly && !absent) ||
			(req.Cond.Kind() == backend.KindIfVersion && item.Version != req.Cond.Version())
		if bad {
			return "", &backend.ConflictError{Op: "put", Key: req.Key, Wanted: req.Cond, Found: item.Version, Absent: absent}
		}
		runtime.Gosched()
		req.Cond = backend.None()
		return b.Backend.Put(ctx, req)
	}
}

func checkThenDelete(b *broken) {
	b.del = func(ctx context.Context, req backend.DeleteRequest) error {
		item, err := b.Backend.Get(ctx, req.Key)
		if req.Cond.Kind() == backend.KindIfVersion && (err != nil || item.Version != req.Cond.Version()) {
			return &backend.ConflictError{Op: "delete", Key: req.Key, Wanted: req.Cond, Found: item.Version, Absent: err != nil}
		}
		runtime.Gosched()
		return b.Backend.Delete(ctx, backend.DeleteRequest{Key: req.Key})
	}
}

// contentHash gives equal values equal versions, as plain object stores do.
func contentHash(b *broken) {
	b.put = func(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
		req.Nonce = fmt.Sprintf("%x", sha256.Sum256(req.Value))
		return b.Backend.Put(ctx, req)
	}
}

// inPlace writes the first half of a large value in a step of its own.
func inPlace(b *broken) {
	b.put = func(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
		if len(req.Value) > 4096 && req.Cond.Kind() == backend.KindNone {
			half := req
			half.Value = req.Value[:len(req.Value)/2]
			if _, err := b.Backend.Put(ctx, half); err != nil {
				return "", err
			}
			runtime.Gosched()
		}
		return b.Backend.Put(ctx, req)
	}
}

// staleReads answers every third read from the answer before.
func staleReads(b *broken) {
	var mu sync.Mutex
	cache := map[string]backend.Item{}
	reads := 0
	b.get = func(ctx context.Context, key string) (backend.Item, error) {
		mu.Lock()
		defer mu.Unlock()
		reads++
		if old, ok := cache[key]; ok && reads%3 == 0 {
			return old, nil
		}
		item, err := b.Backend.Get(ctx, key)
		if err == nil {
			cache[key] = item
		}
		return item, err
	}
}

func addInTwoSteps(b *broken) {
	b.add = func(ctx context.Context, req backend.AddRequest) (int64, backend.Version, error) {
		item, err := b.Backend.Get(ctx, req.Key)
		var current int64
		if err == nil {
			current, _ = strconv.ParseInt(string(item.Value), 10, 64)
		}
		if sum := current + req.Delta; sum < req.Min || sum > req.Max {
			return 0, "", &backend.BoundsError{Current: current}
		}
		runtime.Gosched()
		v, err := b.Backend.Put(ctx, backend.PutRequest{Key: req.Key, Value: strconv.AppendInt(nil, current+req.Delta, 10), Nonce: req.Nonce})
		return current + req.Delta, v, err
	}
}

func relist(change func(items []backend.Item, req backend.ListRequest) []backend.Item) func(*broken) {
	return func(b *broken) {
		b.list = func(ctx context.Context, req backend.ListRequest) iter.Seq2[backend.Item, error] {
			return func(yield func(backend.Item, error) bool) {
				var items []backend.Item
				all := req
				all.Prefix = strings.SplitAfter(req.Prefix, "/")[0]
				for item, err := range b.Backend.List(ctx, all) {
					if err != nil {
						yield(item, err)
						return
					}
					items = append(items, item)
				}
				for _, item := range change(items, req) {
					if !yield(item, nil) {
						return
					}
				}
			}
		}
	}
}

func under(items []backend.Item, req backend.ListRequest) []backend.Item {
	return slices.DeleteFunc(items, func(i backend.Item) bool { return !strings.HasPrefix(i.Key, req.Prefix) })
}

func defects() []defect {
	return []defect{
		{"create-only ignored", dropCondition(backend.KindCreateOnly), []string{"create-only", "32 create-only have one winner"}},
		{"if-version ignored", dropCondition(backend.KindIfVersion), []string{"if-version", "missing key", "versions never repeat", "32 if-version have one winner"}},
		{"check, then write", checkThenWrite, []string{"32 create-only have one winner", "32 if-version have one winner", "compare-and-set counter"}},
		{"check, then delete", checkThenDelete, []string{"32 conditional deletes have one winner", "delete and replace of one version have one winner"}},
		{"condition on delete ignored", func(b *broken) {
			b.del = func(ctx context.Context, req backend.DeleteRequest) error {
				return b.Backend.Delete(ctx, backend.DeleteRequest{Key: req.Key})
			}
		}, []string{"conditional delete", "bulk delete"}},
		{"version is a hash of the content", contentHash, []string{"blind write", "versions never repeat"}},
		{"written in place", inPlace, []string{"no torn read under a writer"}},
		{"stale reads", staleReads, []string{"linearizable history"}},
		{"add in two steps", addInTwoSteps, []string{"guarded stock", "guarded add"}},
		{"batch one by one", func(b *broken) {
			b.batch = func(ctx context.Context, ops []backend.Op) ([]backend.Version, error) {
				versions := make([]backend.Version, len(ops))
				for i, op := range ops {
					var err error
					if op.Delete {
						err = b.Delete(ctx, backend.DeleteRequest{Key: op.Key, Cond: op.Cond})
					} else {
						versions[i], err = b.Put(ctx, backend.PutRequest{Key: op.Key, Value: op.Value, Cond: op.Cond, Nonce: op.Nonce})
					}
					if err != nil {
						return nil, err
					}
				}
				return versions, nil
			}
		}, []string{"batch"}},
		{"listing unordered", relist(func(items []backend.Item, req backend.ListRequest) []backend.Item {
			items = under(items, req)
			slices.SortFunc(items, func(a, b backend.Item) int { return cmp.Compare(b.Key, a.Key) })
			return items
		}), []string{"odd keys", "listing", "listing under writes"}},
		{"listing by wildcard", relist(func(items []backend.Item, req backend.ListRequest) []backend.Item {
			return slices.DeleteFunc(items, func(i backend.Item) bool {
				head, tail, found := strings.Cut(req.Prefix, "_")
				if !found || len(i.Key) < len(req.Prefix) {
					return !strings.HasPrefix(i.Key, req.Prefix)
				}
				return !strings.HasPrefix(i.Key, head) || !strings.HasPrefix(i.Key[len(head)+1:], tail)
			})
		}), []string{"listing"}},
		{"listing drops the end of a page", relist(func(items []backend.Item, req backend.ListRequest) []backend.Item {
			items = under(items, req)
			if req.PageSize > 0 && len(items) > req.PageSize {
				items = slices.Delete(items, req.PageSize, req.PageSize+1)
			}
			return items
		}), []string{"odd keys", "listing", "listing under writes"}},
		{"values shared with the caller", func(b *broken) {
			shared := map[string][]byte{}
			var mu sync.Mutex
			b.put = func(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
				mu.Lock()
				shared[req.Key] = req.Value
				mu.Unlock()
				return b.Backend.Put(ctx, req)
			}
			b.get = func(ctx context.Context, key string) (backend.Item, error) {
				item, err := b.Backend.Get(ctx, key)
				mu.Lock()
				item.Value = shared[key]
				mu.Unlock()
				return item, err
			}
		}, []string{"values belong to the caller"}},
		{"failed read taken for empty", func(b *broken) {
			b.get = func(ctx context.Context, key string) (backend.Item, error) {
				item, err := b.Backend.Get(ctx, key)
				if err != nil {
					return backend.Item{Key: key}, nil
				}
				return item, nil
			}
		}, []string{"missing key", "blind write", "linearizable history"}},
		{"bulk delete ignores conditions", func(b *broken) {
			b.many = func(ctx context.Context, reqs []backend.DeleteRequest) (int, error) {
				for _, r := range reqs {
					if err := b.Backend.Delete(ctx, backend.DeleteRequest{Key: r.Key}); err != nil {
						return 0, err
					}
				}
				return len(reqs), nil
			}
		}, []string{"bulk delete"}},
		{"watch without deletions", func(b *broken) {
			b.watch = func(ctx context.Context, prefix string) iter.Seq2[backend.Event, error] {
				return func(yield func(backend.Event, error) bool) {
					for ev, err := range b.Backend.Watch(ctx, prefix) {
						if !ev.Deleted && !yield(ev, err) {
							return
						}
					}
				}
			}
		}, []string{"watch"}},
		{"large values cut off", func(b *broken) {
			b.put = func(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
				req.Value = req.Value[:min(len(req.Value), math.MaxUint16)]
				return b.Backend.Put(ctx, req)
			}
		}, []string{"values of all kinds"}},
	}
}

// Each defect is noticed by the cases that are there to notice it. This is the
// proof that the cases can fail.
func TestSuiteNoticesDefects(t *testing.T) {
	cases := map[string]storetest.Case{}
	for _, c := range storetest.Cases() {
		cases[c.Name] = c
	}
	for _, d := range defects() {
		t.Run(d.name, func(t *testing.T) {
			for _, name := range d.noticed {
				c, ok := cases[name]
				if !ok {
					t.Fatalf("there is no case %q", name)
				}
				b := &broken{Backend: mem.New()}
				d.spoil(b)
				s := store.New(b, store.Options{})
				// The time bounds those that would wait for what never comes.
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				if name == "watch" {
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), time.Second)
				}
				err := storetest.RunCase(ctx, s, c)
				cancel()
				if err == nil {
					t.Errorf("case %q passed on a store with this defect", name)
				} else {
					t.Logf("%s: %.160s", name, err)
				}
			}
		})
	}
}

func TestMemory(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	defer s.Close()
	storetest.Run(t, s)
}

// A history that no order explains is refused, and one that only an unknown
// write explains is accepted.
func TestCheckHistory(t *testing.T) {
	put := storetest.Record{Client: 1, Kind: "put", Key: "k", Value: "a", Cond: "none", Call: 1, Return: 2, Outcome: "ok", Version: "v1"}
	absentLater := storetest.Record{Client: 2, Kind: "get", Key: "k", Call: 3, Return: 4, Outcome: "absent"}
	if storetest.CheckHistory([]storetest.Record{put, absentLater}) == nil {
		t.Error("a lost acknowledged write was accepted")
	}
	lost := storetest.Record{Client: 3, Kind: "put", Key: "k", Value: "b", Cond: "none", Call: 1, Outcome: "unknown"}
	sees := storetest.Record{Client: 2, Kind: "get", Key: "k", Value: "b", Call: 8, Return: 9, Outcome: "ok", Version: "v2"}
	if err := storetest.CheckHistory([]storetest.Record{put, lost, sees}); err != nil {
		t.Errorf("a write without an answer that took effect late: %v", err)
	}
	pending := storetest.Record{Client: 4, Kind: "get", Key: "k", Call: 1}
	if err := storetest.CheckHistory([]storetest.Record{put, pending}); err != nil {
		t.Errorf("a read whose client was killed before the answer: %v", err)
	}
	twice := sees
	twice.Version = "v1"
	if storetest.CheckHistory([]storetest.Record{put, lost, twice}) == nil {
		t.Error("one version with two values was accepted")
	}
}
