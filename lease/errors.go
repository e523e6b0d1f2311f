package lease

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Token is a fencing token. Those of one lease grow with every acquisition;
// there may be gaps. 0 is none.
type Token int64

// ErrReleased is the cause of a lease's context after its release.
var ErrReleased = errors.New("the lease was released")

// HeldError says that somebody else holds what was wanted. Nothing was done.
type HeldError struct {
	Name string
	// Holder and Token are those of the present holder, where they are known.
	Holder string
	Token  Token
	// Remaining is for how long this process must still see the lease
	// unchanged before it may take it over. It is 0 for locks.
	Remaining time.Duration
	// Cause is the end of the wait: of the context, or the server's message.
	Cause error
}

func (e *HeldError) Error() string {
	who := "somebody else"
	if e.Holder != "" {
		who = fmt.Sprintf("%q (token %d)", e.Holder, e.Token)
	}
	text := fmt.Sprintf("acquire %q: %s holds it", e.Name, who)
	if e.Remaining > 0 {
		text += fmt.Sprintf(" and has %s to renew it", e.Remaining.Round(time.Millisecond))
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text + "; try again later"
}

// Unwrap returns the cause.
func (e *HeldError) Unwrap() error { return e.Cause }

// Race says how to answer a request that lost this race.
func (e *HeldError) Race() (status int, title string) {
	return http.StatusLocked, "Another holder has the lease"
}

// LostError says that a lease has ended without a release of its holder. What
// was written under it before is written; stop working.
type LostError struct {
	Name  string
	Token Token
	// Why is what was noticed.
	Why string
	// Holder and Current are those of the successor, where one was seen.
	Holder  string
	Current Token
	// Err is the last failure of a renewal, if that is why.
	Err error
}

func (e *LostError) Error() string {
	text := fmt.Sprintf("lease %q with token %d is lost: %s", e.Name, e.Token, e.Why)
	if e.Current != 0 {
		text += fmt.Sprintf(" (now %q with token %d)", e.Holder, e.Current)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text + "; stop, and acquire it again before going on"
}

// Unwrap returns the failure of the renewal.
func (e *LostError) Unwrap() error { return e.Err }

// Race says how to answer a request that lost this race.
func (e *LostError) Race() (status int, title string) {
	return http.StatusConflict, "The lease was lost to another holder"
}

// StaleError is the refusal of a write whose token is below one that was seen
// already. Nothing was written.
type StaleError struct {
	// What is the object, row or name that was to be written.
	What string
	// Token is that of the write, Seen the highest that was seen; Seen is 0
	// where it is not known.
	Token, Seen Token
}

func (e *StaleError) Error() string {
	seen := "a higher one"
	if e.Seen != 0 {
		seen = fmt.Sprintf("token %d", e.Seen)
	}
	return fmt.Sprintf("write %s with token %d: %s was seen already, so this holder's lease has passed and nothing was written; stop, and acquire the lease again before going on",
		e.What, e.Token, seen)
}

// Race says how to answer a request that lost this race.
func (e *StaleError) Race() (status int, title string) {
	return http.StatusPreconditionFailed, "A later holder of the lease has written already"
}

// RowMissingError says that there is no row whose fence could be checked.
// Nothing was written.
type RowMissingError struct {
	Table string
	Key   any
}

func (e *RowMissingError) Error() string {
	return fmt.Sprintf("check the fence of row %v in %s: there is no such row; insert it before the first guarded write", e.Key, e.Table)
}
