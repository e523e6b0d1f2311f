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
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
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
	opts Options
	dir  string
	pg   string // empty: no PostgreSQL
	out  io.Writer
	n    int
}

// Run measures and prints.
func Run(ctx context.Context, w io.Writer, opts Options) (err error) {
	b := &bench{opts: opts.withDefaults(), out: w}
	tables := map[string]func(context.Context) error{
		"writers": b.writers, "markers": b.markers, "group": b.group, "overhead": b.overhead,
	}
	for _, name := range b.opts.Only {
		if tables[name] == nil {
			return fmt.Errorf("bench store: there is no table %q; the tables are writers, group, overhead, markers", name)
		}
	}
	if b.dir, err = os.MkdirTemp(opts.Dir, "holdfast-bench-"); err != nil {
		return err
	}
	// A server that runs as another user must be able to enter.
	if err := os.Chmod(b.dir, 0o711); err != nil {
		return errors.Join(err, os.RemoveAll(b.dir))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	stop, err := b.startPostgres(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, name := range b.opts.Only {
		if err := tables[name](ctx); err != nil {
			return fmt.Errorf("bench store, table %s: %w", name, err)
		}
	}
	return nil
}

func (b *bench) startPostgres(ctx context.Context) (stop func() error, err error) {
	nothing := func() error { return nil }
	if b.opts.PostgresURL != "" {
		b.pg = b.opts.PostgresURL
		return nothing, nil
	}
	server, err := pgtest.Start(ctx, pgtest.Options{Dir: b.dir, Durable: true, Settings: map[string]string{
		"shared_buffers": "256MB", "max_wal_size": "4GB",
	}})
	if errors.Is(err, pgtest.ErrNotInstalled) {
		fmt.Fprintln(b.out, "PostgreSQL is left out:", err)
		return nothing, nil
	}
	if err != nil {
		return nil, err
	}
	b.pg = server.URL("postgres")
	return server.Stop, nil
}

// backends are the names to measure.
func (b *bench) backends() []string {
	names := []string{"file", "sqlite"}
	if b.pg != "" {
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
		backend, err = file.Open(ctx, filepath.Join(b.dir, name), file.Options{NoSync: !sync, SweepInterval: -1})
	case "sqlite":
		backend, err = sqlite.Open(ctx, filepath.Join(b.dir, name), sqlite.Options{})
	case "sqlite, one transaction per write":
		backend, err = sqlite.Open(ctx, filepath.Join(b.dir, name), sqlite.Options{MaxBatch: 1})
	case "postgres":
		backend, err = postgres.Open(ctx, withConns(b.pg, conns), postgres.Options{Table: strings.ReplaceAll(name, " ", "_")})
	default:
		return nil, fmt.Errorf("there is no store %q", kind)
	}
	if err != nil {
		return nil, err
	}
	return store.New(backend, store.Options{}), nil
}

func withConns(address string, conns int) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	q := u.Query()
	q.Set("pool_max_conns", fmt.Sprint(max(conns, 2)))
	u.RawQuery = q.Encode()
	return u.String()
}

// table prints a title and aligned rows.
func (b *bench) table(title string, header []string, rows [][]string) error {
	fmt.Fprintf(b.out, "\n%s\n", title)
	t := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, strings.Join(header, "\t")+"\t")
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	return t.Flush()
}
