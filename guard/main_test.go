package guard_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

var server *pgtest.Server

func TestMain(m *testing.M) {
	os.Exit(pgtest.Main(func(s *pgtest.Server) int {
		server = s
		return m.Run()
	}))
}

var databases atomic.Int64

// database makes an empty PostgreSQL database and returns its address.
func database(t *testing.T) string {
	t.Helper()
	s := pgtest.Need(t, server)
	admin, err := sql.Open("pgx", s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	name := fmt.Sprintf("guard%d", databases.Add(1))
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return s.URL(name)
}

// open makes a Handle by the name of a driver.
func open(t *testing.T, driver string) guard.Handle {
	t.Helper()
	if driver == "sqlite" {
		return sqlite(t, filepath.Join(t.TempDir(), "t.db"))
	}
	return connect(t, driver, database(t))
}

func sqlite(t *testing.T, path string) guard.Handle {
	t.Helper()
	return guard.SQL(sqliteDB(t, path), guard.SQLite)
}

func sqliteDB(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)&_pragma=synchronous(NORMAL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func connect(t *testing.T, driver, address string) guard.Handle {
	t.Helper()
	if driver == "pgxpool" {
		pool, err := pgxpool.New(t.Context(), address+"&pool_max_conns=20")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return guard.Pgx(pool)
	}
	if driver == "postgres" { // lib/pq
		address += "&sslmode=disable"
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(20)
	t.Cleanup(func() { _ = db.Close() })
	return guard.SQL(db, guard.Postgres)
}

// drivers are those of the tests: database/sql on pgx, lib/pq and
// modernc.org/sqlite, and pgx itself.
var drivers = []string{"sqlite", "pgxpool", "pgx", "postgres"}

// each runs a test on every driver, with tables made.
func each(t *testing.T, test func(t *testing.T, h guard.Handle)) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			h := open(t, driver)
			setUp(t, h)
			test(t, h)
		})
	}
}

func setUp(t *testing.T, h guard.Handle) {
	t.Helper()
	for _, text := range []string{
		"CREATE TABLE accounts (id bigint PRIMARY KEY, name text CONSTRAINT accounts_name UNIQUE, balance bigint NOT NULL CONSTRAINT enough CHECK (balance >= 0))",
		"CREATE TABLE cards (id bigint PRIMARY KEY, account bigint NOT NULL CONSTRAINT owner REFERENCES accounts)",
		"INSERT INTO accounts (id, name, balance) VALUES (1, 'ann', 100), (2, 'bob', 100), (3, 'cy', 100)",
	} {
		exec(t, h, text)
	}
}

func exec(t *testing.T, h guard.Handle, text string, args ...any) {
	t.Helper()
	if _, err := h.Exec(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func number(t *testing.T, h guard.Handle, text string, args ...any) (n int64) {
	t.Helper()
	if err := h.QueryRow(t.Context(), text, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

// patience bounds what would otherwise hang.
func patience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}
