package postgres

import (
	"errors"
	"fmt"
)

// ErrGone is wrapped by the error of an operation on a step that the gate does
// not have (any more): delivered, or lost with its connection.
var ErrGone = errors.New("the step is gone")

// StepError is an operation that does not fit the state of its step.
type StepError struct {
	Op    string // "release", "resume", "deliver", "pass"
	ID    uint64
	State string // where the step stands
	Err   error  // ErrGone, or nil
}

func (e *StepError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s step %d: %v: it was delivered or its connection has ended", e.Op, e.ID, e.Err)
	}
	return fmt.Sprintf("%s step %d: the step is %s", e.Op, e.ID, e.State)
}

func (e *StepError) Unwrap() error { return e.Err }

// UnsupportedError names a part of PostgreSQL's protocol that the gate does not
// handle. The connection that used it has been ended.
type UnsupportedError struct{ What string }

func (e *UnsupportedError) Error() string {
	return "the PostgreSQL gate does not handle " + e.What +
		": the connection was ended; connect the application to the server directly for this"
}

// UpstreamError is a real server that can not be reached.
type UpstreamError struct {
	Addr string
	Err  error
}

func (e *UpstreamError) Error() string {
	return fmt.Sprintf("connect the gate to PostgreSQL at %s: %v: is the server running?", e.Addr, e.Err)
}

func (e *UpstreamError) Unwrap() error { return e.Err }
