package idempotency

import (
	"fmt"
	"net/http"

	"github.com/holdfast-dev/holdfast/store"
)

// InProgressError says that another request with the same key has not ended.
// Nothing was done by this one; errors.Is(err, store.ErrConflict) is true.
type InProgressError struct {
	Scope, Key string
	// Err is what the database said, where it said something.
	Err error
}

func (e *InProgressError) Error() string {
	text := fmt.Sprintf("idempotency key %q: the first request with it is still being processed and nothing was done by this one; send it again later, with the same key", e.Key)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns what the database said.
func (e *InProgressError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, store.ErrConflict) true.
func (e *InProgressError) Is(target error) bool { return target == store.ErrConflict }

// Race is the HTTP status and title of the error.
func (e *InProgressError) Race() (status int, title string) {
	return http.StatusConflict, "A request with this idempotency key is being processed"
}

// MismatchError says that the key was used for another request. Nothing was
// done, and trying again will not help, so it is not store.ErrConflict.
type MismatchError struct {
	Scope, Key string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("idempotency key %q: it was used before for a request with other content and nothing was done; use a new key for a new request", e.Key)
}

// Race is the HTTP status and title of the error.
func (e *MismatchError) Race() (status int, title string) {
	return http.StatusUnprocessableEntity, "This idempotency key was used for another request"
}

// UnknownOutcomeError says that the effect may or may not have taken place: the
// answer to the commit was lost, and the key could not be read back in time.
// Sending the same request again with the same key finds out, and is safe.
type UnknownOutcomeError struct {
	Scope, Key string
	// Lost is why the answer to the commit is missing; Err is why reading back
	// did not help.
	Lost, Err error
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("idempotency key %q: no answer to the commit (%v), so the effect may or may not have taken place, and the key could not be read back (%v); send the same request again with the same key", e.Key, e.Lost, e.Err)
}

// Unwrap returns both causes.
func (e *UnknownOutcomeError) Unwrap() []error { return []error{e.Lost, e.Err} }

// Is makes errors.Is(err, store.ErrUnknownOutcome) true.
func (e *UnknownOutcomeError) Is(target error) bool { return target == store.ErrUnknownOutcome }

// TakenOverError says that a claim was lost: its lease had run out and another
// holder took the key. The completion was rejected. Whatever the late holder did
// outside the store has happened; its fencing token is old now.
// errors.Is(err, store.ErrConflict) is true.
type TakenOverError struct {
	Scope, Key string
	Fence      uint64
	Err        error
}

func (e *TakenOverError) Error() string {
	return fmt.Sprintf("idempotency key %q: the claim with fencing token %d was taken over after its lease and nothing was recorded; drop the result and ask for the answer of the new holder", e.Key, e.Fence)
}

// Unwrap returns the conflict of the store.
func (e *TakenOverError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, store.ErrConflict) true.
func (e *TakenOverError) Is(target error) bool { return target == store.ErrConflict }

// Race is the HTTP status and title of the error.
func (e *TakenOverError) Race() (status int, title string) {
	return http.StatusConflict, "Another worker has taken this request over"
}

// FullError says that an object holds as many unexpired keys as it may. Nothing
// was done: dropping a key that has not expired would let a copy of its request
// have a second effect.
type FullError struct {
	ID   string
	Keys int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("idempotency keys of object %q: it holds %d that have not expired and nothing was done; raise MaxKeys, or keep keys in a table of a database", e.ID, e.Keys)
}
