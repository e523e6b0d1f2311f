package machine

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/httpcond"
	"github.com/holdfast-dev/holdfast/store"
)

// LostError says that the thing was not in the state that a transition starts
// from: somebody else has moved it. Nothing was written.
type LostError struct {
	Machine  string
	ID       string
	From, To State
	// Current is the state that was found after the attempt. It equals From if
	// the transition named a version, or further columns, that are out of date.
	Current State
	// Version is the current version of an object; empty for a row.
	Version store.Version
}

// Already says that somebody else has brought the thing to where this transition
// leads. Callers to whom that is as good can accept it (conflict.Converge).
func (e *LostError) Already() bool { return e.Current == e.To }

func (e *LostError) Error() string {
	return fmt.Sprintf("%s %s: %s → %s: it is %s now, somebody else was faster; nothing was written; decide anew from there",
		e.Machine, e.ID, e.From, e.To, e.Current)
}

// Is makes errors.Is(err, store.ErrConflict) true.
func (e *LostError) Is(target error) bool { return target == store.ErrConflict }

// Race is for package conflict.
func (e *LostError) Race() (status int, title string) {
	return http.StatusConflict, "The state has changed"
}

// Retryable is false: the same transition starts from a state that is gone.
func (e *LostError) Retryable() bool { return false }

// ETag is the current tag of an object, for the answer.
func (e *LostError) ETag() string { return httpcond.FromVersion(e.Version).String() }

// Problem adds the current state to problem details.
func (e *LostError) Problem() map[string]any {
	return map[string]any{"current": e.Current, "from": e.From, "to": e.To}
}

// IllegalError says that the table does not have a transition. From is empty for
// a thing that was to begin in a state that is not initial.
type IllegalError struct {
	Machine  string
	From, To State
	// Allowed is where From may lead.
	Allowed []State
}

func (e *IllegalError) Error() string {
	var allowed []string
	for _, s := range e.Allowed {
		allowed = append(allowed, string(s))
	}
	list := "nothing"
	if len(allowed) > 0 {
		list = strings.Join(allowed, ", ")
	}
	if e.From == "" {
		return fmt.Sprintf("%s: nothing begins as %q; allowed: %s", e.Machine, e.To, list)
	}
	return fmt.Sprintf("%s: there is no transition %s → %s; allowed from %s: %s", e.Machine, e.From, e.To, e.From, list)
}

// Race is for package conflict: the request makes no sense in this state.
func (e *IllegalError) Race() (status int, title string) {
	return http.StatusUnprocessableEntity, "There is no such transition"
}

// Retryable is false.
func (e *IllegalError) Retryable() bool { return false }
