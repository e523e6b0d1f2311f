package backend

import (
	"errors"
	"fmt"
)

// The sentinels for errors.Is; the typed errors below carry the fields.
var (
	ErrNotFound       = errors.New("not found")
	ErrConflict       = errors.New("conflict")
	ErrUnknownOutcome = errors.New("unknown outcome")
	ErrUnsupported    = errors.New("not supported")
	ErrInvalid        = errors.New("invalid argument")
	ErrClosed         = errors.New("store is closed")
)

// NotFoundError says that the store answered that the key is absent.
type NotFoundError struct {
	Key string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("get %q: the key does not exist", e.Key) }

// Is makes errors.Is(err, ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// ConflictError says that the condition did not hold and that nothing was
// written by this call.
type ConflictError struct {
	Op     string // "put", "delete" or "batch"
	Key    string
	Wanted Condition
	// Found is the version that was there instead. It is empty if the key was
	// absent (Absent is set) or if the store did not say.
	Found  Version
	Absent bool
	// FoundNonce is the nonce of the found item where the backend knows it.
	// If it is the caller's own, an earlier attempt of the same request took
	// effect; package store turns that into ok.
	FoundNonce string
}

func (e *ConflictError) Error() string {
	found := "another version"
	switch {
	case e.Absent:
		found = "no such key"
	case e.Found != "":
		found = fmt.Sprintf("version %q", string(e.Found))
	}
	return fmt.Sprintf("%s %q with condition %s: found %s and wrote nothing; read the key again and repeat the change on the fresh value",
		e.Op, e.Key, e.Wanted, found)
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// UnknownOutcomeError says that the write may have taken effect, may still
// take effect, or never will. It is neither success nor conflict: do not undo,
// do not clean up, do not repeat a change that must not happen twice.
type UnknownOutcomeError struct {
	Op    string
	Key   string
	Cond  Condition
	Nonce string
	// Undurable says that the write did take effect and is visible, and that
	// it is unknown whether it survives a crash. Reading back can not settle
	// that.
	Undurable bool
	// Err is why the answer is missing.
	Err error
}

func (e *UnknownOutcomeError) Error() string {
	if e.Undurable {
		return fmt.Sprintf("%s %q with condition %s: it took effect but may not survive a crash: %v", e.Op, e.Key, e.Cond, e.Err)
	}
	return fmt.Sprintf("%s %q with condition %s: no answer, so it may or may not have taken effect: %v; read the key before acting on it",
		e.Op, e.Key, e.Cond, e.Err)
}

// Unwrap returns why the answer is missing.
func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrUnknownOutcome) true.
func (e *UnknownOutcomeError) Is(target error) bool { return target == ErrUnknownOutcome }

// UnsupportedError is the refusal of something that the backend cannot
// enforce. Nothing was written.
type UnsupportedError struct {
	Backend string
	Op      string
	Cond    Kind
}

func (e *UnsupportedError) Error() string {
	what := e.Op
	if e.Cond != KindNone {
		what += " with condition " + e.Cond.String()
	}
	return fmt.Sprintf("%s on the %s backend: it cannot enforce this, so nothing was done; use a backend that declares it", what, e.Backend)
}

// Is makes errors.Is(err, ErrUnsupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// InvalidError is a mistake in the call: a bad key, an empty version in an
// if-version condition, a value over the limit, a bad URL.
type InvalidError struct {
	Op   string
	What string
	Why  string
}

func (e *InvalidError) Error() string { return fmt.Sprintf("%s: %s: %s", e.Op, e.What, e.Why) }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// CorruptError says that what the store holds under the key is not what a
// writer put there: a torn or foreign value.
type CorruptError struct {
	Key string
	Why string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("read %q: the stored value is damaged (%s); restore it from a copy or delete the key", e.Key, e.Why)
}

// BoundsError says that a guarded add would have left the bounds. Nothing was
// written.
type BoundsError struct {
	Key      string
	Delta    int64
	Min, Max int64
	// Current is the value that the add met.
	Current int64
}

func (e *BoundsError) Error() string {
	return fmt.Sprintf("add %d to %q: the sum with %d would leave the bounds %d to %d; nothing was written",
		e.Delta, e.Key, e.Current, e.Min, e.Max)
}
