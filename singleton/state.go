package singleton

import (
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/store"
)

// Status is what became of a tick.
type Status string

// A tick is claimed before it is run. Vanished means that its runner lost the
// lease, and that it is not known how far it came.
const (
	Claimed  Status = "claimed"
	Done     Status = "done"
	Failed   Status = "failed"
	Vanished Status = "vanished"
)

// Entry is one tick that was claimed.
type Entry struct {
	Tick    time.Time   `json:"tick"`
	Status  Status      `json:"status"`
	Attempt int         `json:"attempt"`
	Token   lease.Token `json:"token"`
	Holder  string      `json:"holder"`
	// Started and Ended are by the clocks of those who wrote them.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Error   string    `json:"error,omitempty"`
}

// State is the record of a job.
type State struct {
	// Cursor: all ticks up to here are decided.
	Cursor time.Time `json:"cursor"`
	// Skipped is how many ticks were left out in all.
	Skipped int `json:"skipped"`
	// Last are the last ticks that were claimed, oldest first, at most 20.
	Last []Entry `json:"last"`
}

// remembered is how many entries a record keeps.
const remembered = 20

func (s State) encode() ([]byte, error) { return json.Marshal(s) }

func decode(key string, o lease.Object) (State, error) {
	var s State
	if err := json.Unmarshal(o.Value, &s); err != nil {
		return State{}, &store.CorruptError{Key: key, Why: "it is not the record of a job: " + err.Error()}
	}
	return s, nil
}

// open is the tick that is claimed and not over, or nil. There is at most one,
// because a claim is made by who holds the lease, after it has closed the one
// that it found.
func (s *State) open() *Entry {
	if n := len(s.Last); n > 0 && s.Last[n-1].Status == Claimed {
		return &s.Last[n-1]
	}
	return nil
}

func (s *State) claim(e Entry) {
	s.Last = append(s.Last, e)
	if n := len(s.Last); n > remembered {
		s.Last = s.Last[n-remembered:]
	}
}
