package play

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/play/app"
	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/gate/file"
	"github.com/holdfast-dev/holdfast/play/gate/file/sqlite"
	"github.com/holdfast-dev/holdfast/play/gate/file/tree"
	"github.com/holdfast-dev/holdfast/play/oracle"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

// files is the stage on files: a directory behind the file gate, and programs
// or instances of a service that work in it.
type files struct {
	memory
	sc     *scenario.Scenario
	log    *slog.Logger
	output io.Writer
	work   string
	dir    string // the watched directory
	base   scenario.Vars

	gate     *file.Gate
	events   chan arrival
	captured scenario.Vars // by the set-up
	start    tree.State
	who      []scenario.Actor
	services []*service // by instance of the application
	// mu guards what the goroutines that run programs write.
	mu       sync.Mutex
	programs map[int]*program // of the run under way, by actor
	owners   map[int]int      // actors by instance of the gate
	// shared: several actors send their requests to one instance.
	shared  bool
	known   map[string]bool // files that serial runs have left, by stable name
	emptied map[string]bool // files that a serial run has left empty, by path
	texts   []string        // what the actors ask, for people
	current *run
	outcome oracle.Outcome
	doubt   bool
	// faulty: a process may be killed in the run, so that files that no serial run
	// leaves are no difference; they are kept in leftOver.
	faulty   bool
	leftOver []string
	// settled: the serial runs have been made, and known is complete.
	settled bool
	// watching: the files are looked at after each step, for torn ones.
	watching bool
	torn     []tornRead
}

// service is one instance of the application behind the gate.
type service struct {
	proc    *guarded
	vars    scenario.Vars
	clients map[int]*app.Client // by actor
}

func newFiles(ctx context.Context, sc *scenario.Scenario, o Options) (f *files, err error) {
	f = &files{memory: newMemory(), sc: sc, log: o.Logger, output: o.Output,
		events: make(chan arrival, eventBuffer), who: sc.Actors(), known: map[string]bool{}, emptied: map[string]bool{},
		programs: map[int]*program{}, owners: map[int]int{}}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if err = f.prepare(); err != nil {
		return f, err
	}
	if err = f.build(ctx, o); err != nil {
		return f, err
	}
	f.gate, err = file.New(file.Config{Dirs: []string{f.dir}, Random: sc.Files.Random, Logger: f.log,
		Sink: func(ev gate.Event) { f.events <- arrival{f.gate, ev} }})
	if err != nil {
		return f, err
	}
	if err = f.runSetup(ctx); err != nil {
		return f, err
	}
	o.phase("start the application")
	if err = f.startServices(ctx); err != nil {
		return f, err
	}
	if err = f.setUp(ctx); err != nil {
		return f, err
	}
	if err = f.watchIdle(ctx); err != nil {
		return f, err
	}
	if f.start, err = tree.Capture(f.dir, f.treeOptions()); err != nil {
		return f, err
	}
	return f, f.wordRequests()
}

// prepare makes the directories and the seed.
func (f *files) prepare() (err error) {
	if f.work, err = os.MkdirTemp("", "holdfast-play-"); err != nil {
		return err
	}
	// The gate knows files by their real paths.
	if f.work, err = filepath.EvalSymlinks(f.work); err != nil {
		return err
	}
	f.dir = filepath.Join(f.work, "files")
	if err := os.Mkdir(f.dir, 0o755); err != nil {
		return err
	}
	if f.base, err = f.sc.BaseVars(f.work); err != nil {
		return err
	}
	f.base["files.dir"] = app.Value{Text: f.dir}
	for name, text := range f.sc.Files.Seed {
		full := filepath.Join(f.dir, filepath.FromSlash(name))
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(full, 0o755)
		} else if err = os.MkdirAll(filepath.Dir(full), 0o755); err == nil {
			err = os.WriteFile(full, []byte(text), 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: files.seed.%s: %w", f.sc.File, name, err)
		}
	}
	uses := map[int]int{}
	for _, a := range f.who {
		if len(a.Run) == 0 {
			uses[a.Instance]++
			f.shared = f.shared || uses[a.Instance] > 1
		}
	}
	return nil
}

func (f *files) build(ctx context.Context, o Options) error {
	for _, b := range []scenario.Words{f.sc.Build, f.sc.Application.Build} {
		if len(b) == 0 {
			continue
		}
		o.phase("build the application")
		words, err := b.Expand(f.base)
		if err != nil {
			return err
		}
		dir, err := f.sc.Application.WorkDir(f.base)
		if err != nil {
			return err
		}
		if err := app.Build(ctx, words, dir, nil); err != nil {
			return err
		}
	}
	return nil
}

func (f *files) hasServices() bool { return len(f.sc.Application.Command) > 0 }

// startServices starts each instance and waits until it is ready. Nothing is
// held meanwhile.
func (f *files) startServices(ctx context.Context) error {
	f.services = nil
	if !f.hasServices() {
		return nil
	}
	f.gate.Hold(false)
	for i := range f.sc.Application.Instances {
		s, err := f.startService(ctx, i)
		if s != nil {
			f.services = append(f.services, s)
		}
		if err != nil {
			return err
		}
	}
	f.doubt = false
	return nil
}

func (f *files) startService(ctx context.Context, i int) (*service, error) {
	opts, vars, err := instanceOptions(f.sc, f.base, i)
	if err != nil {
		return nil, err
	}
	opts.Output, opts.Logger = f.output, f.log
	s := &service{clients: map[int]*app.Client{}, vars: vars}
	s.proc, err = launch(ctx, f.gate, opts, func(instance int) {
		for n, actor := range f.who {
			if len(actor.Run) == 0 && actor.Instance == i && !f.shared {
				f.owns(instance, n)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if err := waitReady(ctx, f.sc, s.proc.Process, vars); err != nil {
		return s, err
	}
	for n, actor := range f.who {
		if len(actor.Run) == 0 && actor.Instance == i {
			s.clients[n] = app.NewClient(opts.Addr, app.ClientOptions{Headers: f.sc.Observe.Headers})
		}
	}
	return s, nil
}

// runSetup runs the programs of the set-up, before the application starts.
func (f *files) runSetup(ctx context.Context) error {
	for i, s := range f.sc.Setup {
		if len(s.Run) == 0 {
			continue
		}
		words, err := s.Run.Expand(f.base)
		if err != nil {
			return err
		}
		env, err := scenario.Environment(s.Env, f.base)
		if err != nil {
			return err
		}
		if err := app.Build(ctx, words, f.sc.Dir, env); err != nil {
			return fmt.Errorf("%s: setup[%d]: %w", f.sc.File, i, err)
		}
	}
	return nil
}

// setUp makes the set-up requests, at instance 0, and keeps what they capture.
func (f *files) setUp(ctx context.Context) (err error) {
	f.captured = scenario.Vars{}
	if !f.hasServices() {
		return nil
	}
	s := f.services[0]
	f.captured, err = sendSetup(ctx, f.sc, s.proc.Addr(), s.vars)
	return err
}

// watchIdle learns what the application does to files while nothing is asked.
func (f *files) watchIdle(ctx context.Context) error {
	if !f.hasServices() {
		return nil
	}
	f.gate.Begin()
	f.gate.Hold(true)
	defer f.gate.Hold(false)
	return f.learnIdle(ctx, f.events)
}

func (f *files) treeOptions() tree.Options { return tree.Options{Ignore: f.sc.Files.Ignore} }

// wordRequests words what the actors ask. Placeholders are filled in, but for
// those that would be another text in each play.
func (f *files) wordRequests() error {
	vars := f.base.With(f.captured).With(scenario.Vars{"files.dir": {Text: "."}, "work": {Text: "."}})
	for _, a := range f.who {
		if len(a.Run) > 0 {
			words, err := a.Run.Expand(vars)
			if err != nil {
				return err
			}
			f.texts = append(f.texts, strings.Join(words, " "))
			continue
		}
		req, err := a.HTTP.Expand(f.services[a.Instance].vars.With(f.captured))
		if err != nil {
			return err
		}
		f.texts = append(f.texts, req.String())
	}
	return nil
}

// boundary

func (f *files) asks(actor int) string { return f.texts[actor] }

// send runs the actor's program or sends its request.
func (f *files) send(ctx context.Context, actor int) oracle.Response {
	a := f.who[actor]
	if len(a.Run) > 0 {
		return f.runProgram(ctx, actor)
	}
	s := f.services[a.Instance]
	req, err := a.HTTP.Expand(s.vars.With(f.captured))
	if err != nil {
		return oracle.Response{Err: err.Error()}
	}
	resp, _ := s.clients[actor].Do(ctx, req)
	return resp
}

// turned names the temporary files of an instance that is shared by whose turn it
// is.
func (f *files) turned(actor int) {
	if a := f.who[actor]; f.shared && len(a.Run) == 0 {
		f.gate.Attribute(f.services[a.Instance].proc.number(), f.name(actor))
	}
}

func (f *files) acknowledged(actor int) { f.gate.Acknowledge(f.name(actor)) }

func (f *files) exact() bool { return true }

// belongs: a program is its actor's, and so is an instance with one actor.
func (f *files) belongs(s *gate.Step) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if actor, ok := f.owners[s.Instance]; ok {
		return actor
	}
	return -1
}

func (f *files) sole(actor int) bool { return len(f.who[actor].Run) > 0 || !f.shared }

// look at those processes that still run.
func (f *files) look() ([]app.Look, error) {
	var looks []app.Look
	add := func(g *guarded) error {
		if g == nil || g.ExitError() != nil {
			return nil
		}
		l, err := g.Idle()
		if err != nil && g.ExitError() == nil {
			return err
		}
		if err == nil {
			looks = append(looks, l)
		}
		return nil
	}
	for _, s := range f.services {
		if err := add(s.proc); err != nil {
			return nil, err
		}
	}
	for _, p := range f.running() {
		if err := add(p.proc); err != nil {
			return nil, err
		}
	}
	return looks, nil
}

func (f *files) busy() bool { return f.gate.Busy() }

// stage

func (f *files) actors() []scenario.Actor { return f.who }

func (f *files) last() *run { return f.current }

func (f *files) left() oracle.Outcome { return f.outcome }

func (f *files) mayKill(may bool) { f.faulty = may }

func (f *files) leftFiles() []string { return f.leftOver }

// passTime makes the files older, or waits.
func (f *files) passTime(ctx context.Context, waits bool) error {
	if waits {
		return sleep(ctx, f.sc.Pause)
	}
	return f.older(f.sc.Pause)
}

func (f *files) differ(context.Context) error { return nil }

func (f *files) replace() { f.doubt = true }

func (f *files) notes() []string { return nil }

// Begin implements explore.System: the start state and fresh processes.
func (f *files) Begin(ctx context.Context) (explore.Execution, error) {
	return f.begin(ctx, f.start)
}

// begin is Begin with another start state.
func (f *files) begin(ctx context.Context, start tree.State) (explore.Execution, error) {
	f.gate.Hold(false)
	fresh := f.doubt || f.sc.Application.Restart == scenario.RestartAlways ||
		slices.ContainsFunc(f.services, func(s *service) bool { return s.proc.ExitError() != nil })
	if fresh {
		if err := f.stopServices(ctx); err != nil {
			return nil, err
		}
	}
	if err := start.Restore(f.dir, f.treeOptions()); err != nil {
		return nil, err
	}
	if f.hasServices() && (fresh || len(f.services) == 0) {
		if err := f.startServices(ctx); err != nil {
			return nil, err
		}
		// What it has written as it started is no part of the run. It may have
		// its files open, so they stay the same files.
		if err := start.Restore(f.dir, f.treeOptions()); err != nil {
			return nil, err
		}
	}
	flush(f.events)
	f.torn = nil
	f.gate.Begin()
	for i, a := range f.who {
		if len(a.Run) > 0 {
			continue
		}
		s := f.services[a.Instance]
		s.clients[i].Forget()
		if err := s.clients[i].Warm(ctx); err != nil {
			return nil, err
		}
		if !f.shared {
			f.gate.Attribute(s.proc.number(), f.name(i))
		}
	}
	f.gate.Hold(true)
	f.current = newRun(ctx, f, f.events, len(f.who), false, f.sc.Budgets.Step)
	return &filesRun{run: f.current, files: f, broken: map[string]int{}}, nil
}

// filesRun observes the state that a run leaves.
type filesRun struct {
	*run
	files *files
	// broken are files that do not parse now, by who broke them.
	broken map[string]int
	// marks tell, after each step, how long the gate's log and the timeline were.
	marks []mark
}

type mark struct{ ops, rows int }

func (x *filesRun) End(ctx context.Context, complete bool) error {
	if err := x.run.End(ctx, complete); err != nil {
		return err
	}
	return x.files.finish(ctx, x.run, complete)
}

// finish notes what the run has left. What programs do after their end does not
// exist; what a service does after its answer was waited for by the run.
func (f *files) finish(ctx context.Context, r *run, complete bool) error {
	f.gate.Hold(false)
	if err := f.endPrograms(ctx); err != nil {
		return err
	}
	if r.failed != nil || !r.allDone() {
		f.doubt = true
	}
	f.outcome = oracle.Outcome{Responses: r.responses(), Stuck: complete && !r.allDone()}
	if !complete {
		return nil
	}
	state, err := tree.Capture(f.dir, f.treeOptions())
	if err != nil {
		return err
	}
	f.leftOver = nil
	f.outcome.Tables = f.tables(state)
	f.outcome.Violated, err = f.violated(ctx)
	return err
}

// tables shows a state to the oracle, without lock files: empty files of which
// the content can mean nothing and the existence says who came first.
func (f *files) tables(s tree.State) []oracle.Table {
	shown := s.Clone()
	maps.DeleteFunc(shown, func(p string, n tree.Node) bool { return n.Mode.IsRegular() && len(n.Data) == 0 && isLock(p) })
	if f.faulty {
		for p := range shown {
			if name := f.gate.StableName(p); !f.known[name] {
				f.leftOver = append(f.leftOver, name)
				delete(shown, p)
			}
		}
		for p := range s {
			// An empty lock file that no serial run leaves is left as well.
			if name := f.gate.StableName(p); !f.known[name] && !slices.Contains(f.leftOver, name) {
				f.leftOver = append(f.leftOver, name)
			}
		}
		slices.Sort(f.leftOver)
	} else if !f.settled {
		for p, n := range s {
			f.known[f.gate.StableName(p)] = true
			f.emptied[p] = f.emptied[p] || len(n.Data) == 0
		}
	}
	return f.observed(shown, f.gate.StableName)
}

// observed are the tables that the scenario wants compared. SQLite databases are
// shown by their rows.
func (f *files) observed(s tree.State, named func(string) string) []oracle.Table {
	var tables []oracle.Table
	for _, p := range slices.Sorted(maps.Keys(s)) {
		if !sqlite.Is(s[p].Data) {
			continue
		}
		rows, err := sqlite.Tables(context.Background(), s, p, named(p), f.work)
		if err != nil {
			text := firstLine(err)
			rows = []oracle.Table{{Name: named(p), Value: true, Columns: []oracle.Column{{Name: "content", Type: oracle.Plain}}, Rows: [][]*string{{&text}}}}
		}
		tables = append(tables, rows...)
	}
	plain := s.Clone()
	maps.DeleteFunc(plain, func(p string, n tree.Node) bool { return sqlite.Is(n.Data) || sqlite.Belongs(s, p) })
	tables = append(plain.Tables(named), tables...)
	if wanted := f.sc.Observe.Tables; len(wanted) > 0 {
		tables = slices.DeleteFunc(tables, func(t oracle.Table) bool { return !slices.Contains(wanted, t.Name) })
	}
	return tables
}

// isLock reports whether a path is called as lock files are. One that is not
// empty has something to say, and one that keeps others out shows in what they
// are answered.
func isLock(p string) bool {
	base := strings.ToLower(path.Base(p))
	return strings.Contains(base, "lock") || strings.HasSuffix(base, ".lck")
}

// violated lists the user's invariants that do not hold now.
func (f *files) violated(ctx context.Context) ([]string, error) {
	var names []string
	for i, inv := range f.sc.Invariants {
		s := f.services[0]
		inv, err := inv.Expand(s.vars.With(f.captured))
		if err == nil {
			var holds bool
			if holds, err = askInvariant(ctx, f.sc, s.proc.Addr(), inv); !holds && err == nil {
				names = append(names, inv.Name)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: invariants[%d]: %w", f.sc.File, i, err)
		}
	}
	return names, nil
}

// older makes all files older, so that a pause has passed for who judges by the
// time of a file's last change.
func (f *files) older(d time.Duration) error {
	return filepath.WalkDir(f.dir, func(full string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return os.Chtimes(full, time.Time{}, info.ModTime().Add(-d))
	})
}

func (f *files) stopServices(ctx context.Context) error {
	var errs []error
	for _, s := range f.services {
		for _, c := range s.clients {
			c.Close()
		}
		errs = append(errs, s.proc.stop(ctx))
	}
	f.services = nil
	return errors.Join(errs...)
}

// close ends everything. It uses a context of its own: it must work after a
// cancellation.
func (f *files) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var errs []error
	if f.gate != nil {
		f.gate.Hold(false)
		errs = append(errs, f.endPrograms(ctx), f.stopServices(ctx), f.gate.Close())
	}
	if f.work != "" {
		errs = append(errs, os.RemoveAll(filepath.Clean(f.work)))
	}
	return errors.Join(errs...)
}
