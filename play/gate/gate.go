// Package gate defines what a boundary tells the player and what the player
// tells a boundary. A gate stands between the application and something that
// keeps state (a database, a file system, a cache). It holds each step there,
// lets it through when told, keeps the answer until told, and says what the
// step touches. There is one package per kind of boundary below this one; all
// gates of a scenario share one player and so one global order of steps.
//
// # Life of a step
//
//	Held ── Release ──> (at the server) ──> Answered ── Deliver ──> (application goes on)
//
// A released step that does not answer may be waiting for a lock; Waiting
// tells. A step released in two parts stops once more, after its snapshot and
// before its effect (Paused), and goes on with Resume.
package gate

import (
	"context"

	"github.com/holdfast-dev/holdfast/play/explore"
)

// Kind tells the events of a gate apart.
type Kind uint8

const (
	// Held: a step has arrived and is held. Event.Step is set.
	Held Kind = iota
	// Paused: a step that was released in two parts has done its first part.
	Paused
	// Answered: the server has answered; the answer is kept. Event.Answer is set.
	Answered
	// Closed: the connection ended (by the application, the server or Close);
	// a step of it that was held or at the server is gone.
	Closed
	// Failed: the gate met something it can not handle; Event.Err says what.
	// The run is inconclusive and the message names the feature.
	Failed
)

// Event is what a gate reports, in the order in which it happened per connection.
type Event struct {
	Kind   Kind
	Conn   uint64
	ID     uint64 // of the step, for Paused and Answered (0: none)
	Step   *Step
	Answer *Answer
	Err    error
}

// Step is one held step.
type Step struct {
	// ID is unique over the life of the gate.
	ID uint64
	// Conn names the connection it came on, unique over the life of the gate.
	Conn uint64
	// Gate is the gate's name ("postgres").
	Gate string
	// Instance is the number of the application instance it came from, from 0.
	Instance int
	// Shape is the step without its values: the same in every run, also where the
	// application makes up ids, hashes or times. Replays compare it.
	Shape string
	// Label is the step's name with its values (for SQL: the statement's text
	// with its parameters).
	Label string
	// Text is the step for people: several lines are allowed.
	Text string
	// Footprint is what the whole step touches.
	Footprint explore.Footprint
	// Writes names the objects (tables) that the step may change, its triggers
	// and cascades included; nil with Footprint.Unknown means "any".
	Writes []string
	// Quiet steps touch nothing and end nothing (a ping, SHOW): the player
	// lets them through at once.
	Quiet bool
	// Splittable: the step reads a snapshot and then changes rows that this
	// snapshot selected, so that it has an inside where another actor fits.
	Splittable bool
	// First and Rest are the footprints of its two parts when split.
	First, Rest explore.Footprint
}

// Answer is what the server said to a step.
type Answer struct {
	// Summary is one short line for people: "UPDATE 1", "balance=100",
	// "ERROR 40P01: deadlock detected".
	Summary string
	// Code is the protocol's error code (SQLSTATE), empty without an error.
	Code string
	// Columns and Rows are the first rows of the (last) result, as text; a nil
	// cell is NULL. RowCount is the number of all rows.
	Columns  []string
	Rows     [][]*string
	RowCount int
	// Open: the connection is inside a transaction after this step, so its
	// next step belongs to the same actor.
	Open bool
}

// Wait is a released step that waits for a lock.
type Wait struct {
	ID uint64
	// For are the steps' connections that hold what it waits for, where known.
	For []uint64
}

// Gate is one boundary. Events go to the sink that the gate was made with, from
// the gate's own goroutines; the sink does not block. All methods may be called
// from one other goroutine at any time.
type Gate interface {
	// Name of the kind of boundary, e.g. "postgres".
	Name() string
	// Hold switches holding on or off. While off, all steps pass at once and
	// no events are sent (set-up, readiness, shut-down).
	Hold(on bool)
	// Release lets a held step through to the server and keeps the answer.
	// In two parts, the step stops again after its snapshot (Paused).
	Release(ctx context.Context, id uint64, twoParts bool) error
	// Resume lets a paused step do its second part.
	Resume(ctx context.Context, id uint64) error
	// Deliver hands the kept answer to the application.
	Deliver(ctx context.Context, id uint64) error
	// Pass lets a held step through and its answer back without further events.
	Pass(ctx context.Context, id uint64) error
	// Waiting tells which of these released steps wait for a lock at this moment.
	Waiting(ctx context.Context, ids []uint64) ([]Wait, error)
	// Busy reports whether something is under way between the application and
	// the server that no event tells of, such as a connection that is starting:
	// an application that waits for it is asleep, and is not waiting for another
	// request.
	Busy() bool
	// Abort gives up all that is under way: connections with a held step, a step
	// at the server or an open transaction are closed on both sides.
	Abort(ctx context.Context) error
	// Close ends the gate and waits for its goroutines.
	Close() error
}
