package idempotency

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"

	"github.com/holdfast-dev/holdfast/store"
)

// HTTPOptions are for [Keys.Handler]. The zero value is useful for one client;
// set Scope as soon as there are several.
type HTTPOptions struct {
	// Scope names whoever the key belongs to: the authenticated principal. nil
	// means that all clients share their keys, and that whoever sends another's
	// key and request gets the other's answer.
	Scope func(*http.Request) string
	// Key finds the key or the id of a delivery, where it is not in the header
	// Idempotency-Key. It gets the body that was read. An empty key means that
	// there is none.
	Key func(r *http.Request, body []byte) (string, error)
	// Optional lets requests without a key pass: each has its effect, in a
	// transaction. Otherwise they are refused with 400.
	Optional bool
	// Fingerprint tells requests apart; nil means method, path, query and body.
	// Return nil to compare nothing, for deliveries whose copies differ.
	Fingerprint func(r *http.Request, body []byte) []byte
	// Headers are the response headers that are recorded and replayed; nil
	// means [DefaultHeaders]. Others reach only the first caller.
	Headers []string
	// RecordRefusals records answers of 400 to 499, and commits what the handler
	// has written. Otherwise such a request is rolled back and its key stays
	// free: it had no effect, and a copy is judged anew.
	RecordRefusals bool
	// MaxBody and MaxAnswer bound the request's body, which is kept in memory
	// for the fingerprint, and the answer's, in bytes; 0 means 1 MiB. A longer
	// body is refused with 413; a longer answer is an error, and rolled back.
	MaxBody, MaxAnswer int64
	// Error answers what the handler returned, and what the database said; nil
	// means 500, or 503 where sending the request again may help, with a line in
	// Logger.
	Error func(w http.ResponseWriter, r *http.Request, err error)
	// Logger is told of errors; nil means slog.Default().
	Logger *slog.Logger
}

var defaultHeaders = []string{"Content-Type", "Content-Language", "Content-Encoding", "Location", "ETag", "Last-Modified", "Link", "Cache-Control"}

// DefaultHeaders returns the response headers that are recorded unless
// [HTTPOptions] say otherwise. Set-Cookie is not one of them: a copy may come
// from somebody else.
func DefaultHeaders() []string { return slices.Clone(defaultHeaders) }

// AnswerTooLargeError says that a handler has answered more than MaxAnswer.
// Everything was rolled back.
type AnswerTooLargeError struct{ Limit int64 }

func (e *AnswerTooLargeError) Error() string {
	return fmt.Sprintf("the answer is longer than %d bytes and was rolled back; raise MaxAnswer or answer with a link", e.Limit)
}

// Handler is middleware for net/http: it claims the key of each request, runs
// next in the transaction, records the answer, commits, and only then sends it.
// Copies get the recorded answer. What is refused is answered with problem
// details (RFC 9457): 400 without a key or with a bad one, 409 while the first
// request runs, 413 for a body over the limit, 422 for the same key with another
// request.
//
// next may run several times for one request, when the database breaks the
// transaction off; the body can be read each time, and what was written to w
// before is dropped. If it returns an error or answers with 400 or more (see
// RecordRefusals), the transaction is rolled back and the key stays free. w can
// not be flushed or hijacked: nothing may leave before the commit.
func (k *Keys[T]) Handler(opts HTTPOptions, next func(w http.ResponseWriter, r *http.Request, tx T) error) http.Handler {
	h := &handler[T]{k: k, opts: opts, next: next}
	if h.opts.Headers == nil {
		h.opts.Headers = defaultHeaders
	}
	h.opts.MaxBody = cmp.Or(h.opts.MaxBody, 1<<20)
	h.opts.MaxAnswer = cmp.Or(h.opts.MaxAnswer, 1<<20)
	if h.opts.Logger == nil {
		h.opts.Logger = slog.Default()
	}
	return h
}

type handler[T any] struct {
	k    *Keys[T]
	opts HTTPOptions
	next func(w http.ResponseWriter, r *http.Request, tx T) error
}

func (h *handler[T]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.opts.MaxBody))
	if err != nil {
		status, title := http.StatusBadRequest, "The request could not be read"
		if _, long := errors.AsType[*http.MaxBytesError](err); long {
			status, title = http.StatusRequestEntityTooLarge, "The request is too large"
		}
		h.problem(w, r, status, title, err)
		return
	}
	req, err := h.request(r, body)
	if err != nil {
		h.problem(w, r, http.StatusBadRequest, "The idempotency key is not valid", err)
		return
	}
	if req.Key == "" && !h.opts.Optional {
		h.problem(w, r, http.StatusBadRequest, "An idempotency key is required",
			fmt.Errorf("send a new unique value in the header %s with each new request, and the same one with each retry", HeaderName))
		return
	}
	var last *recorder
	effect := func(ctx context.Context, tx T) (Answer, error) {
		last = &recorder{header: http.Header{}, limit: h.opts.MaxAnswer}
		return h.run(ctx, last, r, body, tx)
	}
	var result Result
	if req.Key == "" {
		result, err = h.k.bare(r.Context(), effect)
	} else {
		result, err = h.k.Do(r.Context(), req, effect)
	}
	h.answer(w, r, result, last, err)
}

// request finds the key, the scope and the fingerprint.
func (h *handler[T]) request(r *http.Request, body []byte) (req Request, err error) {
	if h.opts.Key != nil {
		req.Key, err = h.opts.Key(r, body)
	} else {
		req.Key, err = ParseHeader(r.Header, HeaderName)
	}
	if err != nil || req.Key == "" {
		return req, err
	}
	if h.opts.Scope != nil {
		req.Scope = h.opts.Scope(r)
	}
	if h.opts.Fingerprint != nil {
		req.Fingerprint = h.opts.Fingerprint(r, body)
	} else {
		req.Fingerprint = Fingerprint([]byte(r.Method), []byte(r.URL.EscapedPath()), []byte(r.URL.RawQuery), body)
	}
	return req, req.check()
}

// refusal is an answer that is rolled back and not recorded.
type refusal struct{ status int }

func (e *refusal) Error() string {
	return fmt.Sprintf("the handler answered %d; rolled back", e.status)
}

func (h *handler[T]) run(ctx context.Context, rec *recorder, r *http.Request, body []byte, tx T) (Answer, error) {
	again := r.Clone(ctx)
	again.Body = io.NopCloser(bytes.NewReader(body))
	again.ContentLength = int64(len(body))
	if err := h.next(rec, again, tx); err != nil {
		return Answer{}, err
	}
	if rec.over {
		return Answer{}, &AnswerTooLargeError{Limit: h.opts.MaxAnswer}
	}
	rec.finish()
	if rec.status >= 500 || rec.status >= 400 && !h.opts.RecordRefusals {
		return Answer{}, &refusal{rec.status}
	}
	a := Answer{Status: rec.status, Body: rec.body.Bytes()}
	for _, name := range h.opts.Headers {
		for _, value := range rec.header.Values(name) {
			a.Header = append(a.Header, Field{Name: http.CanonicalHeaderKey(name), Value: value})
		}
	}
	return a, nil
}

// answer sends what came of it.
func (h *handler[T]) answer(w http.ResponseWriter, r *http.Request, result Result, last *recorder, err error) {
	if _, refused := errors.AsType[*refusal](err); refused || err == nil && !result.Replayed && !result.Settled {
		for name, values := range last.header {
			w.Header()[name] = values
		}
		h.send(w, r, last.status, last.body.Bytes())
		return
	}
	var race interface {
		Race() (status int, title string)
	}
	switch {
	case err == nil:
		for _, f := range result.Header {
			w.Header().Add(f.Name, f.Value)
		}
		if result.Replayed {
			w.Header().Set(ReplayedHeader, "true")
		}
		h.send(w, r, cmp.Or(result.Status, http.StatusOK), result.Body)
	case h.mine(err) && errors.As(err, &race):
		status, title := race.Race()
		if status == http.StatusConflict {
			w.Header().Set("Retry-After", "1")
		}
		h.problem(w, r, status, title, err)
	case h.opts.Error != nil:
		h.opts.Error(w, r, err)
	case errors.Is(err, store.ErrUnknownOutcome), transient(err):
		h.opts.Logger.ErrorContext(r.Context(), "idempotent request did not end", "error", err)
		w.Header().Set("Retry-After", "1")
		h.problem(w, r, http.StatusServiceUnavailable, "Service Unavailable", errors.New("send the same request again, with the same idempotency key"))
	default:
		h.opts.Logger.ErrorContext(r.Context(), "idempotent request failed", "error", err)
		h.problem(w, r, http.StatusInternalServerError, "Internal Server Error", errors.New("nothing was done"))
	}
}

// mine says whether err is one of this package's race errors: those of the
// handler's own code are for Options.Error.
func (h *handler[T]) mine(err error) bool {
	_, inProgress := errors.AsType[*InProgressError](err)
	_, mismatch := errors.AsType[*MismatchError](err)
	return inProgress || mismatch
}

func (h *handler[T]) problem(w http.ResponseWriter, r *http.Request, status int, title string, detail error) {
	body, err := json.Marshal(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{title, status, detail.Error()})
	if err != nil {
		h.opts.Logger.ErrorContext(r.Context(), "encode problem details", "error", err)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	h.send(w, r, status, append(body, '\n'))
}

func (h *handler[T]) send(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.WriteHeader(status)
	if status == http.StatusNoContent || status == http.StatusNotModified {
		return
	}
	if _, err := w.Write(body); err != nil {
		// The effect stands; the client asks again with its key.
		h.opts.Logger.WarnContext(r.Context(), "the answer could not be sent", "error", err)
	}
}

// recorder keeps an answer until the transaction has been committed.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
	limit  int64
	over   bool
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	// Informational answers can not be sent before the commit.
	if r.status == 0 && status >= 200 {
		r.status = status
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.over || int64(r.body.Len()+len(p)) > r.limit {
		r.over = true
		return 0, &AnswerTooLargeError{Limit: r.limit}
	}
	return r.body.Write(p)
}

// finish sets what net/http would set itself, so that it is recorded.
func (r *recorder) finish() {
	r.WriteHeader(http.StatusOK)
	if _, set := r.header["Content-Type"]; !set && r.body.Len() > 0 {
		r.header.Set("Content-Type", http.DetectContentType(r.body.Bytes()))
	}
}

// bare runs effect in a transaction, without a key.
func (k *Keys[T]) bare(ctx context.Context, effect func(ctx context.Context, tx T) (Answer, error)) (Result, error) {
	t, err := k.begin(ctx, nil)
	if err != nil {
		return Result{}, fmt.Errorf("begin: %w", err)
	}
	ended := false
	defer func() {
		if !ended {
			rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settlePatience)
			defer cancel()
			_ = t.rollback(rctx)
		}
	}()
	a, err := effect(ctx, t.tx)
	if err != nil {
		return Result{}, err
	}
	ended = true
	if err := t.commit(ctx, nil); err != nil {
		if refused(err) {
			return Result{}, fmt.Errorf("commit: %w", err)
		}
		return Result{}, &UnknownOutcomeError{Lost: err, Err: errors.New("the request has no key to read back")}
	}
	return Result{Answer: a}, nil
}
