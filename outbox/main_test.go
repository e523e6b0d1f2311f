package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

var server *pgtest.Server

// The test binary is also the relay that tests kill and stop.
func TestMain(m *testing.M) {
	if text := os.Getenv(workerEnv); text != "" {
		if err := work(context.Background(), text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "relay:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(pgtest.Main(func(s *pgtest.Server) int {
		server = s
		return m.Run()
	}))
}

// rig is an outbox on one database.
type rig struct {
	o *Outbox
	h guard.Handle
	// kind and address are for processes.
	kind, address string
	relay         func(publish Publish, opts RelayOptions) (*Relay, error)
	inTx          func(ctx context.Context, f func(tx guard.Handle) error) error
	close         func()
}

// openSQLite does not sync: what is killed in tests are processes.
func openSQLite(path string) (*rig, error) { return openSQLiteWith(path, "synchronous(OFF)") }

func openSQLiteWith(path, sync string) (*rig, error) {
	query := url.Values{"_pragma": {"busy_timeout(20000)", "journal_mode(WAL)", sync}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String())
	if err != nil {
		return nil, err
	}
	o, err := New(guard.SQLite, Options{})
	if err != nil {
		return nil, err
	}
	return &rig{o: o, h: guard.SQL(db, guard.SQLite), kind: "sqlite", address: path,
		relay: func(publish Publish, opts RelayOptions) (*Relay, error) { return NewRelaySQL(o, db, publish, opts) },
		inTx: func(ctx context.Context, f func(guard.Handle) error) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if err := f(guard.SQL(tx, guard.SQLite)); err != nil {
				return err
			}
			return tx.Commit()
		},
		close: func() { _ = db.Close() },
	}, nil
}

func openPostgres(ctx context.Context, address string) (*rig, error) {
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return nil, err
	}
	o, err := New(guard.Postgres, Options{})
	if err != nil {
		return nil, err
	}
	return &rig{o: o, h: guard.Pgx(pool), kind: "postgres", address: address,
		relay: func(publish Publish, opts RelayOptions) (*Relay, error) {
			return NewRelayPgx(o, pool, publish, opts)
		},
		inTx: func(ctx context.Context, f func(guard.Handle) error) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return f(guard.Pgx(tx)) })
		},
		close: pool.Close,
	}, nil
}

// postgresDatabase makes an empty database of the test's own.
func postgresDatabase(t testing.TB) string {
	t.Helper()
	s := pgtest.Need(t, server)
	name := strings.ToLower(strings.NewReplacer("/", "_", "-", "_", "=", "_", "#", "_").Replace(t.Name()))
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

// everywhere runs a test on each database.
func everywhere(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			var r *rig
			var err error
			if kind == "sqlite" {
				r, err = openSQLite(filepath.Join(t.TempDir(), "outbox.db"))
			} else {
				r, err = openPostgres(t.Context(), postgresDatabase(t))
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(r.close)
			if err := r.o.Create(t.Context(), r.h); err != nil {
				t.Fatal(err)
			}
			f(t, r)
		})
	}
}

func (r *rig) add(t testing.TB, messages ...Message) []int64 {
	t.Helper()
	var ids []int64
	err := r.inTx(t.Context(), func(tx guard.Handle) (err error) {
		ids, err = r.o.Add(t.Context(), tx, messages...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func text(key, payload string) Message { return Message{Key: key, Payload: []byte(payload)} }

// quick are options whose waits are over at the next look.
func quick(o RelayOptions) RelayOptions {
	o.Backoff, o.MaxBackoff = time.Nanosecond, time.Nanosecond
	o.Logger = slog.New(slog.DiscardHandler)
	return o
}

func (r *rig) newRelay(t testing.TB, opts RelayOptions, publish Publish) *Relay {
	t.Helper()
	relay, err := r.relay(publish, quick(opts))
	if err != nil {
		t.Fatal(err)
	}
	return relay
}

func once(t testing.TB, relay *Relay) Stats {
	t.Helper()
	s, err := relay.Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// leasesEnd is the passing of time.
func (r *rig) leasesEnd(t testing.TB) {
	t.Helper()
	if _, err := r.h.Exec(t.Context(), "UPDATE holdfast_outbox SET due_at = 0"); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) backlog(t testing.TB) Backlog {
	t.Helper()
	b, err := r.o.Backlog(t.Context(), r.h)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
