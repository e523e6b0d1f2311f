package lease

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
)

// Options are for [New]. The zero value is useful. All processes that share
// leases must agree on Prefix.
type Options struct {
	// Prefix is where the leases live, without a slash at the end; empty means
	// "leases".
	Prefix string
	// TTL is how long a lease lasts without a renewal; 0 means 15 s, and 10 ms
	// is the least. It must be well above the time of a write to the store:
	// renewals go out every third of it. It is stored with the lease, so
	// holders may differ in it.
	TTL time.Duration
	// Holder names this process to people; empty means host name and process
	// number. It decides nothing.
	Holder string
	// Poll is the longest pause between two looks of a waiting Acquire; 0
	// means a tenth of TTL and at most one second.
	Poll time.Duration
	// Clock is for tests; nil means SystemClock.
	Clock Clock
}

// minTTL leaves renewals the time of a few writes to a local store.
const minTTL = 10 * time.Millisecond

// Manager takes leases in a store. It is safe for concurrent use, and remembers
// what it has seen: let one process use one Manager for one prefix.
type Manager struct {
	s    *store.Store
	opts Options

	mu sync.Mutex
	// seen is since when this process has seen a held lease unchanged.
	seen map[string]observation
	// unsure are the acquisitions whose answer was lost, by name.
	unsure map[string][]attempted
}

type observation struct {
	version store.Version
	since   time.Time
}

// attempted is an acquisition of which nothing is known: it replaced base, if
// it took effect, and then the record has this claim.
type attempted struct {
	claim string
	base  store.Version
}

// record is what the store holds for a lease. A record with Token 0 was
// created and never taken.
type record struct {
	Token   Token  `json:"token"`
	Ceiling Token  `json:"ceiling"` // the last token of the block that Token is of
	Held    bool   `json:"held"`
	Holder  string `json:"holder,omitempty"`
	// Claim is random for each attempt to acquire.
	Claim string        `json:"claim,omitempty"`
	TTL   time.Duration `json:"ttl_ns,omitempty"`
}

// New returns a Manager on s. Stores that enforce neither create-only nor
// if-version are refused with *store.UnsupportedError.
func New(s *store.Store, opts Options) (*Manager, error) {
	opts.Prefix = cmp.Or(opts.Prefix, "leases")
	if err := backend.CheckKey("new lease manager", opts.Prefix); err != nil {
		return nil, err
	}
	invalid := func(what, why string) error {
		return &store.InvalidError{Op: "new lease manager", What: what, Why: why}
	}
	if strings.HasSuffix(opts.Prefix, "/") {
		return nil, invalid(fmt.Sprintf("prefix %q", opts.Prefix), "leave out the slash at the end")
	}
	if opts.TTL != 0 && opts.TTL < minTTL || opts.Poll < 0 {
		return nil, invalid("TTL and Poll", fmt.Sprintf("a TTL is at least %s and a Poll is not negative; 0 takes the default", minTTL))
	}
	if err := needs(s, "lease"); err != nil {
		return nil, err
	}
	opts.TTL = cmp.Or(opts.TTL, 15*time.Second)
	opts.Poll = cmp.Or(opts.Poll, max(time.Millisecond, min(opts.TTL/10, time.Second)))
	if opts.Clock == nil {
		opts.Clock = SystemClock{}
	}
	if opts.Holder == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown host"
		}
		opts.Holder = fmt.Sprintf("%s process %d", host, os.Getpid())
	}
	return &Manager{s: s, opts: opts, seen: map[string]observation{}, unsure: map[string][]attempted{}}, nil
}

// Holder returns the name of this process as others see it.
func (m *Manager) Holder() string { return m.opts.Holder }

// needs refuses a store that would let two writers through.
func needs(s *store.Store, op string) error {
	caps := s.Capabilities()
	switch {
	case !caps.Put.CreateOnly:
		return &store.UnsupportedError{Backend: caps.Name, Op: op, Cond: backend.KindCreateOnly}
	case !caps.Put.IfVersion:
		return &store.UnsupportedError{Backend: caps.Name, Op: op, Cond: backend.KindIfVersion}
	}
	return nil
}

func (m *Manager) base() string           { return m.opts.Prefix + "/lease/" }
func (m *Manager) counter() string        { return m.opts.Prefix + "/tokens" }
func (m *Manager) key(name string) string { return m.base() + name }
func (m *Manager) now() time.Time         { return m.opts.Clock.Now() }
func encode(rec record) ([]byte, error)   { return json.Marshal(rec) }

func checkName(op, name, key string) error {
	if name == "" {
		return &store.InvalidError{Op: op, What: "name", Why: "it is empty"}
	}
	return backend.CheckKey(op, key)
}

func decode(item store.Item) (record, error) {
	var rec record
	if err := json.Unmarshal(item.Value, &rec); err != nil {
		return record{}, &store.CorruptError{Key: item.Key, Why: "it is not the record of a lease: " + err.Error()}
	}
	return rec, nil
}

// Info is what is known of a lease at one moment.
type Info struct {
	Name   string
	Held   bool
	Holder string
	// Token is that of the present holder, or of the last one.
	Token Token
	TTL   time.Duration
	// Version is what [Manager.Steal] takes over.
	Version store.Version
}

// Inspect reads a lease. One that was never taken, or was collected, is not
// held and has no version.
func (m *Manager) Inspect(ctx context.Context, name string) (Info, error) {
	key := m.key(name)
	if err := checkName("inspect lease", name, key); err != nil {
		return Info{}, err
	}
	item, err := m.s.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return Info{Name: name}, nil
	}
	if err != nil {
		return Info{}, fmt.Errorf("inspect lease %q: %w", name, err)
	}
	rec, err := decode(item)
	return Info{Name: name, Held: rec.Held, Holder: rec.Holder, Token: rec.Token, TTL: rec.TTL, Version: item.Version}, err
}

// Collect deletes the records of all leases that nobody holds and returns how
// many are gone. It may run at any time, anywhere: each deletion is conditional
// on the version that was seen free, and tokens go on where they were (see the
// package comment). Records that were created and not taken yet are left alone,
// so that a collection does not keep an acquirer from its lease; they and those
// of holders that died stay until somebody has taken and released the leases.
func (m *Manager) Collect(ctx context.Context) (int, error) {
	caps := m.s.Capabilities()
	if !caps.Delete.IfVersion {
		return 0, &store.UnsupportedError{Backend: caps.Name, Op: "collect leases: delete", Cond: backend.KindIfVersion}
	}
	var free []store.Deletion
	for item, err := range m.s.List(ctx, store.ListOptions{Prefix: m.base(), Detail: store.Values}) {
		if err != nil {
			return 0, fmt.Errorf("collect leases: %w", err)
		}
		rec, err := decode(item)
		if err != nil {
			return 0, err
		}
		if !rec.Held && rec.Token > 0 {
			free = append(free, store.Deletion{Key: item.Key, Cond: store.IfVersion(item.Version)})
		}
	}
	gone, err := m.s.DeleteMany(ctx, free)
	if err != nil {
		return gone, fmt.Errorf("collect leases: %w", err)
	}
	return gone, nil
}
