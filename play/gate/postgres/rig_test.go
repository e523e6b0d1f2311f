package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/gate/postgres"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster/clustertest"
)

// patience ends a test that would hang; nothing is expected to take so long.
const patience = 20 * time.Second

// server is the one cluster of this package's tests, started by the first.
var server = sync.OnceValues(func() (*cluster.Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return cluster.Start(ctx, cluster.Options{TCP: true})
})

func TestMain(m *testing.M) {
	code := m.Run()
	if c, err := server(); err == nil {
		if err := c.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// rig is a gate before a database with two accounts, and its events.
type rig struct {
	*postgres.Gate
	t      testing.TB
	ctx    context.Context
	addr   string
	db     string
	admin  *pgx.Conn
	events chan gate.Event
}

func newRig(t testing.TB, change ...func(*postgres.Config)) *rig {
	t.Helper()
	c, err := server()
	if err != nil {
		clustertest.Missing(t, err)
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx, events: make(chan gate.Event, 4096), db: "postgres"}
	r.admin, err = pgx.Connect(ctx, c.URL(r.db))
	r.must(err)
	r.exec("DROP TABLE IF EXISTS accounts; CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL, note text);" +
		"INSERT INTO accounts VALUES (1, 100, 'a'), (2, 50, NULL)")
	cfg := postgres.Config{Upstream: c.Addr(), Admin: c.URL(r.db), Sink: func(e gate.Event) { r.events <- e }}
	for _, f := range change {
		f(&cfg)
	}
	r.Gate, err = postgres.New(ctx, cfg)
	r.must(err)
	_, r.addr, err = r.AddInstance(ctx)
	r.must(err)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close the gate: %v", err)
		}
		_ = r.admin.Close(context.Background())
	})
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) exec(sql string) {
	r.t.Helper()
	_, err := r.admin.Exec(r.ctx, sql)
	r.must(err)
}

// query asks the server directly.
func (r *rig) query(sql string) string {
	r.t.Helper()
	var s string
	r.must(r.admin.QueryRow(r.ctx, sql).Scan(&s))
	return s
}

// url is how an application reaches the gate.
func (r *rig) url(params ...string) string {
	q := url.Values{"sslmode": {"disable"}}
	for _, p := range params {
		k, v, _ := strings.Cut(p, "=")
		q.Set(k, v)
	}
	return (&url.URL{Scheme: "postgres", User: url.User("postgres"), Host: r.addr, Path: "/" + r.db, RawQuery: strings.ReplaceAll(q.Encode(), "+", "%20")}).String()
}

func (r *rig) connect(params ...string) *pgx.Conn {
	r.t.Helper()
	c, err := pgx.Connect(r.ctx, r.url(params...))
	r.must(err)
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

// next is the next event, which has to be of this kind.
func (r *rig) next(kind gate.Kind) gate.Event {
	r.t.Helper()
	select {
	case e := <-r.events:
		if e.Kind != kind {
			r.t.Fatalf("event %+v (step %+v, answer %+v), want kind %d", e, e.Step, e.Answer, kind)
		}
		return e
	case <-r.ctx.Done():
		r.t.Fatalf("no event of kind %d came", kind)
	}
	return gate.Event{}
}

// step takes one whole step: held, released, answered, delivered.
func (r *rig) step() (*gate.Step, *gate.Answer) {
	r.t.Helper()
	s := r.next(gate.Held).Step
	r.must(r.Release(r.ctx, s.ID, false))
	a := r.next(gate.Answered)
	r.must(r.Deliver(r.ctx, s.ID))
	return s, a.Answer
}

// async runs what an application does; the returned function waits for it.
func (r *rig) async(f func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return func() error {
		select {
		case err := <-done:
			return err
		case <-r.ctx.Done():
			return fmt.Errorf("the application hangs: %w", r.ctx.Err())
		}
	}
}

func (r *rig) quiet() {
	r.t.Helper()
	select {
	case e := <-r.events:
		r.t.Fatalf("unexpected event %+v (step %+v, answer %+v)", e, e.Step, e.Answer)
	default:
	}
}

// weaken makes the role "weak", which may log in and nothing else.
func weaken(t *testing.T) {
	t.Helper()
	c, err := server()
	if err != nil {
		clustertest.Missing(t, err)
		t.Fatal(err)
	}
	do := func(sql string) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		conn, err := pgx.Connect(ctx, c.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.Exec(ctx, sql)
		if err := errors.Join(err, conn.Close(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	do("CREATE ROLE weak LOGIN")
	t.Cleanup(func() { do("DROP OWNED BY weak; DROP ROLE weak") })
}
