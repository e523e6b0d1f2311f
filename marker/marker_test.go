package marker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/marker"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
	"github.com/holdfast-dev/holdfast/store/mem"
)

func newIndex(t *testing.T, opts marker.Options) (*marker.Index, *store.Store) {
	t.Helper()
	s := store.New(mem.New(), store.Options{})
	t.Cleanup(func() { _ = s.Close() })
	if opts.Prefix == "" {
		opts.Prefix = "running"
	}
	ix, err := marker.New(s, opts)
	if err != nil {
		t.Fatal(err)
	}
	return ix, s
}

func register(t *testing.T, ix *marker.Index, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := ix.Register(t.Context(), id, []byte("meta "+id)); err != nil {
			t.Fatal(err)
		}
	}
}

func ids[M any](list []M, id func(M) string) string {
	var out []string
	for _, m := range list {
		out = append(out, id(m))
	}
	return strings.Join(out, " ")
}

func listed(t *testing.T, ix *marker.Index) string {
	t.Helper()
	list, err := ix.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(ids(list, func(m marker.Marker) string { return m.ID }))
	slices.Sort(names)
	return strings.Join(names, " ")
}

func statusOf(dead ...string) marker.Resolver[string] {
	return func(_ context.Context, m marker.Marker) (string, marker.Status, error) {
		if slices.Contains(dead, m.ID) {
			return "", marker.Dead, nil
		}
		return "value of " + m.ID, marker.Live, nil
	}
}

// Reader reads, producer registers, reader prunes: the producer's item is
// there. The resolver is where the producer gets in between.
func TestProducerBetweenReadAndPrune(t *testing.T) {
	ix, _ := newIndex(t, marker.Options{})
	register(t, ix, "a", "b")
	view, err := marker.Active(t.Context(), ix, func(ctx context.Context, m marker.Marker) (string, marker.Status, error) {
		if m.ID == "a" {
			register(t, ix, "late")
			return "", marker.Dead, nil
		}
		return "", marker.Live, nil
	})
	if err != nil || view.Pruned != 1 || len(view.Items) != 1 || view.Items[0].ID != "b" || string(view.Items[0].Meta) != "meta b" {
		t.Fatalf("view %+v, %v", view, err)
	}
	if got := listed(t, ix); got != "b late" {
		t.Errorf("the index holds %q, want b and late", got)
	}
}

// The same schedule on one shared list loses the producer's item. This is the
// demonstration of why the index is not a list.
func TestSharedListLosesTheProducer(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	ctx := t.Context()
	read := func() []string {
		item, err := s.Get(ctx, "list")
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		if err := json.Unmarshal(item.Value, &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	write := func(list []string) {
		b, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(ctx, "list", b, store.None()); err != nil {
			t.Fatal(err)
		}
	}
	write([]string{"a", "b"})
	readers := read()
	write(append(read(), "late"))
	write(slices.DeleteFunc(readers, func(id string) bool { return id == "a" }))
	if got := read(); slices.Contains(got, "late") {
		t.Errorf("the list holds %q: the demonstration does not show the loss any more", got)
	}
}

// An item that registers again while the reader is about to prune it stays.
func TestRegisteredAgainStays(t *testing.T) {
	ix, _ := newIndex(t, marker.Options{})
	register(t, ix, "a")
	view, err := marker.Active(t.Context(), ix, func(context.Context, marker.Marker) (string, marker.Status, error) {
		register(t, ix, "a")
		return "", marker.Dead, nil
	})
	if err != nil || view.Pruned != 0 || listed(t, ix) != "a" {
		t.Errorf("view %+v, %v, index %q", view, err, listed(t, ix))
	}
}

func TestConcurrentRegistrationsAllExist(t *testing.T) {
	for _, shards := range []int{0, 16} {
		ix, _ := newIndex(t, marker.Options{Shards: shards})
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Go(func() {
				for n := range 10 {
					register(t, ix, fmt.Sprintf("%d-%d", w, n))
				}
			})
		}
		// A reader that prunes what it finds dead runs all along.
		stop := make(chan struct{})
		var reader sync.WaitGroup
		reader.Go(func() {
			for {
				if _, err := marker.Active(t.Context(), ix, statusOf("0-0", "1-1")); err != nil {
					t.Error(err)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		wg.Wait()
		close(stop)
		reader.Wait()
		list, err := ix.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		missing := 160 - len(list)
		if missing > 2 {
			t.Errorf("%d shards: %d of 160 registrations are missing, at most the 2 dead ones may be", shards, missing)
		}
	}
}

// An aged marker is deleted although the resolver, a trip-wire, is never asked.
func TestAgedIsNotResolved(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ix, _ := newIndex(t, marker.Options{Time: marker.UUIDv7, MaxAge: time.Hour, Now: func() time.Time { return now }})
	old, fresh, future := marker.NewID(now.Add(-2*time.Hour)), marker.NewID(now.Add(-time.Minute)), marker.NewID(now.Add(time.Hour))
	register(t, ix, old, fresh, future, "no-time-in-it")
	view, err := marker.Active(t.Context(), ix, func(_ context.Context, m marker.Marker) (string, marker.Status, error) {
		if m.ID == old {
			t.Error("the aged marker was resolved")
		}
		return "", marker.Live, nil
	})
	if err != nil || view.Pruned != 1 {
		t.Fatalf("view %+v, %v", view, err)
	}
	if got := ids(view.Items, func(i marker.Item[string]) string { return i.ID }); got != future+" "+fresh+" no-time-in-it" {
		t.Errorf("items %q, want newest first", got)
	}
	register(t, ix, old)
	if n, err := ix.PruneAged(t.Context()); n != 1 || err != nil {
		t.Errorf("prune aged: %d, %v", n, err)
	}
	if strings.Contains(listed(t, ix), old) {
		t.Error("the aged marker is still there")
	}
}

func TestUnknownNeverDeletes(t *testing.T) {
	ix, _ := newIndex(t, marker.Options{})
	register(t, ix, "a", "b", "c")
	away := errors.New("resolver is away")
	view, err := marker.Active(t.Context(), ix, func(_ context.Context, m marker.Marker) (string, marker.Status, error) {
		switch m.ID {
		case "a":
			return "", marker.Dead, away
		case "b":
			var nothing marker.Status
			return "", nothing, nil
		}
		return "", marker.Dead, nil
	})
	if err != nil || view.Pruned != 1 || len(view.Doubts) != 2 || !errors.Is(view.Doubts[1].Err, away) {
		t.Fatalf("view %+v, %v", view, err)
	}
	if got := listed(t, ix); got != "a b" {
		t.Errorf("the index holds %q, want what is in doubt", got)
	}
}

// Of a group the newest stays; two readers at the same time agree which.
func TestGroups(t *testing.T) {
	base := time.Unix(1_700_000_000, 0)
	ix, _ := newIndex(t, marker.Options{Time: marker.EpochSuffix, Group: func(m marker.Marker) string { return strings.Split(m.ID, ".")[0] }})
	id := func(group, run string, age int) string {
		return fmt.Sprintf("%s.%s-%d", group, run, base.Add(-time.Duration(age)*time.Second).Unix())
	}
	register(t, ix, id("build", "x", 0), id("build", "y", 0), id("build", "z", 50), id("test", "x", 9))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := marker.Active(t.Context(), ix, statusOf()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var left []string
	for m, err := range ix.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, m.ID)
	}
	want := []string{id("build", "y", 0), id("test", "x", 9)}
	if !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
}

func TestCapAndParallel(t *testing.T) {
	ix, _ := newIndex(t, marker.Options{Parallel: 3, Time: marker.EpochSuffix})
	for n := range 20 {
		register(t, ix, fmt.Sprintf("job-%d", 1_700_000_000+n))
	}
	var now, most, calls atomic.Int64
	gate := make(chan struct{}, 3)
	view, err := marker.Active(t.Context(), ix, func(_ context.Context, m marker.Marker) (int64, marker.Status, error) {
		calls.Add(1)
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		gate <- struct{}{}
		<-gate
		return m.Time.Unix(), marker.Live, nil
	})
	if err != nil || calls.Load() != 8 || len(view.Items) != 8 || view.Hidden != 12 || most.Load() > 3 {
		t.Fatalf("%d calls, %d at once, %d items, %d hidden, %v", calls.Load(), most.Load(), len(view.Items), view.Hidden, err)
	}
	if view.Items[0].Value != 1_700_000_019 || view.Items[7].Value != 1_700_000_012 {
		t.Errorf("items %+v, want the newest first", view.Items)
	}
}

func TestCompletionGate(t *testing.T) {
	ix, s := newIndex(t, marker.Options{})
	ctx := t.Context()
	register(t, ix, "job")
	resolve := marker.Gated(statusOf("job"), marker.AllPresent(s, func(m marker.Marker) []string {
		return []string{"result/" + m.ID, "log/" + m.ID}
	}))
	for _, part := range []string{"", "result/job", "log/job"} {
		if part != "" {
			if _, err := s.Put(ctx, part, nil, store.None()); err != nil {
				t.Fatal(err)
			}
		}
		view, err := marker.Active(ctx, ix, resolve)
		if err != nil {
			t.Fatal(err)
		}
		if done := part == "log/job"; done != (view.Pruned == 1) || done == (len(view.Items) == 1) {
			t.Errorf("with %q there: %+v", part, view)
		}
	}
	register(t, ix, "job")
	broken := marker.Gated(statusOf("job"), func(context.Context, marker.Marker) (bool, error) { return true, errors.New("away") })
	if view, err := marker.Active(ctx, ix, broken); err != nil || view.Pruned != 0 || len(view.Doubts) != 1 {
		t.Errorf("with a broken gate: %+v, %v", view, err)
	}
}

func TestMembership(t *testing.T) {
	type user struct{}
	member := func(ctx context.Context) error {
		if ctx.Value(user{}) != "ann" {
			return errors.New("not on the team")
		}
		return nil
	}
	ix, _ := newIndex(t, marker.Options{Member: member, Time: marker.EpochSuffix, MaxAge: time.Hour})
	register(t, ix, "secret-1700000000")
	ctx := t.Context()
	_, listErr := ix.List(ctx)
	_, readErr := ix.Read(ctx)
	_, ageErr := ix.PruneAged(ctx)
	_, activeErr := marker.Active(ctx, ix, statusOf())
	var allErr error
	for m, err := range ix.All(ctx) {
		allErr = err
		if m.ID != "" {
			t.Errorf("id %q leaked", m.ID)
		}
	}
	for name, err := range map[string]error{"list": listErr, "read": readErr, "prune": ageErr, "active": activeErr, "all": allErr} {
		var refused *marker.NotMemberError
		if !errors.As(err, &refused) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s by a stranger: %v", name, err)
		}
	}
	if got, err := ix.Read(context.WithValue(ctx, user{}, "ann")); err != nil || len(got.Aged) != 1 {
		t.Errorf("read by a member: %+v, %v", got, err)
	}
}

// A shard that cannot be read is an error; the rest does not pass for all.
func TestUnreadableShard(t *testing.T) {
	s := store.New(&failing{mem.New()}, store.Options{})
	ix, err := marker.New(s, marker.Options{Prefix: "r", Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	register(t, ix, "a", "b", "c", "d", "e", "f")
	if list, err := ix.List(t.Context()); err == nil {
		t.Errorf("list gave %d markers and no error", len(list))
	}
}

type failing struct{ *mem.Backend }

func (f *failing) List(ctx context.Context, req backend.ListRequest) iter.Seq2[backend.Item, error] {
	if strings.HasPrefix(req.Prefix, "r/02/") {
		return func(yield func(backend.Item, error) bool) { yield(backend.Item{}, errors.New("unreadable")) }
	}
	return f.Backend.List(ctx, req)
}

func TestBadOptionsAndIDs(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	for name, opts := range map[string]marker.Options{
		"no prefix": {}, "slash": {Prefix: "a/"}, "age": {Prefix: "a", MaxAge: 1}, "shards": {Prefix: "a", Shards: 257},
	} {
		if _, err := marker.New(s, opts); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ix, _ := newIndex(t, marker.Options{})
	for _, id := range []string{"", "a/b", "a\nb"} {
		if err := ix.Register(t.Context(), id, nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("register %q: %v", id, err)
		}
	}
}

func TestIDTimes(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	for name, c := range map[string]struct {
		of   marker.TimeOf
		id   string
		want time.Time
	}{
		"uuid":          {marker.UUIDv7, marker.NewID(at), at},
		"uuid v4":       {marker.UUIDv7, "0189dd2b-7fff-4abc-8abc-0123456789ab", time.Time{}},
		"uuid short":    {marker.UUIDv7, "0189dd2b", time.Time{}},
		"ulid":          {marker.ULID, "01ARZ3NDEKTSV4RRFFQ69G5FAV", time.UnixMilli(1469922850259)},
		"ulid lower":    {marker.ULID, "01arz3ndektsv4rrffq69g5fav", time.UnixMilli(1469922850259)},
		"ulid too big":  {marker.ULID, "81ARZ3NDEKTSV4RRFFQ69G5FAV", time.Time{}},
		"ulid letter U": {marker.ULID, "01ARZ3NDEKTSV4RRFFQ69G5FAU", time.Time{}},
		"seconds":       {marker.EpochSuffix, "job-1700000000", time.Unix(1_700_000_000, 0)},
		"milliseconds":  {marker.EpochSuffix, "job-x-1700000000123", at},
		"no dash":       {marker.EpochSuffix, "1700000000", time.Time{}},
		"sign":          {marker.EpochSuffix, "job-+170000000", time.Time{}},
		"other length":  {marker.EpochSuffix, "job-170000000", time.Time{}},
	} {
		got, ok := c.of(c.id)
		if ok == c.want.IsZero() || (ok && !got.Equal(c.want)) {
			t.Errorf("%s: %q gave %v, %t; want %v", name, c.id, got, ok, c.want)
		}
	}
}

func Example() {
	ctx := context.Background()
	s := store.New(mem.New(), store.Options{})
	defer s.Close()
	running, err := marker.New(s, marker.Options{Prefix: "running", Time: marker.UUIDv7, MaxAge: 24 * time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Each job registers itself: one write, no reading, no conflict.
	for _, what := range []string{"import", "export"} {
		if err := running.Register(ctx, marker.NewID(time.Now()), []byte(what)); err != nil {
			fmt.Println(err)
			return
		}
	}
	// A reader looks each job up; what is dead is pruned.
	view, err := marker.Active(ctx, running, func(_ context.Context, m marker.Marker) (string, marker.Status, error) {
		if string(m.Meta) == "import" {
			return "", marker.Dead, nil
		}
		return "running " + string(m.Meta), marker.Live, nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range view.Items {
		fmt.Println(item.Value)
	}
	fmt.Println("pruned:", view.Pruned)
	// Output:
	// running export
	// pruned: 1
}
