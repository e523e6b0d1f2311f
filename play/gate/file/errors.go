package file

import (
	"errors"
	"fmt"
)

// UnsupportedError says that calls can not be held on this system, and why.
type UnsupportedError struct {
	// Reason names the system, kernel or container setting in the way.
	Reason string
	// Err is the system's own error, where there is one.
	Err error
}

func (e *UnsupportedError) Error() string {
	s := "hold file operations by seccomp user notification: " + e.Reason
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *UnsupportedError) Unwrap() error { return e.Err }

// NotCoveredError says that a program did something with a watched file that
// the gate can not hold. The run is inconclusive.
type NotCoveredError struct {
	Instance int
	// What was done, on which file.
	What, File string
	Err        error
}

func (e *NotCoveredError) Error() string {
	s := fmt.Sprintf("program %d: %s", e.Instance, e.What)
	if e.File != "" {
		s += " of " + e.File
	}
	s += " can not be held as a step"
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *NotCoveredError) Unwrap() error { return e.Err }

// ErrGone: the step is not there (any more).
var ErrGone = errors.New("no such step: it was delivered, or its process has ended")

// ErrOrder: the step is not in the state that the call needs.
var ErrOrder = errors.New("the step is not in the right state")

// StepError is what became of an operation on one step.
type StepError struct {
	Op  string
	ID  uint64
	Err error
}

func (e *StepError) Error() string { return fmt.Sprintf("%s step %d: %v", e.Op, e.ID, e.Err) }

func (e *StepError) Unwrap() error { return e.Err }

// StartError says that a program could not be brought behind the gate.
type StartError struct {
	Command []string
	Err     error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("start %q behind the file gate: %v", e.Command, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }
