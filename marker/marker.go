package marker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
)

// Options describe an index. Only Prefix is needed. All processes that use one
// index must agree on Prefix, Shards, Time and Group.
type Options struct {
	// Prefix is where the markers live, without a slash at the end.
	Prefix string
	// Shards spreads the markers over this many sub-prefixes by a hash of the
	// id, for registration rates beyond what a store takes under one prefix.
	// Listing reads them all at once. 0 and 1 mean none; at most 256.
	Shards int
	// Time reads the time in an id; nil means that ids carry none.
	Time TimeOf
	// MaxAge makes older markers dead without asking the resolver. It needs
	// Time. 0 means never.
	MaxAge time.Duration
	// Group names what a marker is about; of several markers with the same
	// group the newest counts and the older are superseded. It must depend on
	// nothing that can change for a marker, so that all readers agree. Nil, or
	// an empty answer, means that the marker stands for itself.
	Group func(m Marker) string
	// Cap is how many markers a read resolves and returns, newest first.
	// 0 means 8.
	Cap int
	// Parallel is how many resolve at once. 0 means 4.
	Parallel int
	// Member is asked at the start of every read whether the caller may see
	// the index; an error refuses. An index can be enumerated, so this must
	// not be left to those who use the ids. Nil lets everybody read.
	Member func(ctx context.Context) error
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Marker is one entry.
type Marker struct {
	ID string
	// Meta is what Register was given; All and PruneAged leave it out.
	Meta []byte
	// Time is the time in the id; zero if it carries none.
	Time time.Time

	key     string
	version store.Version
}

// Index is a set of markers. It is safe for concurrent use.
type Index struct {
	s    *store.Store
	opts Options
}

// NotMemberError says that the caller may not see the index. It carries no id.
type NotMemberError struct {
	Prefix string
	Err    error
}

func (e *NotMemberError) Error() string {
	return fmt.Sprintf("read index %q: the caller is not a member: %v", e.Prefix, e.Err)
}

// Unwrap returns the refusal of Options.Member.
func (e *NotMemberError) Unwrap() error { return e.Err }

// New returns the index of these options on s.
func New(s *store.Store, opts Options) (*Index, error) {
	invalid := func(what, why string) error { return &store.InvalidError{Op: "new index", What: what, Why: why} }
	if err := backend.CheckKey("new index", opts.Prefix); err != nil {
		return nil, err
	}
	switch {
	case strings.HasSuffix(opts.Prefix, "/"):
		return nil, invalid(fmt.Sprintf("prefix %q", opts.Prefix), "leave out the slash at the end")
	case opts.Shards < 0 || opts.Shards > 256:
		return nil, invalid(fmt.Sprintf("%d shards", opts.Shards), "0 to 256 are possible")
	case opts.MaxAge > 0 && opts.Time == nil:
		return nil, invalid("MaxAge", "it needs Time, which reads the time in an id")
	}
	if opts.Cap <= 0 {
		opts.Cap = 8
	}
	if opts.Parallel <= 0 {
		opts.Parallel = 4
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Index{s: s, opts: opts}, nil
}

// base is the prefix of one shard, with its slash.
func (ix *Index) base(shard int) string {
	if ix.opts.Shards <= 1 {
		return ix.opts.Prefix + "/"
	}
	return fmt.Sprintf("%s/%02x/", ix.opts.Prefix, shard)
}

func (ix *Index) key(op, id string) (string, error) {
	if id == "" || strings.Contains(id, "/") {
		return "", &store.InvalidError{Op: op, What: fmt.Sprintf("id %q", id), Why: "an id is not empty and has no slash"}
	}
	shard := 0
	if ix.opts.Shards > 1 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(id))
		shard = int(h.Sum32() % uint32(ix.opts.Shards))
	}
	return ix.base(shard) + id, nil
}

// Register writes the marker of id, with optional small metadata. It reads
// nothing. To register an id again replaces its metadata.
func (ix *Index) Register(ctx context.Context, id string, meta []byte) error {
	key, err := ix.key("register", id)
	if err != nil {
		return err
	}
	_, err = ix.s.Put(ctx, key, meta, store.None())
	if err != nil {
		return fmt.Errorf("register %q: %w", id, err)
	}
	return nil
}

// Unregister deletes the marker of id. It is for the item itself, when it
// ends; that it is not there any more is fine.
func (ix *Index) Unregister(ctx context.Context, id string) error {
	key, err := ix.key("unregister", id)
	if err != nil {
		return err
	}
	if err := ix.s.Delete(ctx, key, store.None()); err != nil {
		return fmt.Errorf("unregister %q: %w", id, err)
	}
	return nil
}

func (ix *Index) admit(ctx context.Context) error {
	if ix.opts.Member == nil {
		return nil
	}
	if err := ix.opts.Member(ctx); err != nil {
		return &NotMemberError{Prefix: ix.opts.Prefix, Err: err}
	}
	return nil
}

func (ix *Index) marker(item store.Item, base string) Marker {
	m := Marker{ID: strings.TrimPrefix(item.Key, base), Meta: item.Value, key: item.Key, version: item.Version}
	if ix.opts.Time != nil {
		if t, ok := ix.opts.Time(m.ID); ok {
			m.Time = t
		}
	}
	return m
}

// All yields every marker as it is, without metadata, shard after shard, in
// the order of the ids within a shard. It holds no more than a page.
func (ix *Index) All(ctx context.Context) iter.Seq2[Marker, error] {
	return func(yield func(Marker, error) bool) {
		if err := ix.admit(ctx); err != nil {
			yield(Marker{}, err)
			return
		}
		for shard := range max(1, ix.opts.Shards) {
			base := ix.base(shard)
			for item, err := range ix.s.List(ctx, store.ListOptions{Prefix: base, Detail: store.KeysOnly}) {
				if err != nil {
					yield(Marker{}, err)
					return
				}
				if !yield(ix.marker(item, base), nil) {
					return
				}
			}
		}
	}
}

// Reading is one look at the index.
type Reading struct {
	// Markers are those that count, newest first.
	Markers []Marker
	// Aged are older than MaxAge, Superseded have a newer marker of their
	// group. Both are dead without asking a resolver.
	Aged, Superseded []Marker
}

// newer is one order for all readers. Ties of time are broken by id: two
// readers that broke them differently would each delete the other's choice,
// and none would be left.
func newer(a, b Marker) int {
	if c := b.Time.Compare(a.Time); c != 0 {
		return c
	}
	return cmp.Compare(b.ID, a.ID)
}

// Read looks at the whole index and changes nothing.
func (ix *Index) Read(ctx context.Context) (Reading, error) {
	if err := ix.admit(ctx); err != nil {
		return Reading{}, err
	}
	all, err := ix.collect(ctx)
	if err != nil {
		return Reading{}, fmt.Errorf("read index %q: %w", ix.opts.Prefix, err)
	}
	slices.SortFunc(all, newer)
	var r Reading
	seen := map[string]bool{}
	now := ix.opts.Now()
	for _, m := range all {
		group := ""
		if ix.opts.Group != nil {
			group = ix.opts.Group(m)
		}
		switch {
		case ix.aged(m, now):
			r.Aged = append(r.Aged, m)
		case group != "" && seen[group]:
			r.Superseded = append(r.Superseded, m)
		default:
			seen[group] = true
			r.Markers = append(r.Markers, m)
		}
	}
	return r, nil
}

func (ix *Index) aged(m Marker, now time.Time) bool {
	return ix.opts.MaxAge > 0 && !m.Time.IsZero() && now.Sub(m.Time) > ix.opts.MaxAge
}

// collect lists the shards, several at once. One shard that cannot be read
// fails the whole: a part must not pass for the index.
func (ix *Index) collect(ctx context.Context) ([]Marker, error) {
	const atOnce = 8
	n := max(1, ix.opts.Shards)
	parts, errs := make([][]Marker, n), make([]error, n)
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for shard := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			base := ix.base(shard)
			for item, err := range ix.s.List(ctx, store.ListOptions{Prefix: base, Detail: store.Values}) {
				if err != nil {
					errs[shard] = err
					return
				}
				parts[shard] = append(parts[shard], ix.marker(item, base))
			}
		})
	}
	wg.Wait()
	return slices.Concat(parts...), errors.Join(errs...)
}

// List returns the markers that count, newest first, not limited by Cap.
func (ix *Index) List(ctx context.Context) ([]Marker, error) {
	r, err := ix.Read(ctx)
	return r.Markers, err
}

// Prune deletes markers that are confirmed dead and returns how many are gone.
// A marker that was registered again since it was read stays, where the store
// enforces conditional deletes; elsewhere its single key is deleted as it is.
func (ix *Index) Prune(ctx context.Context, dead []Marker) (int, error) {
	if len(dead) == 0 {
		return 0, nil
	}
	conditional := ix.s.Capabilities().Delete.IfVersion
	deletions := make([]store.Deletion, len(dead))
	for i, m := range dead {
		deletions[i] = store.Deletion{Key: m.key}
		if conditional && m.version != "" {
			deletions[i].Cond = store.IfVersion(m.version)
		}
	}
	n, err := ix.s.DeleteMany(ctx, deletions)
	if err != nil {
		return n, fmt.Errorf("prune index %q: %w", ix.opts.Prefix, err)
	}
	return n, nil
}

// pruneChunk bounds the memory of PruneAged.
const pruneChunk = 5000

// PruneAged deletes every marker older than MaxAge by the time in its id,
// reading only keys and resolving nothing, and returns how many are gone.
func (ix *Index) PruneAged(ctx context.Context) (int, error) {
	now, total := ix.opts.Now(), 0
	var chunk []Marker
	flush := func() error {
		n, err := ix.Prune(ctx, chunk)
		total += n
		chunk = chunk[:0]
		return err
	}
	for m, err := range ix.All(ctx) {
		if err != nil {
			return total, err
		}
		if !ix.aged(m, now) {
			continue
		}
		chunk = append(chunk, m)
		if len(chunk) == pruneChunk {
			if err := flush(); err != nil {
				return total, err
			}
		}
	}
	return total, flush()
}
