package oracle

import (
	"strconv"
	"strings"
)

// Type is what the oracle needs to know of a column's type.
type Type string

const (
	// Plain values are compared as they are.
	Plain Type = "plain"
	// ID values come from a sequence, an identity column or a generator, or
	// refer to one; they are renamed one-to-one by first appearance.
	ID Type = "id"
	// Time values are moments; where two identical serial runs differ in them
	// they are masked.
	Time Type = "time"
	// JSON values are compared by their parsed form.
	JSON Type = "json"
)

// Column of an observed table.
type Column struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
	// References names the "table.column" that a foreign key points to.
	References string `json:"references,omitempty"`
}

// Table is one observed table (or file, or key space) after a run.
type Table struct {
	Name    string   `json:"name"`
	Columns []Column `json:"columns"`
	// Key are the indexes of the primary key's columns; empty without one.
	Key []int `json:"key,omitempty"`
	// Value: the table is one thing with one row, such as a file with its
	// content, and is named by its name alone.
	Value bool `json:"value,omitempty"`
	// Rows hold each cell as text; nil is NULL. The order means nothing.
	Rows [][]*string `json:"rows"`
}

// Response is what one request was answered.
type Response struct {
	// Status is the HTTP status; 0 when no answer came, and then Err says why. A
	// program that was run has 200 for exit status 0, 503 for 75 (EX_TEMPFAIL of
	// sysexits.h: try again) and 500 for all others.
	Status int `json:"status"`
	// Header has the compared headers only (Location, ETag).
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body"`
	// ContentType decides how the body is compared.
	ContentType string `json:"content_type,omitempty"`
	Err         string `json:"err,omitempty"`
	// Broken: the application broke off without an answer, of its own. It counts
	// as a server error, unlike an answer that was dropped on purpose.
	Broken bool `json:"broken,omitempty"`
	// Program: it is the end of a program, with the exit status Exit; Body is its
	// standard output.
	Program bool `json:"program,omitempty"`
	Exit    int  `json:"exit,omitempty"`
	// Codes are the error codes (SQLSTATE) that the gates saw answered to
	// this actor's steps, in order.
	Codes []string `json:"codes,omitempty"`
}

// String is the answer for people: the status and the body, in one line.
func (r *Response) String() string {
	s := r.word()
	if r.Status == 0 {
		if r.Err != "" {
			s += ": " + r.Err
		}
		return s
	}
	if b := strings.TrimSpace(r.Body); b != "" {
		s += " " + b
	}
	return s
}

// word is the status: "200", "exit 1".
func (r *Response) word() string {
	switch {
	case r.Status == 0:
		return "no answer"
	case r.Program:
		return "exit " + strconv.Itoa(r.Exit)
	}
	return strconv.Itoa(r.Status)
}

// Outcome is all that can be seen after a run.
type Outcome struct {
	Tables []Table `json:"tables"`
	// Responses by actor; nil for an actor that was left out of a serial run.
	Responses []*Response `json:"responses"`
	// Violated are the names of user invariants that did not hold.
	Violated []string `json:"violated,omitempty"`
	// Stuck: the run made no more progress although not every actor was done.
	Stuck bool `json:"stuck,omitempty"`
}

// Kind of a finding.
type Kind string

// The kinds of findings, in the order in which they are tested.
const (
	Deadlock        Kind = "deadlock"
	LostUpdate      Kind = "lost update"
	DuplicateEffect Kind = "duplicate effect"
	PartialEffect   Kind = "partial effect"
	ServerError     Kind = "server error only under concurrency"
	WriteSkew       Kind = "write skew or other non-serializable outcome"
	Invariant       Kind = "invariant violated"
	// The kinds of what only shows on files. The oracle itself does not give
	// them: who plays a crash or looks at the files does.
	TornFile         Kind = "torn file"
	TempCollision    Kind = "temp-name collision"
	LostAcknowledged Kind = "lost acknowledged write"
	StaleLock        Kind = "stale lock broken"
	LeftOver         Kind = "left-over file"
)
