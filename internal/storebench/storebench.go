// Package storebench measures the stores of this module side by side, in one
// run, and prints the tables that the documentation shows.
//
// Every store works durably on the same directory, so that they pay for the
// same disk: the file store with its syncs, SQLite with synchronous=FULL,
// PostgreSQL with fsync on. Where two ways are compared, they run one after the
// other in the same minute.
package storebench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/benchkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// Options are for Run. The zero value measures everything, which takes some
// minutes and, for a million files, two gigabytes of disk.
type Options struct {
	// Dir is where the data goes; empty means the temporary directory.
	Dir string
	// Writers are the numbers of concurrent writers; nil means 1, 16, 64.
	Writers []int
	// Time is how long each cell is measured; 0 means two seconds.
	Time time.Duration
	// Markers are the sizes of the index; nil means 100,000 and 1,000,000.
	Markers []int
	// Samples is how many operations the overhead is taken from; 0 means 2,000.
	Samples int
	// PostgresURL names a database to use; empty starts a throwaway server.
	// Without one that is possible, PostgreSQL is left out and said so.
	PostgresURL string
	// Only are the tables to print: "writers", "markers", "group", "overhead";
	// nil means all.
	Only []string
}

func (o Options) withDefaults() Options {
	if o.Writers == nil {
		o.Writers = []int{1, 16, 64}
	}
	if o.Time <= 0 {
		o.Time = 2 * time.Second
	}
	if o.Markers == nil {
		o.Markers = []int{100_000, 1_000_000}
	}
	if o.Samples <= 0 {
		o.Samples = 2000
	}
	if o.Only == nil {
		o.Only = []string{"writers", "group", "overhead", "markers"}
	}
	return o
}

// bench is one run.
type bench struct {
	*benchkit.Place
	opts Options
	n    int
}

// Run measures and prints.
func Run(ctx context.Context, w io.Writer, opts Options) (err error) {
	b := &bench{opts: opts.withDefaults()}
	tables := map[string]func(context.Context) error{
		"writers": b.writers, "markers": b.markers, "group": b.group, "overhead": b.overhead,
	}
	for _, name := range b.opts.Only {
		if tables[name] == nil {
			return fmt.Errorf("bench store: there is no table %q; the tables are writers, group, overhead, markers", name)
		}
	}
	if b.Place, err = benchkit.Prepare(ctx, w, benchkit.Options{Dir: opts.Dir, PostgresURL: opts.PostgresURL}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, name := range b.opts.Only {
		if err := tables[name](ctx); err != nil {
			return fmt.Errorf("bench store, table %s: %w", name, err)
		}
	}
	return nil
}

// backends are the names to measure.
func (b *bench) backends() []string {
	names := []string{"file", "sqlite"}
	if b.Postgres != "" {
		names = append(names, "postgres")
	}
	return names
}

// fresh opens an empty store of a kind. sync false leaves durability out, for
// filling a file store quickly.
func (b *bench) fresh(ctx context.Context, kind string, conns int, sync bool) (*store.Store, error) {
	b.n++
	name := fmt.Sprintf("%s%d", kind, b.n)
	return b.reopen(ctx, kind, name, conns, sync)
}

func (b *bench) reopen(ctx context.Context, kind, name string, conns int, sync bool) (*store.Store, error) {
	var backend store.Backend
	var err error
	switch kind {
	case "file":
		backend, err = file.Open(ctx, filepath.Join(b.Dir, name), file.Options{NoSync: !sync, SweepInterval: -1})
	case "sqlite":
		backend, err = sqlite.Open(ctx, filepath.Join(b.Dir, name), sqlite.Options{})
	case "sqlite, one transaction per write":
		backend, err = sqlite.Open(ctx, filepath.Join(b.Dir, name), sqlite.Options{MaxBatch: 1})
	case "postgres":
		backend, err = postgres.Open(ctx, b.PostgresFor(conns), postgres.Options{Table: strings.ReplaceAll(name, " ", "_")})
	default:
		return nil, fmt.Errorf("there is no store %q", kind)
	}
	if err != nil {
		return nil, err
	}
	return store.New(backend, store.Options{}), nil
}
