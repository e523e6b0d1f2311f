package httpcond

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Current is the state of a resource as a handler has read it.
type Current struct {
	Exists  bool
	Version store.Version
	// ETag overrides the tag that is made of Version.
	ETag ETag
	// LastModified is optional.
	LastModified time.Time
}

// Of is the state that a store's Get returned. Only *store.NotFoundError means
// that nothing is there; every other error is returned, because a read that
// failed must not pass for an absent resource.
func Of(item store.Item, err error) (Current, error) {
	switch {
	case err == nil:
		return Current{Exists: true, Version: item.Version}, nil
	case errors.Is(err, store.ErrNotFound):
		return Current{}, nil
	}
	return Current{}, err
}

// Tag is the current tag.
func (c Current) Tag() ETag {
	if c.ETag != (ETag{}) {
		return c.ETag
	}
	return FromVersion(c.Version)
}

// SetHeaders writes ETag and Last-Modified.
func (c Current) SetHeaders(h http.Header) {
	if t := c.Tag(); t != (ETag{}) && c.Exists {
		h.Set("ETag", t.String())
	}
	if !c.LastModified.IsZero() && c.Exists {
		h.Set("Last-Modified", c.LastModified.UTC().Format(http.TimeFormat))
	}
}

// Preconditions are those of one request.
type Preconditions struct {
	// IfMatch and IfNoneMatch are nil where the header is absent.
	IfMatch, IfNoneMatch *List
	// The dates are zero where the header is absent or, as section 13.1 has it,
	// to be ignored because it is no date.
	IfModifiedSince, IfUnmodifiedSince time.Time

	method   string
	required bool
}

// HeaderError says that a condition is malformed (400).
type HeaderError struct {
	Header, Value string
	Err           error
}

func (e *HeaderError) Error() string {
	return fmt.Sprintf("header %s %q is malformed: %v; send a list of entity tags, or *", e.Header, e.Value, e.Err)
}

// Unwrap returns what is wrong.
func (e *HeaderError) Unwrap() error { return e.Err }

// FailedError says that a condition of the request does not hold (412).
type FailedError struct {
	// Header is the condition.
	Header string
	// Current is the tag of what is there; empty if nothing is.
	Current ETag
}

func (e *FailedError) Error() string {
	there := "there is nothing"
	if e.Current != (ETag{}) {
		there = "it is " + e.Current.String()
	}
	return fmt.Sprintf("%s does not hold: %s; nothing was written; fetch the resource and repeat the change on it", e.Header, there)
}

// Is makes errors.Is(err, store.ErrConflict) true.
func (e *FailedError) Is(target error) bool { return target == store.ErrConflict }

// Race is for package conflict.
func (e *FailedError) Race() (status int, title string) {
	return http.StatusPreconditionFailed, "The state has changed"
}

// Retryable is false: the client has to look at what is there now.
func (e *FailedError) Retryable() bool { return false }

// ETag is the current tag, for the answer.
func (e *FailedError) ETag() string { return e.Current.String() }

// RequiredError says that the request must carry a condition and does not
// (428, RFC 6585).
type RequiredError struct {
	// Current is the tag of what is there.
	Current ETag
}

func (e *RequiredError) Error() string {
	return "the request has no If-Match: a change without it could overwrite somebody else's; fetch the resource and send its ETag (or If-None-Match: * to create it)"
}

// Race is for package conflict.
func (e *RequiredError) Race() (status int, title string) {
	return http.StatusPreconditionRequired, "The change must name the state that it is based on"
}

// Retryable is false.
func (e *RequiredError) Retryable() bool { return false }

// ETag is the current tag, for the answer.
func (e *RequiredError) ETag() string { return e.Current.String() }

// Parse reads the conditions of a request.
func Parse(r *http.Request) (Preconditions, error) {
	p := Preconditions{method: r.Method}
	for name, into := range map[string]**List{"If-Match": &p.IfMatch, "If-None-Match": &p.IfNoneMatch} {
		lines := r.Header.Values(name)
		if lines == nil {
			continue
		}
		l, err := ParseList(lines)
		if err != nil {
			return Preconditions{}, &HeaderError{Header: name, Value: fmt.Sprint(lines), Err: err}
		}
		*into = &l
	}
	p.IfModifiedSince = date(r.Header, "If-Modified-Since")
	p.IfUnmodifiedSince = date(r.Header, "If-Unmodified-Since")
	return p, nil
}

// date is zero unless the header is one valid date.
func date(h http.Header, name string) time.Time {
	lines := h.Values(name)
	if len(lines) != 1 {
		return time.Time{}
	}
	t, err := http.ParseTime(lines[0])
	if err != nil {
		return time.Time{}
	}
	return t
}

// Require makes [Preconditions.ForWrite] refuse a request that has neither
// If-Match nor If-None-Match.
func (p Preconditions) Require() Preconditions {
	p.required = true
	return p
}

// Outcome is what the conditions say about a request.
type Outcome int

// The outcomes.
const (
	Proceed     Outcome = iota
	NotModified         // answer 304
	Failed              // answer 412
)

// Check evaluates the conditions in the order of RFC 9110, section 13.2.2, and
// names the header that decided.
func (p Preconditions) Check(cur Current) (Outcome, string) {
	switch p.method {
	case http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return Proceed, "" // section 13.2.1
	}
	reads := p.method == http.MethodGet || p.method == http.MethodHead || p.method == ""
	modified := cur.LastModified.Truncate(time.Second)
	switch {
	case p.IfMatch != nil:
		if !p.IfMatch.matches(cur, ETag.StrongMatch) {
			return Failed, "If-Match"
		}
	case !p.IfUnmodifiedSince.IsZero() && !modified.IsZero():
		if modified.After(p.IfUnmodifiedSince) {
			return Failed, "If-Unmodified-Since"
		}
	}
	switch {
	case p.IfNoneMatch != nil:
		if p.IfNoneMatch.matches(cur, ETag.WeakMatch) {
			if reads {
				return NotModified, "If-None-Match"
			}
			return Failed, "If-None-Match"
		}
	case reads && !p.IfModifiedSince.IsZero() && !modified.IsZero():
		if !modified.After(p.IfModifiedSince) {
			return NotModified, "If-Modified-Since"
		}
	}
	return Proceed, ""
}

// ForWrite evaluates the conditions against what was read, and returns the
// condition for the write. If the request has conditions that hold, the write
// is tied to the very state that they were evaluated on: IfVersion of what was
// read, or CreateOnly if nothing was there. So "*" and lists of tags are as safe
// as one tag.
//
// *[FailedError] says that a condition does not hold, *[RequiredError] that
// there is none although [Preconditions.Require] was called.
func (p Preconditions) ForWrite(cur Current) (store.Condition, error) {
	outcome, header := p.Check(cur)
	if outcome != Proceed {
		e := &FailedError{Header: header}
		if cur.Exists {
			e.Current = cur.Tag()
		}
		return store.Condition{}, e
	}
	tagged := p.IfMatch != nil || p.IfNoneMatch != nil
	switch {
	case !tagged && p.required:
		return store.Condition{}, &RequiredError{Current: cur.Tag()}
	case !tagged && p.IfUnmodifiedSince.IsZero():
		return store.None(), nil
	case cur.Exists:
		return store.IfVersion(cur.Version), nil
	}
	return store.CreateOnly(), nil
}

// Read does what a GET or HEAD handler does before its body: it sets ETag and
// Last-Modified, and answers 304 if the client has this state already (done).
// A condition that does not hold is *[FailedError], a malformed one
// *[HeaderError]; nothing was answered then.
func Read(w http.ResponseWriter, r *http.Request, cur Current) (done bool, err error) {
	p, err := Parse(r)
	if err != nil {
		return false, err
	}
	outcome, header := p.Check(cur)
	if outcome == Failed {
		return false, &FailedError{Header: header, Current: cur.Tag()}
	}
	cur.SetHeaders(w.Header())
	if outcome != NotModified {
		return false, nil
	}
	// A 304 has no body, so nothing that describes one (section 15.4.5).
	for _, name := range []string{"Content-Type", "Content-Length", "Content-Encoding"} {
		w.Header().Del(name)
	}
	w.WriteHeader(http.StatusNotModified)
	return true, nil
}

// RangeHolds says whether a Range header may be obeyed: there is no If-Range, or
// it names this state by strong comparison (section 13.1.5). If it does not
// hold, the whole resource is sent.
func RangeHolds(r *http.Request, cur Current) bool {
	value := r.Header.Get("If-Range")
	if value == "" {
		return true
	}
	if t, err := ParseETag(value); err == nil {
		return cur.Exists && cur.Tag().StrongMatch(t)
	}
	at, err := http.ParseTime(value)
	return err == nil && cur.Exists && !cur.LastModified.IsZero() && cur.LastModified.Truncate(time.Second).Equal(at)
}
