package witness

import (
	"github.com/holdfast-dev/holdfast/review/effect"
)

// Kind of a bad end.
type Kind string

// Bad ends.
const (
	NonSerial  Kind = "no-serial-order" // no serial order of the actors gives this outcome
	Deadlock   Kind = "deadlock"        // all wait for each other
	Torn       Kind = "torn"            // an empty or cut file is read or published
	Memory     Kind = "memory"          // one process gives another outcome than two
	LostLock   Kind = "lost-lock"       // an effect under a lock that another has by now
	Hang       Kind = "hang"            // others wait as long as something outside takes
	Lost       Kind = "lost"            // acknowledged, and gone after a crash
	Twice      Kind = "twice"           // run again after a crash, it takes effect again
	Swallowed  Kind = "swallowed"       // a failed read is taken for an empty one, and written over
	Ignored    Kind = "ignored"         // a failed effect, and success is answered
	Permitted  Kind = "permitted"       // a failed check is taken for a permission
	Endless    Kind = "endless"         // a retry loop without an end
	Leftover   Kind = "leftover"        // a temporary file stays after a failure
	Sequential Kind = "sequential"      // a test that claims concurrency and has none
	Undone     Kind = "undone"          // what took effect is destroyed: an unknown outcome taken for a failure
)

// Witness is one schedule that ends badly.
type Witness struct {
	Kind     Kind
	Actors   []Actor
	Events   []Event
	On       *effect.Resource // what is damaged; nil for a deadlock
	Expected []string         // what came out in the good orders, one line each
	Got      string
	// Read, Other, Write are the race: Read by one actor, Other by another after
	// it, Write by the first without knowing. For a single actor only Write is
	// set: the step at fault.
	Read, Other, Write *effect.Step
	// Voids are protections on the way that had no effect.
	Voids []Void
	// Derived says that Write's value or condition comes from Read.
	Derived bool
	// Controls says that whether Write happens is decided by what was Read.
	Controls bool
	// NoSchema says that the damaged table is in no schema file that was found: it
	// may have a unique index.
	NoSchema bool
	// Rollout says that the two processes exist only while a new version is rolled
	// out.
	Rollout bool
	// Crossed says that B has its keys the other way round (from and to).
	Crossed bool
}

// Actor is one column of the schedule.
type Actor struct {
	Name    string // "A"
	Entry   *effect.Entry
	Process int
}

// Event is one line of the schedule.
type Event struct {
	Actor  int
	Step   *effect.Step // nil for an end or a fault
	Result string       // what came of it
	End    bool         // the actor's end
	Failed bool
	Fault  bool // a crash, a pause, an error of the surroundings

	table string
	write bool
}

// VoidKind is a kind of protection without effect.
type VoidKind string

// Protections without effect.
const (
	VoidOption   VoidKind = "ignored-option"  // what the front end marked
	VoidNoTx     VoidKind = "no-transaction"  // FOR UPDATE in autocommit
	VoidMissing  VoidKind = "row-missing"     // FOR UPDATE of a row that does not exist
	VoidMutex    VoidKind = "process-mutex"   // an in-process lock between processes
	VoidEarly    VoidKind = "early-unlock"    // released before commit
	VoidOutside  VoidKind = "outer-handle"    // a statement beside the open transaction
	VoidZeroRows VoidKind = "zero-rows"       // a guarded write whose refusal is not looked at
	VoidVersion  VoidKind = "empty-version"   // If-Match with an empty version
	VoidLockLate VoidKind = "locked-too-late" // the lock is taken after the read
)

// Void is a protection in the source that had no effect in the schedule.
type Void struct {
	Kind VoidKind
	Step *effect.Step
	Why  string
}

// Options bound the search. The zero value is the default.
type Options struct {
	MaxWorlds int // choices of the start state per pair; 0 is 24
	MaxRuns   int // runs per pair; 0 is 1000
	// Notes searches for hardening, too: pairs that write without looking (their
	// writes can mix, and nothing worse), and two processes that overlap while a
	// new version is rolled out.
	Notes bool
	// Blind searches pairs of different entries that only write, too. It costs as
	// much as all the rest.
	Blind bool
}

func (o Options) bounds() (worlds, runs int) {
	worlds, runs = o.MaxWorlds, o.MaxRuns
	if worlds == 0 {
		worlds = 24
	}
	if runs == 0 {
		runs = 1000
	}
	return worlds, runs
}

// Problem is the linked program with what does not change between pairs.
type Problem struct {
	Deploy  effect.Deployment
	Schema  *effect.Schema
	Entries []effect.Entry // linked
	codes   []*code
	prints  []footprint
	opts    Options
}

// New prepares the search on a program.
func New(p *effect.Program, o Options) *Problem {
	pr := &Problem{Deploy: p.Deploy, Schema: &p.Schema, Entries: effect.Link(p, effect.LinkOptions{}), opts: o}
	for i := range pr.Entries {
		pr.codes = append(pr.codes, compile(slice(&pr.Entries[i], func(*effect.Step) bool { return true })))
		pr.prints = append(pr.prints, printOf(&pr.Entries[i]))
	}
	return pr
}
