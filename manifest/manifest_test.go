package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/manifest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
	"github.com/holdfast-dev/holdfast/store/mem"
)

type item = manifest.Item[string]

// stage is a store whose reads and writes of the list a test can disturb, and
// blobs whose deletions it sees.
type stage struct {
	*mem.Backend
	blobs  manifest.StoreBlobs
	s      *store.Store
	onPut  func(n int, req backend.PutRequest) error // nil error: go on
	getErr error
	onDel  func(ref string) error
	puts   int
}

func (st *stage) Get(ctx context.Context, key string) (backend.Item, error) {
	if st.getErr != nil && key == "list" {
		return backend.Item{}, st.getErr
	}
	return st.Backend.Get(ctx, key)
}

func (st *stage) Put(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
	if req.Key == "list" && st.onPut != nil {
		st.puts++
		if err := st.onPut(st.puts, req); err != nil {
			return "", err
		}
	}
	return st.Backend.Put(ctx, req)
}

func (st *stage) Delete(ctx context.Context, req backend.DeleteRequest) error {
	if ref, isBlob := strings.CutPrefix(req.Key, "blobs/"); isBlob && st.onDel != nil {
		if err := st.onDel(ref); err != nil {
			return err
		}
	}
	return st.Backend.Delete(ctx, req)
}

func newStage(t *testing.T) (*stage, *manifest.Manifest[string]) {
	t.Helper()
	st := &stage{Backend: mem.New()}
	st.s = store.New(st, store.Options{})
	st.blobs = manifest.StoreBlobs{Store: st.s, Prefix: "blobs"}
	return st, st.open(t)
}

// open is a manifest as another process would have it.
func (st *stage) open(t *testing.T) *manifest.Manifest[string] {
	t.Helper()
	m, err := manifest.New[string](st.s, "list", manifest.Options{Blobs: st.blobs, Retry: store.Retry{Base: time.Microsecond}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (st *stage) blob(t *testing.T, text string) string {
	t.Helper()
	ref, err := st.blobs.Put(t.Context(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func (st *stage) has(t *testing.T, ref string) bool {
	t.Helper()
	_, err := st.blobs.Get(t.Context(), ref)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

func order(items []item) string {
	var ids []string
	for _, i := range items {
		ids = append(ids, i.ID)
	}
	return strings.Join(ids, " ")
}

func wantOrder(t *testing.T, m *manifest.Manifest[string], want string) {
	t.Helper()
	items, _, err := m.Load(t.Context())
	if err != nil || order(items) != want {
		t.Errorf("the list is %q (%v), want %q", order(items), err, want)
	}
}

func ok(t *testing.T) func(saved manifest.Saved[string], err error) manifest.Saved[string] {
	return func(saved manifest.Saved[string], err error) manifest.Saved[string] {
		t.Helper()
		if err := errors.Join(err, saved.LeftErr); err != nil {
			t.Fatal(err)
		}
		return saved
	}
}

func TestOperations(t *testing.T) {
	_, m := newStage(t)
	ctx := t.Context()
	if items, v, err := m.Load(ctx); len(items) > 0 || v != "" || err != nil {
		t.Fatalf("before the first write: %v %q %v", items, v, err)
	}
	ok(t)(m.Append(ctx, item{ID: "a"}, item{ID: "b"}, item{ID: "c"}))
	ok(t)(m.Insert(ctx, 1, item{ID: "x"}))
	wantOrder(t, m, "a x b c")
	ok(t)(m.Move(ctx, "x", 99))
	wantOrder(t, m, "a b c x")
	ok(t)(m.Move(ctx, "c", 0))
	wantOrder(t, m, "c a b x")
	ok(t)(m.Remove(ctx, "a", "x"))
	wantOrder(t, m, "c b")
	ok(t)(m.Append(ctx, item{ID: "d", Value: "same"}, item{ID: "e"}, item{ID: "f", Value: "same"}))
	ok(t)(m.Dedupe(ctx, func(i item) string { return i.Value }))
	wantOrder(t, m, "c b f e")
	var missing *manifest.MissingError
	if _, err := m.Remove(ctx, "b", "gone"); !errors.As(err, &missing) || missing.ID != "gone" {
		t.Errorf("remove of a missing item: %v", err)
	}
	if _, err := m.Append(ctx, item{ID: "b"}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("an id twice: %v", err)
	}
	wantOrder(t, m, "c b f e")
}

// Many writers append: nothing is lost, and each one's items are in its order.
// The first write is create-only, so it has one winner as well.
func TestParallelAppends(t *testing.T) {
	const writers, each = 8, 10
	s := store.New(mem.New(), store.Options{})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			m, err := manifest.New[string](s, "list", manifest.Options{Retry: store.Retry{Attempts: store.UntilDeadline, Cap: time.Millisecond}})
			if err != nil {
				t.Error(err)
				return
			}
			for n := range each {
				if _, err := m.Append(t.Context(), item{ID: fmt.Sprintf("%d-%d", w, n)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	m, err := manifest.New[string](s, "list", manifest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	items, _, err := m.Load(t.Context())
	if err != nil || len(items) != writers*each {
		t.Fatalf("%d of %d items are there, %v", len(items), writers*each, err)
	}
	next := map[byte]int{}
	for _, i := range items {
		if want := fmt.Sprintf("%c-%d", i.ID[0], next[i.ID[0]]); i.ID != want {
			t.Errorf("%s stands where %s should", i.ID, want)
		}
		next[i.ID[0]]++
	}
}

// The displaced blob is deleted after the save, the one still in use is not.
func TestDisplacedBlobs(t *testing.T) {
	st, m := newStage(t)
	ctx := t.Context()
	shared, own, fresh := st.blob(t, "shared"), st.blob(t, "own"), st.blob(t, "fresh")
	ok(t)(m.Append(ctx, item{ID: "a", Refs: []string{shared, own}}, item{ID: "b", Refs: []string{shared}}))
	saved := ok(t)(m.Update(ctx, func(l *manifest.List[string]) error {
		return l.Replace(item{ID: "a", Refs: []string{fresh}})
	}))
	if len(saved.Deleted) != 1 || st.has(t, own) || !st.has(t, shared) || !st.has(t, fresh) {
		t.Errorf("deleted %v; own %t shared %t fresh %t", saved.Deleted, st.has(t, own), st.has(t, shared), st.has(t, fresh))
	}
}

// The attempt that removes a loses; the winner has moved a's blob to b. The
// retry removes a and must not delete the blob, which b refers to now.
func TestRetryKeepsWhatTheWinnerRefersTo(t *testing.T) {
	st, m := newStage(t)
	ctx := t.Context()
	ref := st.blob(t, "precious")
	ok(t)(m.Append(ctx, item{ID: "a", Refs: []string{ref}}))
	other := st.open(t)
	st.onPut = func(n int, _ backend.PutRequest) error {
		if n == 1 {
			ok(t)(other.Append(ctx, item{ID: "b", Refs: []string{ref}}))
		}
		return nil
	}
	saved := ok(t)(m.Remove(ctx, "a"))
	if order(saved.Items) != "b" || len(saved.Deleted) != 0 || !st.has(t, ref) {
		t.Errorf("list %q, deleted %v, blob there: %t", order(saved.Items), saved.Deleted, st.has(t, ref))
	}
}

// The change loses every attempt: nothing is written, nothing is deleted.
func TestLostRaceDeletesNothing(t *testing.T) {
	st, m := newStage(t)
	ctx := t.Context()
	ref := st.blob(t, "x")
	ok(t)(m.Append(ctx, item{ID: "a", Refs: []string{ref}}))
	other := st.open(t)
	busy := false
	st.onPut = func(n int, _ backend.PutRequest) error {
		if !busy {
			busy = true
			ok(t)(other.Append(ctx, item{ID: fmt.Sprint(n)}))
			busy = false
		}
		return nil
	}
	_, err := m.Remove(ctx, "a")
	var exhausted *store.ExhaustedError
	if !errors.As(err, &exhausted) || !st.has(t, ref) {
		t.Errorf("%v, blob there: %t", err, st.has(t, ref))
	}
}

// The answer of the save is lost and cannot be settled: nothing is deleted,
// whether or not it took effect. If it did, a sweep finishes the work.
func TestUnknownOutcomeDeletesNothing(t *testing.T) {
	for _, applied := range []bool{false, true} {
		st, m := newStage(t)
		ctx := t.Context()
		ref := st.blob(t, "x")
		ok(t)(m.Append(ctx, item{ID: "a", Refs: []string{ref}}, item{ID: "b"}))
		st.onPut = func(_ int, req backend.PutRequest) error {
			if applied {
				if _, err := st.Backend.Put(ctx, req); err != nil {
					return err
				}
			}
			st.getErr = errors.New("away")
			return &backend.UnknownOutcomeError{Op: "put", Key: req.Key, Cond: req.Cond, Nonce: req.Nonce, Err: errors.New("cut")}
		}
		_, err := m.Remove(ctx, "a")
		if !errors.Is(err, store.ErrUnknownOutcome) || !st.has(t, ref) {
			t.Errorf("applied %t: %v, blob there: %t", applied, err, st.has(t, ref))
		}
		st.onPut, st.getErr = nil, nil
		n, err := st.open(t).Sweep(ctx)
		if err != nil || (n == 1) != applied || st.has(t, ref) == applied {
			t.Errorf("applied %t: sweep %d, %v, blob there: %t", applied, n, err, st.has(t, ref))
		}
	}
}

// A crash between save and delete: the blob is left, another process sweeps
// it, and the list of the doomed is empty afterwards.
func TestCrashBetweenSaveAndDelete(t *testing.T) {
	st, m := newStage(t)
	ctx := t.Context()
	ref := st.blob(t, "x")
	ok(t)(m.Append(ctx, item{ID: "a", Refs: []string{ref}}, item{ID: "b"}))
	st.onDel = func(string) error { return errors.New("the process is gone") }
	saved, err := m.Remove(ctx, "a")
	if err != nil || len(saved.Left) != 1 || saved.LeftErr == nil {
		t.Fatalf("%+v, %v", saved, err)
	}
	st.onDel = nil
	other := st.open(t)
	var doomed *manifest.DoomedError
	if _, err := other.Append(ctx, item{ID: "c", Refs: []string{ref}}); !errors.As(err, &doomed) || doomed.Ref != ref {
		t.Errorf("a reference to a doomed blob: %v", err)
	}
	if n, err := other.Sweep(ctx); n != 1 || err != nil || st.has(t, ref) {
		t.Errorf("sweep %d, %v, blob there: %t", n, err, st.has(t, ref))
	}
	if n, err := other.Sweep(ctx); n != 0 || err != nil {
		t.Errorf("second sweep %d, %v", n, err)
	}
	wantOrder(t, other, "b")
	if raw, err := st.s.Get(ctx, "list"); err != nil || strings.Contains(string(raw.Value), "doomed") {
		t.Errorf("stored %s, %v", raw.Value, err)
	}
}

// A genuine read error is returned; nothing is written over what could not be
// read.
func TestReadErrorWritesNothing(t *testing.T) {
	st, m := newStage(t)
	ctx := t.Context()
	ok(t)(m.Append(ctx, item{ID: "a"}))
	away := errors.New("away")
	st.getErr = away
	st.onPut = func(int, backend.PutRequest) error { t.Error("something was written"); return nil }
	if _, err := m.Append(ctx, item{ID: "b"}); !errors.Is(err, away) {
		t.Errorf("append: %v", err)
	}
	st.getErr, st.onPut = nil, nil
	if _, err := st.s.Put(ctx, "list", []byte("{"), store.None()); err != nil {
		t.Fatal(err)
	}
	var corrupt *store.CorruptError
	if _, err := m.Append(ctx, item{ID: "b"}); !errors.As(err, &corrupt) {
		t.Errorf("append to a damaged list: %v", err)
	}
}

func Example() {
	ctx := context.Background()
	s := store.New(mem.New(), store.Options{})
	defer s.Close()
	pages, err := manifest.New[string](s, "book/pages", manifest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = pages.Append(ctx, manifest.Item[string]{ID: "p1", Value: "Title"}, manifest.Item[string]{ID: "p2", Value: "Text"})
	if err != nil {
		fmt.Println(err)
		return
	}
	saved, err := pages.Insert(ctx, 1, manifest.Item[string]{ID: "p3", Value: "Contents"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range saved.Items {
		fmt.Println(item.Value)
	}
	// Output:
	// Title
	// Contents
	// Text
}
