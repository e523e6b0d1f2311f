package lease_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/internal/fakeclock"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/mem"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// server is started once for the package; nil where it can not be.
var server *pgtest.Server

const ttl = 10 * time.Second

// patience is when a test gives up on something that should happen at once.
const patience = 20 * time.Second

// ended waits for the end of a context and returns its cause.
func ended(t testing.TB, ctx context.Context) error {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(patience):
		t.Fatal("the context does not end")
	}
	return context.Cause(ctx)
}

// kinds are the stores that leases are tested on.
var kinds = []string{"mem", "file", "sqlite", "postgres"}

// opened numbers the tables, so that each run of a test has its own.
var opened atomic.Int64

// open opens an empty backend of a kind.
func open(t testing.TB, kind, table string) backend.Backend {
	t.Helper()
	var b backend.Backend
	var err error
	switch kind {
	case "mem":
		b = mem.New()
	case "file":
		b, err = file.Open(t.Context(), t.TempDir(), file.Options{NoSync: true})
	case "sqlite":
		b, err = sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), sqlite.Options{})
	case "postgres":
		b, err = postgres.Open(t.Context(), pgtest.Need(t, server).URL("postgres"), postgres.Options{Table: fmt.Sprint(table, opened.Add(1))})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// machine is a process of its own as far as leases go: its own manager with its
// own clock, on a backend that others use too.
type machine struct {
	*lease.Manager
	s     *store.Store
	clock *fakeclock.Clock
}

func newMachine(t testing.TB, b backend.Backend, holder string) *machine {
	t.Helper()
	m := &machine{s: store.New(b, store.Options{}), clock: fakeclock.New(time.Unix(0, 0))}
	var err error
	m.Manager, err = lease.New(m.s, lease.Options{TTL: ttl, Holder: holder, Clock: m.clock})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sleepers waits until n calls wait for the clock of this machine.
func (m *machine) sleepers(t testing.TB, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := m.clock.Waiting(ctx, n); err != nil {
		t.Fatal(err)
	}
}

// take acquires at once or fails the test.
func (m *machine) take(t testing.TB, name string) *lease.Lease {
	t.Helper()
	l, err := m.TryAcquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// outwait takes a lease over whose holder does not renew.
func (m *machine) outwait(t testing.TB, name string) *lease.Lease {
	t.Helper()
	_, err := m.TryAcquire(t.Context(), name)
	var held *lease.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("take a held lease at once: %v, want *HeldError", err)
	}
	m.clock.Advance(held.Remaining)
	return m.take(t, name)
}

func release(t testing.TB, l *lease.Lease) {
	t.Helper()
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("release: %v", err)
	}
}

func wantError[E error](t testing.TB, what string, err error) (e E) {
	t.Helper()
	if !errors.As(err, &e) {
		t.Errorf("%s: got %v, want %T", what, err, e)
	}
	return e
}

// paused is a backend that, once armed, stops the next write before it is done
// until the test lets it go on: a holder paused between its look and its write.
type paused struct {
	backend.Backend
	armed         atomic.Bool
	reached, goOn chan struct{}
}

func newPaused(b backend.Backend) *paused {
	return &paused{Backend: b, reached: make(chan struct{}), goOn: make(chan struct{})}
}

func (p *paused) wait() {
	if p.armed.CompareAndSwap(true, false) {
		p.reached <- struct{}{}
		<-p.goOn
	}
}

func (p *paused) Put(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
	p.wait()
	return p.Backend.Put(ctx, req)
}

func (p *paused) Batch(ctx context.Context, ops []backend.Op) ([]backend.Version, error) {
	p.wait()
	return p.Backend.(backend.Batcher).Batch(ctx, ops)
}

func (p *paused) Add(ctx context.Context, req backend.AddRequest) (int64, backend.Version, error) {
	return p.Backend.(backend.Adder).Add(ctx, req)
}

// pool is a pool on the test server with a table of fences.
func pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(t.Context(), pgtest.Need(t, server).URL("postgres")+"&pool_max_conns=16")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// After a failure a lock may still have its connection.
		closed := make(chan struct{})
		go func() { p.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(patience):
			t.Error("a connection was not given back")
		}
	})
	return p
}
