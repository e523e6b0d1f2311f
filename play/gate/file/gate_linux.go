//go:build amd64 || arm64

package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/gate/file/power"
)

// Gate is a running gate. Its methods may be called by many goroutines.
type Gate struct {
	cfg       Config
	sink      func(gate.Event)
	logger    *slog.Logger
	roots     *roots
	calls     []*sysCall // by number
	performer *performer
	stop      int // an eventfd that ends the loops
	work      sync.WaitGroup

	holding atomic.Bool
	expand  atomic.Bool // steps inside SQLite's lock spans are held as well

	// doing is held while a step is made, until its answer has been sent. A call
	// that goes on in the kernel lets its thread come back with the next one
	// before the gate has noted what the first has done; the next one is looked
	// at after that.
	doing sync.Mutex

	mu        sync.Mutex
	closed    bool
	instances int
	watched   []*Instance
	threads   map[int]*thread
	procs     map[int]*process
	steps     map[uint64]*step
	lastID    uint64
	lastConn  uint64
	// One run's memory, cleared by Begin.
	owners      map[int]string
	names       *names
	inodes      map[inode]string
	files       map[inode]power.FileID
	made        int
	ops         power.Log
	opBytes     int64
	lockChanges uint64
}

var _ gate.Gate = (*Gate)(nil)

// New makes a gate without programs; see Add.
//
// Errors: a watched directory that is not there, a pattern that is none.
func New(cfg Config) (*Gate, error) {
	if cfg.MaxLog == 0 {
		cfg.MaxLog = defaultMaxLog
	}
	random, err := cfg.patterns()
	if err != nil {
		return nil, err
	}
	r, err := newRoots(cfg.Dirs)
	if err != nil {
		return nil, fmt.Errorf("watch a directory: %w", err)
	}
	g := &Gate{cfg: cfg, sink: cfg.Sink, logger: cfg.Logger, roots: r, threads: map[int]*thread{},
		procs: map[int]*process{}, steps: map[uint64]*step{}, names: newNames(random)}
	if g.sink == nil {
		g.sink = func(gate.Event) {}
	}
	if g.logger == nil {
		g.logger = slog.New(slog.DiscardHandler)
	}
	table := calls()
	g.calls = make([]*sysCall, slices.Max(slices.Collect(maps.Keys(table)))+1)
	for nr, c := range table {
		g.calls[nr] = &c
	}
	if g.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, err
	}
	if g.performer, err = newPerformer(); err != nil {
		return nil, errors.Join(err, unix.Close(g.stop))
	}
	g.Begin()
	return g, nil
}

// Name of the kind of boundary.
func (g *Gate) Name() string { return Name }

// Begin forgets the names, the log and the owners of the last run. The programs
// that are there must be idle.
func (g *Gate) Begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.owners = map[int]string{}
	g.names = newNames(g.names.random)
	g.inodes, g.files, g.made = map[inode]string{}, map[inode]power.FileID{}, 0
	g.ops, g.opBytes = power.Log{}, 0
	for _, t := range g.threads {
		clear(t.failed)
	}
	for _, p := range g.procs {
		clear(p.names)
	}
}

// Attribute tells whose steps come from now on from an instance; the name is
// part of the stable names of its temporary files. Without it, the owner is
// named by the instance: A for 0.
func (g *Gate) Attribute(instance int, owner string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.owners[instance] = owner
}

// Expand switches whether steps inside one span of locks of a SQLite database
// are held one by one (on: for crashes) or pass, as a part of the step that
// takes or frees the lock (off, the default: for interleavings).
func (g *Gate) Expand(on bool) { g.expand.Store(on) }

func (g *Gate) collapses() bool { return !g.expand.Load() }

// Hold switches holding on or off. Switching it off lets all held steps pass.
func (g *Gate) Hold(on bool) {
	g.holding.Store(on)
	if on {
		return
	}
	g.mu.Lock()
	left := slices.Collect(maps.Values(g.steps))
	g.mu.Unlock()
	slices.SortFunc(left, func(a, b *step) int { return cmp.Compare(a.ID, b.ID) })
	for _, s := range left {
		g.pass(s)
	}
}

// take finds a step in one of the stages.
func (g *Gate) take(op string, id uint64, stages ...stage) (*step, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.steps[id]
	if s == nil {
		return nil, &StepError{Op: op, ID: id, Err: ErrGone}
	}
	if !slices.Contains(stages, s.stage) {
		return nil, &StepError{Op: op, ID: id, Err: ErrOrder}
	}
	return s, nil
}

// Release makes the call and keeps its result. When it returns, either Answered
// has been sent, with the footprint that the call had in fact, or the step waits
// for a lock. There are no steps in two parts here.
func (g *Gate) Release(_ context.Context, id uint64, _ bool) error {
	s, err := g.take("release", id, stageHeld)
	if err != nil {
		return err
	}
	g.attempt(s)
	g.retry()
	return nil
}

// attempt makes the call once.
func (g *Gate) attempt(s *step) {
	g.doing.Lock()
	defer g.doing.Unlock()
	if !g.open(s) {
		return // another goroutine was first
	}
	if !s.in.l.valid(s.note.id) {
		g.gone(s)
		return
	}
	g.mu.Lock()
	if s.stage == stageHeld {
		// What a path leads to may have changed while the step was held.
		s.Footprint = g.footprint(s)
	}
	g.mu.Unlock()
	wait := false
	g.performer.do(func() { wait = g.perform(s) })
	if wait {
		g.mu.Lock()
		s.stage = stageWaiting
		g.mu.Unlock()
		return
	}
	g.answered(s)
}

// open reports whether the step is still to be made.
func (g *Gate) open(s *step) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.steps[s.ID] == s && s.stage != stageAnswered
}

func (g *Gate) answered(s *step) {
	g.mu.Lock()
	s.stage = stageAnswered
	done := s.Step
	g.mu.Unlock()
	if s.early && s.call.act == actExit {
		// Nobody is left to be told.
		g.drop(s)
		g.sink(gate.Event{Kind: gate.Answered, Conn: s.Conn, ID: s.ID, Step: &done, Answer: s.answer()})
		g.sink(gate.Event{Kind: gate.Closed, Conn: s.Conn, ID: s.ID})
		return
	}
	g.sink(gate.Event{Kind: gate.Answered, Conn: s.Conn, ID: s.ID, Step: &done, Answer: s.answer()})
}

// answer is the result for people.
func (s *step) answer() *gate.Answer {
	r := s.result
	a := &gate.Answer{}
	switch {
	case r.errno != 0:
		a.Code = unix.ErrnoName(r.errno)
		a.Summary = a.Code + ": " + r.errno.Error()
	case s.call.act == actRead || s.call.act == actWrite || s.call.act == actCopy:
		a.Summary = fmt.Sprintf("%d bytes", r.val)
	default:
		a.Summary = "ok"
	}
	return a
}

// waiters are the steps that wait for a lock, in the order in which they came.
func (g *Gate) waiters() []*step {
	g.mu.Lock()
	defer g.mu.Unlock()
	var ws []*step
	for _, s := range g.steps {
		if s.stage == stageWaiting {
			ws = append(ws, s)
		}
	}
	slices.SortFunc(ws, func(a, b *step) int { return cmp.Compare(a.ID, b.ID) })
	return ws
}

// retry lets the waiting steps try again, since a lock may have been freed.
func (g *Gate) retry() {
	for _, s := range g.waiters() {
		g.attempt(s)
	}
}

// Waiting tells which of these released steps wait for a lock now. It tries for
// each waiting step's lock, so a step that is not named is answered.
func (g *Gate) Waiting(_ context.Context, ids []uint64) ([]gate.Wait, error) {
	g.retry()
	var waits []gate.Wait
	for _, s := range g.waiters() {
		if slices.Contains(ids, s.ID) {
			waits = append(waits, gate.Wait{ID: s.ID, For: g.holders(s)})
		}
	}
	return waits, nil
}

// holders are the threads of the processes whose record locks a step waits for.
// The kernel does not tell who took a flock.
func (g *Gate) holders(s *step) []uint64 {
	if s.lock.flock {
		return nil
	}
	locks, err := kernelLocks(s.file.inode)
	if err != nil {
		return nil
	}
	who := s.lock.blockers(locks, s.thread.proc.pid)
	g.mu.Lock()
	defer g.mu.Unlock()
	var conns []uint64
	for _, t := range g.threads {
		if slices.Contains(who, t.proc.pid) {
			conns = append(conns, t.conn)
		}
	}
	slices.Sort(conns)
	return conns
}

// Expire lets a waiting step fail that is a repeated try without blocking. It is
// for the case that nobody else can go on: then the program would see its try
// fail until it gives up. ErrOrder: the step blocks for good.
func (g *Gate) Expire(_ context.Context, id uint64) error {
	s, err := g.take("expire", id, stageWaiting)
	if err != nil {
		return err
	}
	if s.lock.block {
		return &StepError{Op: "expire", ID: id, Err: ErrOrder}
	}
	s.result.errno = unix.EAGAIN
	g.answered(s)
	return nil
}

// Resume is for steps in two parts, of which there are none.
func (g *Gate) Resume(_ context.Context, id uint64) error {
	return &StepError{Op: "resume", ID: id, Err: ErrOrder}
}

// Deliver hands the result to the program, which goes on.
func (g *Gate) Deliver(_ context.Context, id uint64) error {
	s, err := g.take("deliver", id, stageAnswered)
	if err != nil {
		return err
	}
	g.deliver(s)
	return nil
}

func (g *Gate) deliver(s *step) {
	g.drop(s)
	g.reply(s)
	g.mu.Lock()
	t := s.thread
	t.current = nil
	next := t.next
	t.next = nil
	if next != nil {
		t.current = next
	}
	g.mu.Unlock()
	if next != nil {
		g.hold(next)
	}
}

// reply gives the caller its result.
func (g *Gate) reply(s *step) {
	g.doing.Lock()
	r := s.result
	s.result.fd = -1 // closed here, and not once more when the caller is gone
	g.doing.Unlock()
	if r.fd >= 0 {
		defer unix.Close(r.fd)
	}
	if s.early {
		return
	}
	if r.fd < 0 {
		// An error says that the caller has been killed, which shows elsewhere.
		_ = s.in.l.answer(s.note.id, r.val, r.errno)
		return
	}
	// The caller may come with the descriptor before its name is noted.
	g.doing.Lock()
	defer g.doing.Unlock()
	fd, errno := s.in.l.addFD(s.note.id, r.fd, r.cloexec)
	if errno == 0 && r.opened != nil {
		g.mu.Lock()
		s.thread.proc.names[fd] = *r.opened
		g.mu.Unlock()
	}
	_ = s.in.l.answer(s.note.id, int64(fd), errno)
}

// drop takes a step out of the gate.
func (g *Gate) drop(s *step) {
	g.mu.Lock()
	delete(g.steps, s.ID)
	g.mu.Unlock()
}

// Pass lets a held step through without further events. One that would wait for
// a lock goes on in the kernel and waits there.
func (g *Gate) Pass(_ context.Context, id uint64) error {
	s, err := g.take("pass", id, stageHeld, stageWaiting, stageAnswered)
	if err != nil {
		return err
	}
	g.pass(s)
	g.retry()
	return nil
}

func (g *Gate) pass(s *step) {
	g.mu.Lock()
	st := s.stage
	g.mu.Unlock()
	wait := st == stageWaiting
	g.doing.Lock()
	if st == stageHeld {
		g.performer.do(func() { wait = g.perform(s) })
	}
	if wait && !s.early {
		s.early = true
		_ = s.in.l.proceed(s.note.id)
	}
	g.doing.Unlock()
	g.deliver(s)
}

// StableName is the name that a path, relative to the watched directory, has in
// this run's steps and footprints. A path that no step has named keeps its own.
func (g *Gate) StableName(rel string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.names.known(rel)
}

// Log is what has been done to the watched directories since Begin.
func (g *Gate) Log() power.Log {
	g.mu.Lock()
	defer g.mu.Unlock()
	return power.Log{Ops: slices.Clone(g.ops.Ops), Cut: g.ops.Cut}
}

// LogLength is how many operations Log has.
func (g *Gate) LogLength() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.ops.Ops)
}

// Acknowledge notes in the log that an actor has been answered.
func (g *Gate) Acknowledge(actor string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ops.Ops = append(g.ops.Ops, power.Op{Kind: power.Ack, Actor: actor})
}

func (g *Gate) log(s *step, op power.Op) {
	g.mu.Lock()
	defer g.mu.Unlock()
	op.Step, op.Actor = s.Label, g.owner(s.in)
	g.ops.Ops = append(g.ops.Ops, op)
}

// logData logs an operation with data, up to the bound of the log.
func (g *Gate) logData(s *step, op power.Op) {
	op.Data = slices.Clone(op.Data)
	g.mu.Lock()
	g.opBytes += int64(len(op.Data))
	if g.opBytes > g.cfg.MaxLog {
		g.ops.Cut = true
		op.Data = nil
	}
	g.mu.Unlock()
	g.log(s, op)
}

// newFile is the ID of a file that is being made. g.mu is held.
func (g *Gate) newFile() power.FileID {
	g.made++
	return power.New(g.made)
}

// fileID names a file in the log.
func (g *Gate) fileID(ino inode, rel string) power.FileID {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, ok := g.files[ino]
	if !ok {
		id = power.Existing(rel)
		g.files[ino] = id
	}
	return id
}

func (g *Gate) fail(s *step, err error) {
	g.sink(gate.Event{Kind: gate.Failed, Conn: s.Conn, ID: s.ID, Err: err})
}
