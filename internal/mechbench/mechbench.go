// Package mechbench measures the mechanisms side by side with what people write
// instead of them, in one run, and prints the tables that the documentation
// shows. A further table is one line in the function tables.
package mechbench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/internal/benchkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// table is one table of the benchmark.
type table struct {
	name string
	run  func(*bench, context.Context) error
}

// tables are all tables, in the order in which they are printed.
func tables() []table {
	return []table{
		{"counter", (*bench).counter},
	}
}

// Tables are the names of the tables.
func Tables() (names []string) {
	for _, t := range tables() {
		names = append(names, t.name)
	}
	return names
}

// Options are for Run. The zero value measures everything.
type Options struct {
	// Dir is where the data goes; empty means the temporary directory.
	Dir string
	// Writers are the numbers of concurrent writers; nil means 1, 16, 64.
	Writers []int
	// Time is how long each cell is measured; 0 means two seconds.
	Time time.Duration
	// PostgresURL names a database to use; empty starts a throwaway server.
	PostgresURL string
	// Only are the tables to print; nil means all.
	Only []string
}

// bench is one run.
type bench struct {
	*benchkit.Place
	opts Options
	n    int
}

// Run measures and prints.
func Run(ctx context.Context, w io.Writer, opts Options) (err error) {
	if opts.Writers == nil {
		opts.Writers = []int{1, 16, 64}
	}
	if opts.Time <= 0 {
		opts.Time = 2 * time.Second
	}
	for _, name := range opts.Only {
		if !slices.Contains(Tables(), name) {
			return fmt.Errorf("bench mechanisms: there is no table %q; the tables are %s", name, strings.Join(Tables(), ", "))
		}
	}
	b := &bench{opts: opts}
	if b.Place, err = benchkit.Prepare(ctx, w, benchkit.Options{Dir: opts.Dir, PostgresURL: opts.PostgresURL}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, t := range tables() {
		if opts.Only != nil && !slices.Contains(opts.Only, t.name) {
			continue
		}
		if err := t.run(b, ctx); err != nil {
			return fmt.Errorf("bench mechanisms, table %s: %w", t.name, err)
		}
	}
	return nil
}

// fresh is a name that no other cell uses.
func (b *bench) fresh(what string) string {
	b.n++
	return fmt.Sprintf("%s%d", what, b.n)
}

// databases are the names that database takes.
func (b *bench) databases() []string {
	if b.Postgres == "" {
		return []string{"sqlite"}
	}
	return []string{"sqlite", "postgres"}
}

// database opens a database of the user's, for so many callers at once. SQLite
// gets one connection, as its writers take turns anyway: with more, they wait in
// its busy handler, which sleeps.
func (b *bench) database(ctx context.Context, kind string, callers int) (guard.Handle, func() error, error) {
	if kind == "sqlite" {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(b.Dir, b.fresh("own"))+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(30000)")
		if err != nil {
			return nil, nil, err
		}
		db.SetMaxOpenConns(1)
		return guard.SQL(db, guard.SQLite), db.Close, nil
	}
	pool, err := pgxpool.New(ctx, b.PostgresFor(callers))
	if err != nil {
		return nil, nil, err
	}
	return guard.Pgx(pool), func() error { pool.Close(); return nil }, nil
}

// store opens an empty store.
func (b *bench) store(ctx context.Context, kind string, callers int) (*store.Store, error) {
	var backend store.Backend
	var err error
	if kind == "sqlite" {
		backend, err = sqlite.Open(ctx, filepath.Join(b.Dir, b.fresh("store")), sqlite.Options{})
	} else {
		backend, err = postgres.Open(ctx, b.PostgresFor(callers), postgres.Options{Table: b.fresh("store")})
	}
	if err != nil {
		return nil, err
	}
	return store.New(backend, store.Options{}), nil
}
