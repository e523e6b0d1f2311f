package idempotency

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/internal/mariatest"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

var (
	server *pgtest.Server
	maria  *mariatest.Server
)

// The test binary is also the worker that TestKilledWorkers kills.
func TestMain(m *testing.M) {
	if task := os.Getenv(workerEnv); task != "" {
		if err := work(context.Background(), task, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(pgtest.Main(func(s *pgtest.Server) int {
		server = s
		return mariatest.Main(func(s *mariatest.Server) int {
			maria = s
			return m.Run()
		})
	}))
}

// rig is Keys on one database, with transactions of whatever type as handles.
type rig struct {
	table *Table
	db    guard.Handle
	do    func(context.Context, Request, func(context.Context, guard.Handle) (Answer, error)) (Result, error)
	// commits replaces the commit of each transaction.
	commits func(func(ctx context.Context, commit, rollback func(context.Context) error) error)
	// bare runs an effect in a transaction, without a key.
	bare    func(context.Context, func(context.Context, guard.Handle) (Answer, error)) error
	handler func(HTTPOptions, func(http.ResponseWriter, *http.Request, guard.Handle) error) http.Handler
	// begun is called before each transaction.
	begun func(func())
}

func newRig[T any](k *Keys[T]) *rig {
	var change func(ctx context.Context, commit, rollback func(context.Context) error) error
	before := func() {}
	begin := k.begin
	k.begin = func(ctx context.Context, claim *statement) (transaction[T], error) {
		before()
		t, err := begin(ctx, claim)
		if err == nil && change != nil {
			commit := t.commit
			t.commit = func(ctx context.Context, last *statement) error {
				return change(ctx, func(ctx context.Context) error { return commit(ctx, last) }, t.rollback)
			}
		}
		return t, err
	}
	return &rig{table: k.Table, db: k.pool,
		do: func(ctx context.Context, req Request, effect func(context.Context, guard.Handle) (Answer, error)) (Result, error) {
			return k.Do(ctx, req, func(ctx context.Context, tx T) (Answer, error) { return effect(ctx, handleOf(tx, k.dialect)) })
		},
		bare: func(ctx context.Context, effect func(context.Context, guard.Handle) (Answer, error)) error {
			_, err := k.bare(ctx, func(ctx context.Context, tx T) (Answer, error) { return effect(ctx, handleOf(tx, k.dialect)) })
			return err
		},
		handler: func(opts HTTPOptions, next func(http.ResponseWriter, *http.Request, guard.Handle) error) http.Handler {
			return k.Handler(opts, func(w http.ResponseWriter, r *http.Request, tx T) error { return next(w, r, handleOf(tx, k.dialect)) })
		},
		commits: func(c func(ctx context.Context, commit, rollback func(context.Context) error) error) { change = c },
		begun:   func(f func()) { before = f },
	}
}

func handleOf(tx any, d guard.Dialect) guard.Handle {
	switch tx := tx.(type) {
	case *sql.Tx:
		return guard.SQL(tx, d)
	case pgx.Tx:
		return guard.Pgx(tx)
	}
	panic(fmt.Sprintf("no handle on %T", tx))
}

func openSQLite(path string) (*sql.DB, error) {
	query := url.Values{"_pragma": {"busy_timeout(20000)", "journal_mode(WAL)", "synchronous(OFF)"}}
	return sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String())
}

func databaseName(t testing.TB) string {
	name := strings.ToLower(strings.NewReplacer("/", "_", "-", "_", "=", "_", "#", "_").Replace(t.Name()))
	return name[max(0, len(name)-60):]
}

// database makes an empty database of the test's own and returns its URL.
func database(t testing.TB, s *pgtest.Server) string {
	t.Helper()
	name := databaseName(t)
	conn, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	id := pgx.Identifier{name}.Sanitize()
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + id + " WITH (FORCE)", "CREATE DATABASE " + id} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return s.URL(name)
}

func execute(t testing.TB, h guard.Handle, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := h.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func number(t testing.TB, h guard.Handle, query string, args ...any) (n int64) {
	t.Helper()
	if err := h.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func pgxKeys(t testing.TB, opts Options) (*Keys[pgx.Tx], *pgxpool.Pool) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), database(t, pgtest.Need(t, server)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	k, err := NewPgx(pool, opts)
	if err != nil {
		t.Fatal(err)
	}
	return k, pool
}

func sqliteKeys(t testing.TB, opts Options) (*Keys[*sql.Tx], *sql.DB) {
	t.Helper()
	db, err := openSQLite(filepath.Join(t.TempDir(), "keys.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	k, err := NewSQL(db, guard.SQLite, opts)
	if err != nil {
		t.Fatal(err)
	}
	return k, db
}

func prepare(t testing.TB, r *rig) *rig {
	t.Helper()
	if err := r.table.Create(t.Context(), r.db); err != nil {
		t.Fatal(err)
	}
	execute(t, r.db, "CREATE TABLE effects (name varchar(255) NOT NULL)")
	return r
}

// everywhere runs a test on each database.
func everywhere(t *testing.T, opts Options, f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		k, _ := sqliteKeys(t, opts)
		f(t, prepare(t, newRig(k)))
	})
	t.Run("postgres", func(t *testing.T) {
		k, _ := pgxKeys(t, opts)
		f(t, prepare(t, newRig(k)))
	})
	t.Run("postgres by database-sql", func(t *testing.T) {
		db, err := sql.Open("pgx", database(t, pgtest.Need(t, server)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		k, err := NewSQL(db, guard.Postgres, opts)
		if err != nil {
			t.Fatal(err)
		}
		f(t, prepare(t, newRig(k)))
	})
	t.Run("mariadb", func(t *testing.T) {
		k := mariaKeys(t, opts)
		f(t, prepare(t, newRig(k)))
	})
}

// mariaDSN makes an empty database of the test's own.
func mariaDSN(t testing.TB) string {
	t.Helper()
	s := mariatest.Need(t, maria)
	db, err := sql.Open("mysql", s.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	name := databaseName(t)
	execute(t, guard.SQL(db, guard.MySQL), "DROP DATABASE IF EXISTS "+name, "CREATE DATABASE "+name)
	return s.DSN(name)
}

// mariaKeys are keys in MariaDB, which stands for MySQL.
func mariaKeys(t testing.TB, opts Options) *Keys[*sql.Tx] {
	t.Helper()
	db, err := sql.Open("mysql", mariaDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(32) // the queue of the socket holds no more at once
	k, err := NewSQL(db, guard.MySQL, opts)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// insert is an effect that can be counted.
func insert(name string, a Answer) func(context.Context, guard.Handle) (Answer, error) {
	return func(ctx context.Context, tx guard.Handle) (Answer, error) {
		query := "INSERT INTO effects (name) VALUES (?)"
		if tx.Dialect() == guard.Postgres {
			query = "INSERT INTO effects (name) VALUES ($1)"
		}
		_, err := tx.Exec(ctx, query, name)
		return a, err
	}
}

func (r *rig) effects(t testing.TB) int64 {
	t.Helper()
	return number(t, r.db, "SELECT count(*) FROM effects")
}
