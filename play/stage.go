package play

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/play/app"
	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/oracle"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

// stage is where a scenario is played: the application and what it keeps its
// state in, behind a gate. There is one for PostgreSQL and one for files.
type stage interface {
	explore.System
	actors() []scenario.Actor
	name(actor int) string
	// asks is what an actor sends, for people.
	asks(actor int) string
	// last is the run under way or the last one; left what it has left.
	last() *run
	left() oracle.Outcome
	// differ makes the next run differ from others in what means nothing, such as
	// the values of sequences.
	differ(ctx context.Context) error
	// replace the processes before the next run.
	replace()
	learnt() *memory
	// mayKill is told whether processes are killed in the runs to come.
	mayKill(bool)
	// kill ends an actor's process at once, and startAgain replaces it.
	kill(ctx context.Context, r *run, actor int) error
	startAgain(ctx context.Context, actor int) error
	// passTime lets the scenario's pause pass, for the others.
	passTime(ctx context.Context, waits bool) error
	// tornNow and leftFiles are about files; see files.
	tornNow() ([]string, error)
	leftFiles() []string
	// notes say what a reader must know of the stage.
	notes() []string
	close() error
}

// memory is what a stage has learned from run to run.
type memory struct {
	learned map[string]bool // labels of steps that come while nothing is asked
	strays  map[string]bool // labels of steps that came outside of any request
	// together: some request sends several statements at once.
	together bool
	// restless counts the waits for quiet that were in vain, until one is not.
	restless int
	// exclusion are the steps that take or give back something inside the
	// application; news is set when one is added.
	exclusion map[insideStep][]explore.Access
	news      bool
}

func newMemory() memory {
	return memory{learned: map[string]bool{}, strays: map[string]bool{}, exclusion: map[insideStep][]explore.Access{}}
}

// insideStep names a step that does something inside the application.
type insideStep struct {
	actor int
	step  string
}

func (m *memory) learnt() *memory { return m }

func (m *memory) name(actor int) string { return string(rune('A' + actor)) }

func (m *memory) background(label string) bool { return m.learned[label] }

func (m *memory) stray(label string) { m.strays[label] = true }

func (m *memory) wasQuiet(quiet bool) {
	if quiet {
		m.restless = 0
		return
	}
	m.restless++
}

// tail is how long to wait for quiet: not for long where it has never come.
func (m *memory) tail() time.Duration {
	if m.restless >= patienceEnds {
		return restlessTail
	}
	return tail
}

func (m *memory) parallel() bool { return m.together }

func (m *memory) sendsInParallel() { m.together = true }

func (m *memory) waited(actor int, step string, mode explore.Mode) {
	key := insideStep{actor, step}
	for _, b := range m.exclusion[key] {
		if b.Mode == mode {
			return
		}
	}
	m.exclusion[key] = append(m.exclusion[key], explore.Access{Mode: mode, Object: "inside the application"})
	m.news = true
}

func (m *memory) inside(actor int, step string) []explore.Access {
	return m.exclusion[insideStep{actor, step}]
}

// idleTime is how long the application is watched for steps of its own.
const idleTime = 300 * time.Millisecond

// learnIdle learns what the application does while nothing is asked of it.
func (m *memory) learnIdle(ctx context.Context, events <-chan arrival) error {
	t := time.NewTimer(idleTime)
	defer t.Stop()
	for {
		select {
		case ev := <-events:
			if ev.Kind != gate.Held {
				continue
			}
			m.learned[ev.Step.Label] = true
			if err := ev.from.Pass(ctx, ev.Step.ID); err != nil {
				return err
			}
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// flush forgets the events of connections and processes that are gone.
func flush(events <-chan arrival) {
	for {
		select {
		case <-events:
		default:
			return
		}
	}
}

// instanceOptions say how to start an instance of the application on a free port,
// and what its placeholders stand for.
func instanceOptions(sc *scenario.Scenario, base scenario.Vars, i int) (app.Options, scenario.Vars, error) {
	port, err := app.FreePort()
	if err != nil {
		return app.Options{}, nil, err
	}
	addr := "127.0.0.1:" + strconv.Itoa(port)
	vars := base.With(scenario.Vars{"port": {Text: strconv.Itoa(port)},
		"instance": {Text: strconv.Itoa(i)}, "url": {Text: "http://" + addr}})
	opts, err := sc.Application.Options(vars)
	opts.Instance, opts.Addr = i, addr
	return opts, vars, err
}

// waitReady waits until an instance answers as the scenario wants.
func waitReady(ctx context.Context, sc *scenario.Scenario, p *app.Process, vars scenario.Vars) error {
	probe, err := sc.Application.Ready.Probe(vars)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sc.Application.Ready.Timeout)
	defer cancel()
	return p.Ready(ctx, probe)
}
