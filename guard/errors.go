package guard

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
)

// NoRowError says that a guarded statement changed no row: what its WHERE
// demands did not hold at the moment of the write. Nothing was written.
type NoRowError struct {
	// Query is the statement, without its arguments.
	Query string
}

func (e *NoRowError) Error() string {
	return fmt.Sprintf("%s: changed no row, because its condition did not hold; nothing was written; read the row again and decide anew", short(e.Query))
}

// Is makes errors.Is(err, store.ErrConflict) true.
func (e *NoRowError) Is(target error) bool { return target == store.ErrConflict }

// Race is for package conflict.
func (e *NoRowError) Race() (status int, title string) {
	return http.StatusConflict, "The state has changed"
}

// RaceError is an error of a database that tells of a race. The statement had
// no effect.
type RaceError struct {
	Op   string
	Kind Kind
	// Code is the SQLSTATE, or the number of MySQL or SQLite.
	Code string
	// Constraint is the constraint or index, where the database names it; for
	// SQLite its columns.
	Constraint string
	// Err is the driver's error.
	Err error
}

func (e *RaceError) Error() string {
	on := ""
	if e.Constraint != "" {
		on = " of " + e.Constraint
	}
	return fmt.Sprintf("%s: %s%s; nothing was written; %s: %v", e.Op, e.Kind, on, advice[e.Kind], e.Err)
}

var advice = map[Kind]string{
	Unique:        "somebody else has it already, read their row",
	Exclusion:     "somebody else has it already, choose another",
	Check:         "the limit is reached, read the row again",
	ForeignKey:    "the other row has come or gone meanwhile, read it again",
	Serialization: "run the whole transaction again",
	Deadlock:      "run the whole transaction again, and lock in one order",
	LockTimeout:   "somebody else holds the lock, try later",
	Busy:          "another connection writes, run the whole transaction again",
}

// Unwrap returns the driver's error.
func (e *RaceError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, store.ErrConflict) true.
func (e *RaceError) Is(target error) bool { return target == store.ErrConflict }

// Race is for package conflict.
func (e *RaceError) Race() (status int, title string) {
	switch e.Kind {
	case Unique:
		return http.StatusConflict, "It exists already"
	case Exclusion:
		return http.StatusConflict, "It is taken already"
	case Check:
		return http.StatusConflict, "The limit is reached"
	case LockTimeout:
		return http.StatusLocked, "Somebody else is changing it"
	}
	return http.StatusConflict, "The state has changed"
}

// Retryable says whether the same transaction may succeed when it is run again.
func (e *RaceError) Retryable() bool { return e.Kind.Transient() || e.Kind == LockTimeout }

// UnknownError says that no answer came: the statement or the commit may have
// taken effect, may still do so, or never will. Do not undo, and do not repeat
// a change that must not happen twice; look first whether it is there, by a key
// that the change carries.
type UnknownError struct {
	Op string
	// Err is why the answer is missing.
	Err error
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%s: no answer, so it may or may not have taken effect: %v; look whether it has before you repeat it", e.Op, e.Err)
}

// Unwrap returns why the answer is missing.
func (e *UnknownError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, store.ErrUnknownOutcome) true.
func (e *UnknownError) Is(target error) bool { return target == store.ErrUnknownOutcome }

// Race is for package conflict.
func (e *UnknownError) Race() (status int, title string) {
	return http.StatusServiceUnavailable, "The outcome is not known"
}

// Retryable is false.
func (e *UnknownError) Retryable() bool { return false }

// Explain gives the error of a statement on h its type: *[RaceError],
// *[UnknownError], or an error that says that nothing was written. op is for the
// message. [Exec] does so by itself; Explain is for statements that are run by
// Handle.QueryRow, such as UPDATE … RETURNING.
//
// Inside a transaction a lost answer is no mystery: without a commit there is no
// effect.
func Explain(h Handle, op string, err error) error {
	if err == nil {
		return nil
	}
	if r := look(err); r.kind != None {
		return &RaceError{Op: op, Kind: r.kind, Code: r.code, Constraint: r.constraint, Err: err}
	}
	if !InTx(h) && answerLost(err) {
		return &UnknownError{Op: op, Err: err}
	}
	return fmt.Errorf("%s: nothing was written: %w", op, err)
}

// short is a statement on one line, as messages show it.
func short(query string) string {
	const limit = 120
	query = strings.Join(strings.Fields(query), " ")
	if runes := []rune(query); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return query
}
