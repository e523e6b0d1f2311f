package storebench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/atomicfile"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
)

// raw is the same work without the store: the driver's own call, prepared
// where a program would prepare it.
type raw struct {
	create, replace, get func(ctx context.Context, key string, value []byte) error
	close                func() error
}

// overhead alternates raw calls and store calls, one by one, so that both see
// the same disk and the same neighbours, and compares the medians.
func (b *bench) overhead(ctx context.Context) error {
	var rows [][]string
	for _, kind := range b.backends() {
		of, err := b.overheadOf(ctx, kind)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		rows = append(rows, of...)
	}
	return b.Table("Overhead over the raw driver, one caller, median of one operation",
		[]string{"store", "operation", "raw", "store", "more"}, rows)
}

func (b *bench) overheadOf(ctx context.Context, kind string) (rows [][]string, err error) {
	s, err := b.fresh(ctx, kind, 2, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r, err := b.rawOf(ctx, kind)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	value := make([]byte, 200)
	operations := []struct {
		name       string
		raw, store func(key string) error
	}{
		{"create", func(key string) error { return r.create(ctx, key, value) },
			func(key string) error { _, err := s.Put(ctx, key, value, store.CreateOnly()); return err }},
		{"replace", func(key string) error { return r.replace(ctx, key, value) },
			func(key string) error { _, err := s.Put(ctx, key, value, store.None()); return err }},
		{"get", func(key string) error { return r.get(ctx, key, nil) },
			func(key string) error { _, err := s.Get(ctx, key); return err }},
	}
	for _, op := range operations {
		samples := b.opts.Samples
		times := [2][]time.Duration{}
		for n := range samples {
			key := fmt.Sprintf("k%06d", n)
			for i := range 2 {
				// Who comes first changes, so that neither always pays for
				// what the other left.
				which := (n + i) % 2
				f := []func(string) error{op.raw, op.store}[which]
				began := time.Now()
				if err := f(key); err != nil {
					return nil, fmt.Errorf("%s: %w", op.name, err)
				}
				times[which] = append(times[which], time.Since(began))
			}
		}
		rawTime, storeTime := median(times[0]), median(times[1])
		rows = append(rows, []string{kind, op.name, rawTime.Round(100 * time.Nanosecond).String(), storeTime.Round(100 * time.Nanosecond).String(),
			fmt.Sprintf("%+.1f %%", 100*(float64(storeTime)/float64(rawTime)-1))})
	}
	return rows, nil
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func (b *bench) rawOf(ctx context.Context, kind string) (raw, error) {
	b.n++
	name := fmt.Sprintf("raw%d", b.n)
	switch kind {
	case "file":
		return rawFile(filepath.Join(b.Dir, name))
	case "sqlite":
		return rawSQLite(ctx, filepath.Join(b.Dir, name))
	}
	return rawPostgres(ctx, b.PostgresFor(2), name)
}

// rawFile is the durable write by itself, in one directory.
func rawFile(dir string) (raw, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return raw{}, err
	}
	return raw{
		create: func(_ context.Context, key string, value []byte) error {
			return atomicfile.Create(filepath.Join(dir, key), value, atomicfile.Options{})
		},
		replace: func(_ context.Context, key string, value []byte) error {
			return atomicfile.Write(filepath.Join(dir, key), value, atomicfile.Options{})
		},
		get: func(_ context.Context, key string, _ []byte) error {
			_, err := os.ReadFile(filepath.Join(dir, key))
			return err
		},
		close: func() error { return nil },
	}, nil
}

func rawSQLite(ctx context.Context, path string) (raw, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return raw{}, err
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE kv (key TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL, version TEXT NOT NULL)"); err != nil {
		return raw{}, errors.Join(err, db.Close())
	}
	var stmts [3]*sql.Stmt
	for i, text := range []string{
		"INSERT INTO kv (key, value, version) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING",
		"INSERT INTO kv (key, value, version) VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version",
		"SELECT value, version FROM kv WHERE key = ?",
	} {
		if stmts[i], err = db.PrepareContext(ctx, text); err != nil {
			return raw{}, errors.Join(err, db.Close())
		}
	}
	exec := func(stmt *sql.Stmt) func(context.Context, string, []byte) error {
		return func(ctx context.Context, key string, value []byte) error {
			_, err := stmt.ExecContext(ctx, key, value, backend.NewNonce())
			return err
		}
	}
	return raw{create: exec(stmts[0]), replace: exec(stmts[1]), close: db.Close,
		get: func(ctx context.Context, key string, _ []byte) error {
			var value []byte
			var version string
			return stmts[2].QueryRowContext(ctx, key).Scan(&value, &version)
		}}, nil
}

func rawPostgres(ctx context.Context, address, table string) (raw, error) {
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return raw{}, err
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE "+table+` (key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL, version text COLLATE "C" NOT NULL)`); err != nil {
		pool.Close()
		return raw{}, err
	}
	exec := func(text string) func(context.Context, string, []byte) error {
		return func(ctx context.Context, key string, value []byte) error {
			_, err := pool.Exec(ctx, text, key, value, backend.NewNonce())
			return err
		}
	}
	insert := "INSERT INTO " + table + " (key, value, version) VALUES ($1, $2, $3) ON CONFLICT (key) DO "
	return raw{
		create:  exec(insert + "NOTHING"),
		replace: exec(insert + "UPDATE SET value = excluded.value, version = excluded.version"),
		get: func(ctx context.Context, key string, _ []byte) error {
			var value []byte
			var version string
			return pool.QueryRow(ctx, "SELECT value, version FROM "+table+" WHERE key = $1", key).Scan(&value, &version)
		},
		close: func() error { pool.Close(); return nil },
	}, nil
}
