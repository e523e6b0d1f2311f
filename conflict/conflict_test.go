package conflict_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-dev/holdfast/conflict"
	"github.com/holdfast-dev/holdfast/httpcond"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/mem"
)

// lost is a race error of a mechanism.
type lost struct {
	status  int
	forever bool
}

func (l *lost) Error() string           { return "lost" }
func (l *lost) Race() (int, string)     { return l.status, "Lost it" }
func (l *lost) Retryable() bool         { return !l.forever }
func (l *lost) ETag() string            { return `"now"` }
func (l *lost) Problem() map[string]any { return map[string]any{"current": "paid", "status": 1} }

// counts reads the counter as "choice status" → number.
func counts(t *testing.T, reader sdkmetric.Reader) map[string]int64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
				get := func(k string) string {
					v, _ := p.Attributes.Value(attribute.Key(k))
					return v.String()
				}
				if get("holdfast.policy") != "test" || m.Name != "holdfast.conflict.choices" {
					t.Errorf("metric %s of policy %s", m.Name, get("holdfast.policy"))
				}
				out[get("holdfast.choice")+" "+get("http.response.status_code")] += p.Value
			}
		}
	}
	return out
}

func policy(opts conflict.Options) (*conflict.Policy, sdkmetric.Reader) {
	reader := sdkmetric.NewManualReader()
	opts.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	return conflict.New("test", opts), reader
}

func TestFind(t *testing.T) {
	conflicted := &store.ConflictError{Op: "put", Key: "k", Found: "v2"}
	unknown := &store.UnknownOutcomeError{Op: "put", Key: "k", Err: errors.New("cut")}
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "none"},
		{errors.New("other"), "none"},
		{conflicted, `412 retryable "v2"`},
		{fmt.Errorf("save: %w", conflicted), `412 retryable "v2"`},
		{&store.ExhaustedError{Key: "k", Last: conflicted}, `409 "v2"`},
		{&store.ExhaustedError{Key: "k", Last: &lost{status: 423}}, `423 "now"`},
		{unknown, "503 unknown"},
		{errors.Join(conflicted, unknown), "503 unknown"},
		{&store.BoundsError{Key: "k"}, "409"},
		{&lost{status: 423}, `423 retryable "now"`},
		{fmt.Errorf("x: %w", &lost{status: 409, forever: true}), `409 "now"`},
		{&httpcond.FailedError{Header: "If-Match", Current: httpcond.ETag{Opaque: "v9"}}, `412 "v9"`},
		{&httpcond.RequiredError{}, "428"},
		{&store.NotFoundError{Key: "k"}, "none"},
	} {
		s, ok := conflict.Find(c.err)
		got := "none"
		if ok {
			got = strconv.Itoa(s.Status)
			if s.Unknown {
				got += " unknown"
			}
			if s.Retryable {
				got += " retryable"
			}
			if s.ETag != "" {
				got += " " + s.ETag
			}
		}
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}

func TestRetry(t *testing.T) {
	p, reader := policy(conflict.Options{OnLost: conflict.Retry, Retry: store.Retry{Attempts: 4, Base: 1, Cap: 1}})
	run := func(results ...error) (int, error) {
		n := 0
		err := p.Do(t.Context(), "k", func(context.Context) error {
			n++
			return results[min(n, len(results))-1]
		})
		return n, err
	}
	if n, err := run(&lost{status: 409}, &store.ConflictError{}, nil); n != 3 || err != nil {
		t.Errorf("success at the third: %d attempts, %v", n, err)
	}
	n, err := run(&lost{status: 423})
	var exhausted *store.ExhaustedError
	var last *lost
	if n != 4 || !errors.As(err, &exhausted) || !errors.As(err, &last) {
		t.Errorf("never: %d attempts, %v", n, err)
	}
	// What another try repeats, or must not repeat, is not tried again.
	for _, once := range []error{
		&lost{status: 409, forever: true}, &httpcond.RequiredError{}, errors.New("other"),
		&store.UnknownOutcomeError{Op: "put", Err: errors.New("cut")}, &store.ExhaustedError{Last: &store.ConflictError{}},
		errors.Join(&store.ConflictError{}, &store.UnknownOutcomeError{Op: "put", Err: errors.New("cut")}),
	} {
		if n, err := run(once); n != 1 || !errors.Is(err, once) {
			t.Errorf("%v: %d attempts, %v", once, n, err)
		}
	}
	want := map[string]int64{"retry 409": 1, "retry 412": 1, "retry 423": 3, "surface 423": 1, "surface 409": 2, "surface 428": 1, "surface 503": 2}
	if got := counts(t, reader); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestRetryEndsWithTheContext(t *testing.T) {
	p, _ := policy(conflict.Options{OnLost: conflict.Retry, Retry: store.Retry{Attempts: store.UntilDeadline}})
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := p.Do(ctx, "k", func(context.Context) error {
		if n++; n == 3 {
			cancel()
		}
		return &lost{status: 409}
	})
	if n != 3 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d attempts, %v", n, err)
	}
}

func TestConverge(t *testing.T) {
	p, reader := policy(conflict.Options{OnLost: conflict.Converge,
		Accept: func(err error) bool { var l *lost; return !errors.As(err, &l) || !l.forever }})
	do := func(err error) error { return p.Do(t.Context(), "k", func(context.Context) error { return err }) }
	if err := do(&lost{status: 409}); err != nil {
		t.Errorf("accepted: %v", err)
	}
	for _, refused := range []error{&lost{status: 409, forever: true}, &lost{status: 422},
		&store.UnknownOutcomeError{Op: "put", Err: errors.New("cut")}, errors.New("other")} {
		if err := do(refused); !errors.Is(err, refused) {
			t.Errorf("%v was accepted", refused)
		}
	}
	want := map[string]int64{"converge 409": 1, "surface 409": 1, "surface 422": 1, "surface 503": 1}
	if got := counts(t, reader); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestProblems(t *testing.T) {
	answer := func(base string, method string, err error) (*http.Response, map[string]any) {
		p, _ := policy(conflict.Options{ProblemBase: base})
		w := httptest.NewRecorder()
		p.Handler(func(http.ResponseWriter, *http.Request) error { return err }).ServeHTTP(w, httptest.NewRequest(method, "/x", nil))
		var body map[string]any
		if w.Body.Len() > 0 {
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatalf("%s: %v", w.Body, err)
			}
		}
		return w.Result(), body
	}
	resp, body := answer("https://api.test/problems/", "POST", fmt.Errorf("pay: %w", &lost{status: 409}))
	if resp.StatusCode != 409 || resp.Header.Get("Content-Type") != "application/problem+json" || resp.Header.Get("ETag") != `"now"` ||
		body["type"] != "https://api.test/problems/lost-it" || body["title"] != "Lost it" || body["status"] != 409.0 ||
		body["current"] != "paid" || body["etag"] != `"now"` {
		t.Errorf("typed: %v %v", resp.Header, body)
	}
	_, body = answer("", "POST", &store.ConflictError{Op: "put", Key: "secret", Found: "v2"})
	if body["type"] != nil || body["title"] != "Precondition Failed" || body["etag"] != `"v2"` ||
		!strings.HasPrefix(body["detail"].(string), "The state has changed. ") {
		t.Errorf("about:blank: %v", body)
	}
	for err, want := range map[error]int{
		&httpcond.RequiredError{}:                          428,
		&httpcond.HeaderError{Header: "If-Match"}:          400,
		&store.NotFoundError{Key: "k"}:                     404,
		&store.UnknownOutcomeError{Err: errors.New("cut")}: 503,
		errors.New("password=hunter2"):                     500,
	} {
		resp, body := answer("", "POST", err)
		if resp.StatusCode != want || body["status"] != float64(want) || strings.Contains(fmt.Sprint(body), "hunter2") {
			t.Errorf("%v: %d %v", err, resp.StatusCode, body)
		}
	}
	if resp, body := answer("", "HEAD", &lost{status: 409}); resp.StatusCode != 409 || body != nil {
		t.Errorf("HEAD: %d %v", resp.StatusCode, body)
	}
}

// A decision is counted once, although it passes Do and Handler.
func TestCountedOnce(t *testing.T) {
	p, reader := policy(conflict.Options{})
	h := p.Handler(func(_ http.ResponseWriter, r *http.Request) error {
		return fmt.Errorf("outer: %w", p.Do(r.Context(), "k", func(context.Context) error { return &lost{status: 409} }))
	})
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil))
	if got := counts(t, reader); got["surface 409"] != 1 {
		t.Errorf("counted %v", got)
	}
}

func TestHandlerConverges(t *testing.T) {
	p, _ := policy(conflict.Options{OnLost: conflict.Converge})
	w := httptest.NewRecorder()
	p.Handler(func(http.ResponseWriter, *http.Request) error { return &lost{status: 409} }).ServeHTTP(w, httptest.NewRequest("POST", "/", nil))
	if w.Code != 204 {
		t.Errorf("answered %d", w.Code)
	}
}

// Sixteen writers add to one value by read and conditional write under the
// policy: none is lost, and every lost race shows in the metric.
func TestRetryLosesNothing(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	defer s.Close()
	p, reader := policy(conflict.Options{OnLost: conflict.Retry, Retry: store.Retry{Attempts: store.UntilDeadline, Base: 1000, Cap: 100_000}})
	var wg sync.WaitGroup
	var mu sync.Mutex
	tries := int64(0)
	const writers, each = 16, 25
	for range writers {
		wg.Go(func() {
			for range each {
				err := p.Do(t.Context(), "n", func(ctx context.Context) error {
					mu.Lock()
					tries++
					mu.Unlock()
					n, cond := 0, store.CreateOnly()
					item, err := s.Get(ctx, "n")
					if err == nil {
						n, _ = strconv.Atoi(string(item.Value))
						cond = store.IfVersion(item.Version)
					} else if !errors.Is(err, store.ErrNotFound) {
						return err
					}
					_, err = s.Put(ctx, "n", []byte(strconv.Itoa(n+1)), cond)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	item, err := s.Get(t.Context(), "n")
	if err != nil || string(item.Value) != strconv.Itoa(writers*each) {
		t.Errorf("value %s, %v, want %d", item.Value, err, writers*each)
	}
	if got := counts(t, reader); got["retry 412"] != tries-writers*each {
		t.Errorf("%d attempts for %d writes, counted %v", tries, writers*each, got)
	}
}
