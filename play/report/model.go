// Package report holds the result of a play and prints it: as text for a
// terminal ([Text]), as JSON ([JSON]), as JUnit XML ([JUnit]), as one
// self-contained HTML page ([HTML]) and as a picture ([SVG]). It also shows the
// progress of a running play ([Progress]) and keeps the schedule of a finding
// in a file ([Saved]).
//
// # Model
//
// A [Report] is plain data that the player fills in. A [Finding] has a
// timeline: rows in the order in which things happened, each by one actor. All
// forms show the same rows under the same numbers.
//
// # Promise and limits
//
// The same report gives the same bytes. Statements, answers and names are the
// application's and are never trusted: control characters, direction controls
// and mark-up in them reach neither the terminal nor the page. A report says
// what was explored and what was left out; that nothing was found is no proof
// that there is nothing, and no form says so.
//
// The arrows of the picture and the line that explains them are derived from
// the rows' footprints, which may claim more than a statement did. They explain
// what the oracle has found and add nothing to it. Steps without a known
// footprint have none.
package report

import (
	"time"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/oracle"
)

// Report is the result of playing one scenario. Its JSON form is stable.
type Report struct {
	Holdfast string    `json:"holdfast"` // version of the program
	Scenario string    `json:"scenario"` // path as given
	Name     string    `json:"name"`
	Actors   []Actor   `json:"actors"`
	Passes   []Pass    `json:"passes"`
	Findings []Finding `json:"findings"`
	// Background are statements that the application sent on its own.
	Background []string `json:"background,omitempty"`
	// Notes say what a reader must know and is not a finding: conflicts that
	// the application answered properly, steps with unknown footprint, noise.
	Notes []string `json:"notes,omitempty"`
	// SerialRuns is how many serial runs the oracle made.
	SerialRuns int           `json:"serial_runs"`
	Took       time.Duration `json:"took_ns"`
}

// Actor is one of the concurrent requests.
type Actor struct {
	Name     string `json:"name"`    // "A", "B", ... or the scenario's name
	Request  string `json:"request"` // "POST /accounts/1/withdraw {...}"
	Instance int    `json:"instance"`
	// Program: it runs a program, and sends nothing to an instance.
	Program bool `json:"program,omitempty"`
}

// Pass is one search over the interleavings.
type Pass struct {
	// Name: "between statements", "inside statements".
	Name string `json:"name"`
	// Search: "exhaustive", "preemptions <= 2", "random, seed 7".
	Search string `json:"search"`
	// Schedules is the number of complete runs.
	Schedules int `json:"schedules"`
	// Redundant is the number of runs given up because their trace was
	// already covered.
	Redundant int `json:"redundant"`
	// Inconclusive runs diverged, timed out or could not be attributed.
	Inconclusive int `json:"inconclusive"`
	// Reasons counts the inconclusive runs by reason.
	Reasons map[string]int `json:"reasons,omitempty"`
	// Complete: every trace of this pass was run.
	Complete bool `json:"complete"`
	// LeftOut says in words what the bound or budget left out; empty with Complete.
	LeftOut string        `json:"left_out,omitempty"`
	Took    time.Duration `json:"took_ns"`
}

// Finding is one outcome that no serial order explains.
type Finding struct {
	Kind oracle.Kind `json:"kind"`
	// Sentence says in one sentence what was lost.
	Sentence string `json:"sentence"`
	// Inside: the race is inside one statement.
	Inside   bool             `json:"inside_one_statement,omitempty"`
	Schedule explore.Schedule `json:"schedule"`
	Rows     []Row            `json:"timeline"`
	// Observed is the outcome; Serial the distinct outcomes of serial orders.
	Observed Outcome   `json:"observed"`
	Serial   []Outcome `json:"serial"`
	// Times is how many of the explored schedules ended like this.
	Times int `json:"times"`
	// Confirmed is how many of Replays replays gave the same outcome.
	Confirmed int `json:"confirmed"`
	Replays   int `json:"replays"`
	// File is where the schedule was saved, for `holdfast replay`.
	File string `json:"file,omitempty"`
	// Fault is what was done to an actor, beside the interleaving.
	Fault *Fault `json:"fault,omitempty"`
}

// Fault is what is done to an actor in a schedule.
type Fault struct {
	// Kind is that of the schedule: pause, crash, power-loss or retry.
	Kind string `json:"kind"`
	// Actor has it done to it, after so many of its steps, its request counted.
	Actor int `json:"actor"`
	After int `json:"after"`
	// Undelivered: one more step is made, of which the actor does not hear.
	Undelivered bool `json:"undelivered,omitempty"`
	// State is, for a loss of power, the digest of what it leaves.
	State string `json:"state,omitempty"`
}

// Row is one line of a timeline: one actor does one thing.
type Row struct {
	Actor int    `json:"actor"`
	Step  string `json:"step"`           // the SQL, whole
	Note  string `json:"note,omitempty"` // "balance=100", "UPDATE 1", "waits for A", "goes on"
	// Touch is what the row's own step touched, in the notation of
	// explore.Footprint.String: "read accounts[id=1]". The picture's arrows and
	// lock spans come from it. Of an event that woke others each row has its
	// own part only.
	Touch string `json:"touch,omitempty"`
	// Kind: "request", "step", "blocked", "woke", "pause" (after its
	// snapshot), "response", "fault".
	Kind string `json:"kind"`
}

// The kinds of rows.
const (
	RowRequest  = "request"  // the actor's request was sent
	RowStep     = "step"     // a step was let through and answered
	RowBlocked  = "blocked"  // a step was let through and waits for another actor
	RowWoke     = "woke"     // that step went on and was answered
	RowPause    = "pause"    // a step was stopped after its snapshot
	RowResponse = "response" // the actor's request was answered
	RowFault    = "fault"    // what was done to the actor: killed, paused, the power went off
)

// Outcome is an outcome prepared for people: only what differs anywhere.
type Outcome struct {
	// Order names the serial order, "A then B"; empty for the observed one.
	Order string `json:"order,omitempty"`
	// Cells are label/value pairs, in the same order in all outcomes of a
	// finding: "A answers" -> "200 {"balance":90}", "accounts[id=1].balance" -> "90".
	Cells []Cell `json:"cells"`
}

// Cell is one compared value.
type Cell struct {
	Label string `json:"label"`
	Value string `json:"value"`
	// Wrong marks a value that no serial order has.
	Wrong bool `json:"wrong,omitempty"`
}
