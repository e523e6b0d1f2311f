package postgres_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/gate/postgres"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster/clustertest"
)

func contains(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// Each way in which drivers run a query gives one step with the same label
// and the same answer; what they prepare before it is none.
func TestQueryModes(t *testing.T) {
	r := newRig(t)
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec"} {
		c := r.connect("default_query_exec_mode=" + mode)
		for range 2 {
			r.Hold(true)
			var n int
			wait := r.async(func() error {
				return c.QueryRow(r.ctx, "SELECT balance FROM accounts WHERE id = $1", 1).Scan(&n)
			})
			s, a := r.step()
			r.must(wait())
			if s.Label != "SELECT balance FROM accounts WHERE id = $1  [1]" || a.Summary != "balance=100" || n != 100 {
				t.Errorf("%s: step %q answered %q, application got %d", mode, s.Label, a.Summary, n)
			}
			r.quiet()
			r.Hold(false)
		}
	}
}

func TestSimpleProtocol(t *testing.T) {
	r := newRig(t)
	c := r.connect()
	r.Hold(true)
	wait := r.async(func() error {
		_, err := c.PgConn().Exec(r.ctx, "SELECT id, note FROM accounts ORDER BY id; UPDATE accounts SET balance = 0; SELECT 1 WHERE false").ReadAll()
		return err
	})
	_, a := r.step()
	r.must(wait())
	if want := "2 rows: id=1 note=a; id=2 note=NULL / UPDATE 2 / no rows"; a.Summary != want {
		t.Errorf("summary %q, want %q", a.Summary, want)
	}
	wait = execute(r, c, "SELECT id FROM generate_series(1, 5) id")
	_, a = r.step()
	r.must(wait())
	if a.Summary != "5 rows: id=1; id=2; id=3; …" || a.RowCount != 5 || len(a.Rows) != 3 || *a.Rows[2][0] != "3" || a.Columns[0] != "id" {
		t.Errorf("answer %+v", a)
	}
	wait = execute(r, c, "SELEC")
	_, a = r.step()
	if a.Code != "42601" || !contains(a.Summary, "ERROR 42601: syntax error") || wait() == nil {
		t.Errorf("answer %+v", a)
	}
}

// A batch is one step; cycles sent before the first answer is read are one
// step each, the next announced when the one before has been delivered.
func TestBatchAndPipeline(t *testing.T) {
	r := newRig(t)
	c := r.connect()
	r.Hold(true)
	wait := r.async(func() error {
		var b pgx.Batch
		b.Queue("UPDATE accounts SET balance = balance + $1 WHERE id = 1", 5)
		b.Queue("SELECT balance FROM accounts WHERE id = $1", 1)
		return c.SendBatch(r.ctx, &b).Close()
	})
	s, a := r.step()
	r.must(wait())
	if !contains(s.Label, "id = 1  [5]; SELECT") || a.Summary != "UPDATE 1 / balance=105" {
		t.Errorf("batch %q answered %q", s.Label, a.Summary)
	}
	var got []int64
	wait = r.async(func() error {
		p := c.PgConn().StartPipeline(r.ctx)
		for _, id := range []string{"1", "2", "9"} {
			p.SendQueryParams("UPDATE accounts SET balance = 0 WHERE id = $1", [][]byte{[]byte(id)}, nil, nil, nil)
			if err := p.Sync(); err != nil {
				return err
			}
		}
		for {
			res, err := p.GetResults()
			if err != nil || res == nil {
				return err
			}
			if rr, ok := res.(*pgconn.ResultReader); ok {
				tag, err := rr.Close()
				if err != nil {
					return err
				}
				got = append(got, tag.RowsAffected())
			}
			if len(got) == 3 {
				return p.Close()
			}
		}
	})
	for _, want := range []string{"UPDATE 1", "UPDATE 1", "UPDATE 0"} {
		s := r.next(gate.Held).Step
		r.must(r.Release(r.ctx, s.ID, false))
		if a := r.next(gate.Answered).Answer; a.Summary != want {
			t.Errorf("step %q answered %q, want %q", s.Label, a.Summary, want)
		}
		r.quiet()
		r.must(r.Deliver(r.ctx, s.ID))
	}
	r.must(wait())
	if len(got) != 3 || got[2] != 0 {
		t.Errorf("rows affected %v", got)
	}
}

func TestCopy(t *testing.T) {
	r := newRig(t)
	c := r.connect()
	r.Hold(true)
	rows := make([][]any, 5000)
	for i := range rows {
		rows[i] = []any{100 + i, i, strings.Repeat("x", 40)}
	}
	var n int64
	wait := r.async(func() (err error) {
		n, err = c.CopyFrom(r.ctx, pgx.Identifier{"accounts"}, []string{"id", "balance", "note"}, pgx.CopyFromRows(rows))
		return err
	})
	if _, a := r.step(); a.Summary != "COPY 5000" {
		t.Errorf("answer %q", a.Summary)
	}
	r.must(wait())
	if n != 5000 {
		t.Errorf("copied %d", n)
	}
	var out bytes.Buffer
	wait = r.async(func() error {
		_, err := c.PgConn().CopyTo(r.ctx, &out, "COPY (SELECT id FROM accounts WHERE id < 102 ORDER BY id) TO STDOUT")
		return err
	})
	if _, a := r.step(); a.Summary != "COPY 4" {
		t.Errorf("answer %q", a.Summary)
	}
	r.must(wait())
	if out.String() != "1\n2\n100\n101\n" {
		t.Errorf("got %q", out.String())
	}
	wait = r.async(func() error {
		_, err := c.PgConn().CopyFrom(r.ctx, strings.NewReader("7\tnonsense\t\\N\n"), "COPY accounts FROM STDIN")
		return err
	})
	if _, a := r.step(); a.Code != "22P02" {
		t.Errorf("answer %+v", a)
	}
	if wait() == nil {
		t.Error("a copy of nonsense succeeded")
	}
	wait = execute(r, c, "SELECT 1 AS one")
	if _, a := r.step(); a.Summary != "one=1" {
		t.Errorf("after a failed copy: %q", a.Summary)
	}
	r.must(wait())
}

// A client's cancel request ends its statement at the server.
func TestCancel(t *testing.T) {
	r := newRig(t)
	c := r.connect()
	r.Hold(true)
	wait := execute(r, c, "SELECT pg_sleep(60) FROM accounts")
	s := r.next(gate.Held).Step
	r.must(r.Release(r.ctx, s.ID, false))
	for r.query("SELECT count(*)::text FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active' AND pid <> pg_backend_pid()") != "1" {
		r.must(r.ctx.Err())
	}
	if ws, err := r.Waiting(r.ctx, []uint64{s.ID}); err != nil || len(ws) != 0 {
		t.Errorf("a step that works and has its locks waits: %v %v", ws, err)
	}
	r.must(c.PgConn().CancelRequest(r.ctx))
	if a := r.next(gate.Answered).Answer; a.Code != "57014" {
		t.Errorf("answer %+v", a)
	}
	r.must(r.Deliver(r.ctx, s.ID))
	var pgErr *pgconn.PgError
	if err := wait(); !errors.As(err, &pgErr) || pgErr.Code != "57014" {
		t.Errorf("error %v", err)
	}
}

func TestEncryption(t *testing.T) {
	r := newRig(t)
	if _, err := pgx.Connect(r.ctx, r.url("sslmode=require")); err == nil || !contains(err.Error(), "refused TLS") {
		t.Errorf("without TLS: %v", err)
	}
	r.must(r.connect("sslmode=prefer").Ping(r.ctx))

	r = newRig(t, func(c *postgres.Config) { c.TLS = true })
	cfg, err := pgx.ParseConfig(r.url("sslmode=verify-full"))
	r.must(err)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(r.CAPEM()) {
		t.Fatal("CAPEM has no certificate")
	}
	cfg.TLSConfig = &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
	c, err := pgx.ConnectConfig(r.ctx, cfg)
	r.must(err)
	r.Hold(true)
	wait := execute(r, c, "SELECT 1 AS one")
	if _, a := r.step(); a.Summary != "one=1" {
		t.Errorf("answer %q", a.Summary)
	}
	r.must(wait())
	r.Hold(false)
	r.must(c.Close(r.ctx))
	cfg.TLSConfig = &tls.Config{ServerName: "127.0.0.1"}
	if c, err := pgx.ConnectConfig(r.ctx, cfg); err == nil {
		_ = c.Close(context.Background())
		t.Error("the certificate was accepted without its authority")
	}
}

// The gate passes authentication on: the server's methods and refusals are the
// application's.
func TestPassword(t *testing.T) {
	srv, err := server()
	if err != nil {
		clustertest.Missing(t, err)
		t.Fatal(err)
	}
	tcp, err := url.Parse(srv.TCPURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *postgres.Config) { c.Upstream = tcp.Host })
	secret, _ := tcp.User.Password()
	login := func(password string) error {
		u, _ := url.Parse(r.url())
		u.User = url.UserPassword(tcp.User.Username(), password)
		c, err := pgx.Connect(r.ctx, u.String())
		if err != nil {
			return err
		}
		return errors.Join(c.Ping(r.ctx), c.Close(r.ctx))
	}
	if got := r.query("SELECT left(rolpassword, 13) FROM pg_authid WHERE rolpassword IS NOT NULL LIMIT 1"); got != "SCRAM-SHA-256" {
		t.Fatalf("the test's password is %s", got)
	}
	r.must(login(secret))
	var pgErr *pgconn.PgError
	if err := login("wrong"); !errors.As(err, &pgErr) || pgErr.Code != "28P01" {
		t.Errorf("wrong password: %v", err)
	}
}

func TestDatabaseSQL(t *testing.T) {
	r := newRig(t)
	db, err := sql.Open("pgx", r.url())
	r.must(err)
	defer db.Close()
	r.Hold(true)
	wait := r.async(func() error {
		tx, err := db.BeginTx(r.ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
		if err != nil {
			return err
		}
		if _, err := tx.Exec("UPDATE accounts SET note = $1 WHERE id = $2", nil, int64(1)); err != nil {
			return err
		}
		return tx.Rollback()
	})
	for _, want := range []string{"begin isolation level serializable", "UPDATE accounts SET note = $1 WHERE id = $2  [NULL, 1]", "rollback"} {
		if s, _ := r.step(); s.Label != want {
			t.Errorf("step %q, want %q", s.Label, want)
		}
	}
	r.must(wait())
}

func TestPsql(t *testing.T) {
	dir, err := cluster.FindBinDir(t.Context())
	if err != nil {
		clustertest.Missing(t, err)
		t.Fatal(err)
	}
	r := newRig(t)
	r.Hold(true)
	var out []byte
	wait := r.async(func() (err error) {
		cmd := exec.CommandContext(r.ctx, filepath.Join(dir, "psql"), "-XAtq", r.url("sslmode=prefer"))
		cmd.Stdin = strings.NewReader("DO $$ BEGIN RAISE NOTICE 'hello'; END $$;\nCOPY accounts FROM STDIN;\n8\t1\tz\n\\.\nSELECT sum(balance) FROM accounts;\n")
		out, err = cmd.CombinedOutput()
		return err
	})
	for _, want := range []string{"DO", "COPY 1", "sum=151"} {
		if _, a := r.step(); a.Summary != want {
			t.Errorf("answer %q, want %q", a.Summary, want)
		}
	}
	r.must(wait())
	if !contains(string(out), "NOTICE:  hello", "151") {
		t.Errorf("psql said %q", out)
	}
	r.next(gate.Closed)
}
