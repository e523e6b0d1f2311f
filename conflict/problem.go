package conflict

import (
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/httpcond"
	"github.com/holdfast-dev/holdfast/store"
)

// Handler makes an http.Handler of a function that returns its errors. A lost
// race becomes an answer as [Policy.WriteProblem] makes it, or 204 if the policy
// converges. The function must not have begun its answer when it returns an
// error.
func (p *Policy) Handler(h func(w http.ResponseWriter, r *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		failed := h(w, r)
		if failed == nil {
			return
		}
		if err := p.settle(r.Context(), failed); err != nil {
			p.WriteProblem(w, r, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// advice is what a client is told to do, by status.
var advice = map[int]string{
	http.StatusBadRequest:           "Correct the request.",
	http.StatusNotFound:             "There is nothing at this address.",
	http.StatusConflict:             "Fetch the current state, and repeat the change if it still makes sense.",
	http.StatusPreconditionFailed:   "Fetch the resource, repeat the change on it, and send its ETag in If-Match.",
	http.StatusUnprocessableEntity:  "Correct the request; sending it again will not help.",
	http.StatusLocked:               "Try again in a moment.",
	http.StatusPreconditionRequired: "Fetch the resource and send its ETag in If-Match.",
	http.StatusServiceUnavailable:   "The change may or may not have been made. Look before you repeat it.",
	http.StatusInternalServerError:  "The server could not do it.",
}

// WriteProblem answers with problem details (RFC 9457): the race's status, title
// and members, and the current ETag in the header and the member "etag" where it
// is known. A malformed condition is 400 and an absent key 404. Other errors are
// 500, with nothing of them in the answer; they are logged by slog.
func (p *Policy) WriteProblem(w http.ResponseWriter, r *http.Request, err error) {
	s, lost := Find(err)
	if !lost {
		s = p.otherwise(r, err)
	}
	body := map[string]any{}
	maps.Copy(body, s.Members)
	body["status"] = s.Status
	body["detail"] = advice[s.Status]
	body["title"] = http.StatusText(s.Status)
	switch {
	case s.Title == "":
	case p.opts.ProblemBase != "":
		body["type"], body["title"] = p.opts.ProblemBase+slug(s.Title), s.Title
	default:
		// The title of about:blank is the status' own (RFC 9457, section 4.2.1).
		body["detail"] = s.Title + ". " + advice[s.Status]
	}
	h := w.Header()
	if s.ETag != "" {
		h.Set("ETag", s.ETag)
		body["etag"] = s.ETag
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(s.Status)
	if r.Method == http.MethodHead {
		return
	}
	// A client that has gone needs no answer.
	_ = json.NewEncoder(w).Encode(body)
}

func (p *Policy) otherwise(r *http.Request, err error) Signal {
	if _, malformed := errors.AsType[*httpcond.HeaderError](err); malformed {
		return Signal{Status: http.StatusBadRequest, Title: "A condition of the request is malformed"}
	}
	if errors.Is(err, store.ErrNotFound) {
		return Signal{Status: http.StatusNotFound}
	}
	slog.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "policy", p.name, "error", err)
	return Signal{Status: http.StatusInternalServerError}
}

func slug(title string) string {
	return strings.ReplaceAll(strings.ToLower(title), " ", "-")
}
