package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/explain"
)

// Name is the gate's name in its steps.
const Name = "postgres"

// Config says what the gate stands before.
type Config struct {
	// Upstream is the real server: "unix:/dir/.s.PGSQL.5432" or "127.0.0.1:5432".
	Upstream string
	// Admin is a connection URL for the gate's own connections to the same
	// server, which look at locks and end backends. It needs the rights to see
	// and end the application's backends (a superuser, the application's own
	// role, or a member of pg_signal_backend), and for InstallSplit the
	// ownership of the tables and the right to create a schema.
	Admin string
	// TLS: encrypted connections end here, with a certificate for localhost
	// made by the gate's own authority (see CAPEM). Otherwise the gate answers
	// a client's question for encryption with no.
	TLS bool
	// Sink gets the events, from the gate's goroutines and in order for each
	// connection. It must not block and must not call the gate. Nil: nobody.
	Sink func(gate.Event)
	// Analyzer computes footprints. Nil: every step has an unknown one.
	Analyzer *explain.Analyzer
	// Logger hears what the gate can not report otherwise. Nil: nobody.
	Logger *slog.Logger
}

// Gate is a running gate. Its methods may be called by many goroutines.
type Gate struct {
	cfg    Config
	sink   func(gate.Event)
	log    *slog.Logger
	certs  *certificates
	values *values
	labels *labels
	watch  *watcher
	split  *splitter

	ids     atomic.Uint64
	holding atomic.Bool

	// ctx ends with Close; it bounds what the goroutines do on their own.
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	instances int
	listeners []net.Listener
	conns     map[uint64]*conn
	lastConn  uint64
	steps     map[uint64]*unit
	// starting are sockets of connections that have not reached the server yet.
	starting map[net.Conn]struct{}
}

var _ gate.Gate = (*Gate)(nil)

// New makes a gate without listeners; see AddInstance.
//
// Errors: Admin can not be reached, or the gate's certificates can not be made.
func New(ctx context.Context, cfg Config) (*Gate, error) {
	g := &Gate{cfg: cfg, sink: cfg.Sink, log: cfg.Logger, values: newValues(),
		conns: map[uint64]*conn{}, steps: map[uint64]*unit{}, starting: map[net.Conn]struct{}{}}
	if g.sink == nil {
		g.sink = func(gate.Event) {}
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	g.labels = newLabels(g.values)
	if cfg.TLS {
		var err error
		if g.certs, err = newCertificates(); err != nil {
			return nil, err
		}
	}
	g.watch = &watcher{adminConn{url: cfg.Admin, statements: watchStatements}}
	g.split = &splitter{adminConn{url: cfg.Admin, statements: splitStatements}}
	if err := g.watch.open(ctx); err != nil {
		return nil, err
	}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g, nil
}

// Name of the kind of boundary.
func (g *Gate) Name() string { return Name }

// AddInstance listens on a free port of 127.0.0.1 for one application
// instance. Instances count from 0.
func (g *Gate) AddInstance(ctx context.Context) (instance int, addr string, err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, "", fmt.Errorf("listen for an application instance: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return 0, "", errors.Join(errors.New("add an instance: the gate is closed"), l.Close())
	}
	instance = g.instances
	g.instances++
	g.listeners = append(g.listeners, l)
	g.work.Go(func() { g.accept(l, instance) })
	return instance, l.Addr().String(), nil
}

// CAPEM is the certificate of the gate's own authority; nil without TLS.
func (g *Gate) CAPEM() []byte {
	if g.certs == nil {
		return nil
	}
	return g.certs.caPEM
}

// Hold switches holding on or off. It counts for the next cycle of each
// connection. Switching it off lets all held steps pass and delivers all kept
// answers; a Held event that is just being sent may still arrive.
func (g *Gate) Hold(on bool) {
	g.mu.Lock()
	g.holding.Store(on)
	var left []*unit
	if !on {
		for _, u := range g.steps {
			left = append(left, u)
		}
	}
	g.mu.Unlock()
	slices.SortFunc(left, func(a, b *unit) int { return cmp.Compare(a.step.ID, b.step.ID) })
	for _, u := range left {
		u.conn.pass(u)
	}
}

// register makes the step known by its ID, unless holding is off.
func (g *Gate) register(u *unit) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.holding.Load() {
		return false
	}
	g.steps[u.step.ID] = u
	return true
}

func (g *Gate) forget(u *unit) {
	if u.step == nil {
		return
	}
	g.mu.Lock()
	delete(g.steps, u.step.ID)
	g.mu.Unlock()
}

func (g *Gate) drop(c *conn) {
	g.mu.Lock()
	delete(g.conns, c.id)
	g.mu.Unlock()
}

func (g *Gate) lookup(op string, id uint64) (*unit, error) {
	g.mu.Lock()
	u := g.steps[id]
	g.mu.Unlock()
	if u == nil {
		return nil, &StepError{Op: op, ID: id, Err: ErrGone}
	}
	return u, nil
}

// Waiting tells which of these released steps wait for a lock now. A wait for
// the gate's own split lock is none.
func (g *Gate) Waiting(ctx context.Context, ids []uint64) ([]gate.Wait, error) {
	byPID := make(map[uint32]uint64, len(ids))
	for _, id := range ids {
		u, err := g.lookup("look for waits of", id)
		if err != nil {
			continue // it has just ended, so it does not wait
		}
		if pid, ok := u.conn.pidAtServer(u); ok {
			byPID[pid] = id
		}
	}
	if len(byPID) == 0 {
		return nil, nil
	}
	blocked, err := g.watch.waiting(ctx, byPID)
	if err != nil || len(blocked) == 0 {
		return nil, err
	}
	conns := g.connsByPID()
	waits := make([]gate.Wait, 0, len(blocked))
	for _, b := range blocked {
		w := gate.Wait{ID: byPID[b.pid]}
		for _, pid := range b.by {
			if c := conns[pid]; c != nil {
				w.For = append(w.For, c.id)
			}
		}
		waits = append(waits, w)
	}
	return waits, nil
}

func (g *Gate) allConns() []*conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	cs := make([]*conn, 0, len(g.conns))
	for _, c := range g.conns {
		cs = append(cs, c)
	}
	slices.SortFunc(cs, func(a, b *conn) int { return cmp.Compare(a.id, b.id) })
	return cs
}

func (g *Gate) connsByPID() map[uint32]*conn {
	m := map[uint32]*conn{}
	for _, c := range g.allConns() {
		c.mu.Lock()
		if c.key != nil {
			m[c.key.ProcessID] = c
		}
		c.mu.Unlock()
	}
	return m
}
