package conflict

import (
	"errors"
	"net/http"

	"github.com/holdfast-dev/holdfast/httpcond"
	"github.com/holdfast-dev/holdfast/store"
)

// Race is what an error of a lost race has: the HTTP status that tells a client
// of it, and a short title in the sense of RFC 9457.
//
// An error may also have Retryable() bool (see [Signal]), ETag() string with the
// current tag as a header has it, and Problem() map[string]any with further
// members for the problem details.
type Race interface {
	error
	Race() (status int, title string)
}

// Signal is what an error says about a race.
type Signal struct {
	// Status is 409, 412, 422, 423, 428, or 503 for an unknown outcome.
	Status int
	Title  string
	// Unknown says that the write may have taken effect.
	Unknown bool
	// Retryable says that a new attempt on the fresh state may succeed. Without
	// a word from the error, 409, 412 and 423 are retryable.
	Retryable bool
	// ETag is the current tag where the error knows it.
	ETag string
	// Members are further members for the problem details.
	Members map[string]any
}

// Find looks for a lost race, or an unknown outcome, in err. An unknown outcome
// counts before everything else in the tree of err.
func Find(err error) (Signal, bool) {
	if err == nil {
		return Signal{}, false
	}
	s := Signal{}
	race, typed := errors.AsType[Race](err)
	lost, fromStore := errors.AsType[*store.ConflictError](err)
	switch {
	case errors.Is(err, store.ErrUnknownOutcome):
		return Signal{Status: http.StatusServiceUnavailable, Title: "The outcome is not known", Unknown: true}, true
	case typed:
		s.Status, s.Title = race.Race()
		s.Retryable = retryable(race, s.Status)
		s.describe(race)
	case fromStore:
		s.Status, s.Title, s.Retryable = http.StatusPreconditionFailed, "The state has changed", true
		s.ETag = httpcond.FromVersion(lost.Found).String()
	case errors.Is(err, store.ErrConflict):
		s.Status, s.Title, s.Retryable = http.StatusConflict, "The state has changed", true
	default:
		if _, ok := errors.AsType[*store.BoundsError](err); !ok {
			return Signal{}, false
		}
		s.Status, s.Title = http.StatusConflict, "The limit is reached"
	}
	if _, tried := errors.AsType[*store.ExhaustedError](err); tried {
		// The client may come again later; more tries at once are more of the same.
		s.Retryable = false
		if !typed {
			s.Status, s.Title = http.StatusConflict, "Too many are changing it at once"
		}
	}
	return s, true
}

func retryable(race Race, status int) bool {
	if r, ok := race.(interface{ Retryable() bool }); ok {
		return r.Retryable()
	}
	return status == http.StatusConflict || status == http.StatusPreconditionFailed || status == http.StatusLocked
}

func (s *Signal) describe(race Race) {
	if r, ok := race.(interface{ ETag() string }); ok {
		s.ETag = r.ETag()
	}
	if r, ok := race.(interface{ Problem() map[string]any }); ok {
		s.Members = r.Problem()
	}
}
