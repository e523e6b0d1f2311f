package play

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/play/app"
	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/snapshot"
	"github.com/holdfast-dev/holdfast/play/oracle"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

// world is everything around the runs: the server, the database behind its
// gate, the instances of the application, and the clients.
type world struct {
	memory
	sc     *scenario.Scenario
	log    *slog.Logger
	output io.Writer
	work   string
	base   scenario.Vars // what is known without an instance

	server   *server
	database *database
	apps     []*app.Process
	vars     []scenario.Vars // by instance
	captured scenario.Vars   // by the set-up
	senders  []scenario.Actor
	requests []app.Request
	clients  []*app.Client
	events   chan arrival

	split bool
	// current is the run under way or the last one; outcome is what it left.
	current  *run
	outcome  oracle.Outcome
	clean    bool // the database is in the start state
	dirty    []string
	restarts int
	doubt    bool // the instances must be replaced before the next run
	resets   []time.Duration
}

// eventBuffer is more than the steps that can arrive while the player is busy:
// a sink must not block.
const eventBuffer = 1 << 12

func newWorld(ctx context.Context, sc *scenario.Scenario, o Options) (w *world, err error) {
	w = &world{sc: sc, log: o.Logger, output: o.Output, events: make(chan arrival, eventBuffer),
		memory: newMemory(), senders: sc.Actors()}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	if sc.Postgres == nil {
		return nil, &scenario.Error{File: sc.File, Line: 1, Column: 1, Key: "postgres",
			Msg: "is missing: without it no step of the application is held; write postgres: {} with a schema"}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.work, err = os.MkdirTemp("", "holdfast-play-"); err != nil {
		return w, err
	}
	if w.base, err = sc.BaseVars(w.work); err != nil {
		return w, err
	}
	if err = w.build(ctx, o); err != nil {
		return w, err
	}
	o.phase("start PostgreSQL")
	if w.server, err = startServer(ctx, sc.Postgres, w.base, w.log); err != nil {
		return w, err
	}
	o.phase("start the application")
	return w, w.open(ctx)
}

func (w *world) build(ctx context.Context, o Options) error {
	if len(w.sc.Application.Build) == 0 {
		return nil
	}
	o.phase("build the application")
	words, err := w.sc.Application.Build.Expand(w.base)
	if err != nil {
		return err
	}
	dir, err := w.sc.Application.WorkDir(w.base)
	if err != nil {
		return err
	}
	return app.Build(ctx, words, dir, nil)
}

// open makes the database, starts the application before it, makes the set-up
// requests and records the start state.
func (w *world) open(ctx context.Context) error {
	name, err := createDatabase(ctx, w.server, w.sc, w.base)
	if err != nil {
		return err
	}
	// The sink is called before d.gate is known to anybody: the events wait in
	// the channel until the first run.
	var d *database
	sink := func(ev gate.Event) { w.events <- arrival{d.gate, ev} }
	if d, err = openDatabase(ctx, w.server, w.sc, name, w.work, sink, w.log); err != nil {
		return err
	}
	w.database = d
	if err := w.startApps(ctx); err != nil {
		return err
	}
	if err := w.setUp(ctx); err != nil {
		return err
	}
	if err := w.prepareActors(); err != nil {
		return err
	}
	if err := d.record(ctx, w.sc); err != nil {
		return err
	}
	d.gate.Hold(true)
	w.clean, w.doubt = true, false
	return w.learnIdle(ctx, w.events)
}

func (w *world) startApps(ctx context.Context) error {
	n := w.sc.Application.Instances
	w.apps, w.vars = make([]*app.Process, 0, n), make([]scenario.Vars, n)
	for i := range n {
		p, err := w.startApp(ctx, i)
		if p != nil {
			w.apps = append(w.apps, p)
		}
		if err != nil {
			return err
		}
	}
	w.restarts++
	return nil
}

// startApp starts one instance and waits until it is ready. A process is returned
// with an error as well, if there is one.
func (w *world) startApp(ctx context.Context, i int) (*app.Process, error) {
	pg, err := w.database.vars(ctx)
	if err != nil {
		return nil, err
	}
	opts, vars, err := instanceOptions(w.sc, w.base.With(pg), i)
	if err != nil {
		return nil, err
	}
	w.vars[i], opts.Output, opts.Logger = vars, w.output, w.log
	p, err := app.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	return p, waitReady(ctx, w.sc, p, vars)
}

// setUp makes the set-up requests, at instance 0, and keeps what they capture.
func (w *world) setUp(ctx context.Context) (err error) {
	w.captured, err = sendSetup(ctx, w.sc, w.apps[0].Addr(), w.vars[0])
	return err
}

// sendSetup makes the set-up requests of a scenario and returns what they
// capture.
func sendSetup(ctx context.Context, sc *scenario.Scenario, addr string, vars scenario.Vars) (scenario.Vars, error) {
	captured := scenario.Vars{}
	client := app.NewClient(addr, app.ClientOptions{})
	defer client.Close()
	for i, s := range sc.Setup {
		if len(s.Run) > 0 {
			continue // the caller has run it
		}
		req, err := s.HTTP.Expand(vars.With(captured))
		if err != nil {
			return nil, err
		}
		rctx, cancel := context.WithTimeout(ctx, sc.Budgets.Run)
		reply, err := client.Send(rctx, req)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("%s: setup[%d] %s: %w", sc.File, i, req, err)
		}
		if !s.Accepts(reply.Status) {
			return nil, fmt.Errorf("%s: setup[%d] %s was answered %d, which is not what it expects: %s",
				sc.File, i, req, reply.Status, reply.Body)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Capture)) {
			if captured[name], err = reply.Capture(s.Capture[name]); err != nil {
				return nil, fmt.Errorf("%s: setup[%d].capture.%s: %w", sc.File, i, name, err)
			}
		}
	}
	return captured, nil
}

// prepareActors fills in the requests, and opens a client for each. Ports and
// addresses are new after a restart, so it is done after each.
func (w *world) prepareActors() error {
	for _, c := range w.clients {
		c.Close()
	}
	w.clients, w.requests = nil, nil
	for _, a := range w.senders {
		req, err := a.HTTP.Expand(w.vars[a.Instance].With(w.captured))
		if err != nil {
			return err
		}
		w.requests = append(w.requests, req)
		w.clients = append(w.clients, app.NewClient(w.apps[a.Instance].Addr(),
			app.ClientOptions{Headers: w.sc.Observe.Headers}))
	}
	return nil
}

// boundary

func (w *world) asks(actor int) string { return w.requests[actor].String() }

// send sends the actor's request. The error is in the response as well, in
// stable words.
func (w *world) send(ctx context.Context, actor int) oracle.Response {
	resp, _ := w.clients[actor].Do(ctx, w.requests[actor])
	return resp
}

func (w *world) turned(int) {}

func (w *world) acknowledged(int) {}

// Requests share the instances, and a connection pool may give any connection
// to any of them.
func (w *world) belongs(*gate.Step) int { return -1 }

func (w *world) sole(int) bool { return false }

func (w *world) exact() bool { return false }

func (w *world) look() ([]app.Look, error) {
	looks := make([]app.Look, len(w.apps))
	for i, p := range w.apps {
		var err error
		if looks[i], err = p.Idle(); err != nil {
			return nil, err
		}
	}
	return looks, nil
}

func (w *world) busy() bool { return w.database.gate.Busy() }

// patienceEnds: after so many vain waits in a row the application is taken to be
// one that never sleeps.
const patienceEnds = 3

// stage

func (w *world) actors() []scenario.Actor { return w.senders }

func (w *world) last() *run { return w.current }

func (w *world) left() oracle.Outcome { return w.outcome }

// differ advances the sequences: what comes from them then differs, and nothing
// else does.
func (w *world) differ(ctx context.Context) error {
	return w.database.snapshot.AdvanceSequences(ctx, serialShift)
}

func (w *world) replace() { w.doubt = true }

func (w *world) mayKill(bool) {}

func (w *world) tornNow() ([]string, error) { return nil, nil }

func (w *world) leftFiles() []string { return nil }

// passTime waits: the server's clock can not be moved.
func (w *world) passTime(ctx context.Context, _ bool) error { return sleep(ctx, w.sc.Pause) }

// kill ends the actor's instance at once, and what it had open at the server with
// it: a process that is gone has no transaction.
func (w *world) kill(ctx context.Context, r *run, actor int) error {
	sent := r.strike(actor)
	r.dirtyAll = true
	p := w.apps[w.senders[actor].Instance]
	p.Kill()
	if err := p.Stop(ctx); err != nil {
		return err
	}
	if err := w.database.gate.Abort(ctx); err != nil {
		return err
	}
	return r.forget(ctx, actor, sent)
}

// startAgain replaces the instance of an actor that was killed. What it does as
// it starts is not held.
func (w *world) startAgain(ctx context.Context, actor int) error {
	i := w.senders[actor].Instance
	w.database.gate.Hold(false)
	p, err := w.startApp(ctx, i)
	if p != nil {
		w.apps[i] = p
	}
	if err != nil {
		w.doubt = true
		return err
	}
	if err := w.prepareActors(); err != nil {
		return err
	}
	for _, c := range w.clients {
		if err := c.Warm(ctx); err != nil {
			return err
		}
	}
	w.flush()
	w.database.gate.Hold(true)
	return nil
}

func (w *world) notes() []string { return w.database.snapshot.Notes() }

// Begin implements explore.System: the start state, with fresh processes where
// they are wanted, and every actor before its request.
func (w *world) Begin(ctx context.Context) (explore.Execution, error) {
	if err := w.restore(ctx); err != nil {
		return nil, err
	}
	for _, c := range w.clients {
		c.Forget()
		if err := c.Warm(ctx); err != nil {
			return nil, err
		}
	}
	w.current = newRun(ctx, w, w.events, len(w.senders), w.split, w.sc.Budgets.Step)
	w.clean = false
	return &worldRun{run: w.current, world: w}, nil
}

// worldRun observes the state that a run leaves.
type worldRun struct {
	*run
	world *world
}

func (x *worldRun) End(ctx context.Context, complete bool) error {
	err := x.run.End(ctx, complete)
	if err != nil {
		return err
	}
	return x.world.finish(ctx, x.run, complete)
}

// finish notes what the run has left.
func (w *world) finish(ctx context.Context, r *run, complete bool) error {
	w.dirty = nil
	if !r.dirtyAll {
		w.dirty = slices.Sorted(maps.Keys(r.dirty))
		if w.dirty == nil {
			w.dirty = []string{}
		}
	}
	if r.failed != nil {
		w.doubt = true
	}
	w.outcome = oracle.Outcome{Responses: r.responses(), Stuck: complete && !r.allDone()}
	if !complete {
		return nil
	}
	var err error
	if w.outcome.Tables, err = w.database.observe(ctx, w.sc, w.dirty); err != nil {
		return err
	}
	w.outcome.Violated, err = w.violated(ctx)
	return err
}

// violated lists the user's invariants that do not hold now.
func (w *world) violated(ctx context.Context) ([]string, error) {
	var names []string
	for i, inv := range w.sc.Invariants {
		inv, err := inv.Expand(w.vars[0].With(w.captured))
		holds := false
		switch {
		case err != nil:
		case inv.SQL != "":
			holds, err = w.database.check(ctx, inv.SQL)
		default:
			holds, err = w.ask(ctx, inv)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: invariants[%d]: %w", w.sc.File, i, err)
		}
		if !holds {
			names = append(names, inv.Name)
		}
	}
	return names, nil
}

// ask sends an invariant's request, ungated, to instance 0.
func (w *world) ask(ctx context.Context, inv scenario.Invariant) (bool, error) {
	w.database.gate.Hold(false)
	defer w.database.gate.Hold(true)
	return askInvariant(ctx, w.sc, w.apps[0].Addr(), inv)
}

// askInvariant sends an invariant's request.
func askInvariant(ctx context.Context, sc *scenario.Scenario, addr string, inv scenario.Invariant) (bool, error) {
	client := app.NewClient(addr, app.ClientOptions{})
	defer client.Close()
	rctx, cancel := context.WithTimeout(ctx, sc.Budgets.Run)
	defer cancel()
	reply, err := client.Send(rctx, app.Request{Method: inv.Request.Method, Path: inv.Request.Path})
	if err != nil {
		return false, err
	}
	return reply.Status == inv.Expect, nil
}

// restore brings the start state back.
func (w *world) restore(ctx context.Context) error {
	dead := slices.ContainsFunc(w.apps, func(p *app.Process) bool { return p.ExitError() != nil })
	if dead || w.doubt || w.sc.Application.Restart == scenario.RestartAlways {
		if err := w.restart(ctx); err != nil {
			return err
		}
	}
	if w.clean {
		return nil
	}
	began := time.Now()
	_, err := w.database.snapshot.Reset(ctx, w.dirty)
	w.resets = append(w.resets, time.Since(began))
	if need, ok := errors.AsType[*snapshot.NeedTemplateError](err); ok {
		w.log.Warn("the start state can not be restored row by row; making the database anew", "reason", need)
		return w.reopen(ctx)
	}
	if err != nil {
		return err
	}
	w.clean = true
	return nil
}

// restart replaces the instances and keeps the database.
func (w *world) restart(ctx context.Context) error {
	for _, p := range w.apps {
		if err := p.Stop(ctx); err != nil {
			return err
		}
	}
	d := w.database
	d.gate.Hold(false)
	if err := d.gate.Abort(ctx); err != nil {
		return err
	}
	// What an application writes as it starts must not count as part of a run:
	// the start state is restored after it.
	w.clean, w.dirty = false, nil
	if err := w.startApps(ctx); err != nil {
		return err
	}
	if err := w.prepareActors(); err != nil {
		return err
	}
	w.flush()
	d.gate.Hold(true)
	w.doubt = false
	return nil
}

// flush forgets the events of connections that are gone.
func (w *world) flush() { flush(w.events) }

// reopen makes the database anew, from the schema on.
func (w *world) reopen(ctx context.Context) error {
	if err := w.closeDatabase(ctx); err != nil {
		return err
	}
	w.flush()
	return w.open(ctx)
}

func (w *world) closeDatabase(ctx context.Context) error {
	var errs []error
	for _, c := range w.clients {
		c.Close()
	}
	w.clients = nil
	for _, p := range w.apps {
		errs = append(errs, p.Stop(ctx))
	}
	w.apps = nil
	if w.database != nil {
		errs = append(errs, w.database.close(ctx))
		w.database = nil
	}
	return errors.Join(errs...)
}

// close ends everything. It uses a context of its own: it must work after a
// cancellation.
func (w *world) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	errs := []error{w.closeDatabase(ctx)}
	if w.server != nil {
		errs = append(errs, w.server.stop(ctx))
	}
	if w.work != "" {
		errs = append(errs, os.RemoveAll(filepath.Clean(w.work)))
	}
	return errors.Join(errs...)
}
