package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
	"github.com/holdfast-dev/holdfast/store/mem"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

var errCut = errors.New("connection cut")

// cutting is a memory store whose answers get lost on demand.
type cutting struct {
	*mem.Backend
	mu   sync.Mutex
	puts int
	// cut decides, for the n-th put (from 1), whether it takes effect and
	// whether its answer is lost. after runs between effect and loss.
	cut   func(n int) (apply, lose bool)
	after func()
	// getErr fails reads.
	getErr error
	caps   *backend.Capabilities
}

func (c *cutting) Capabilities() backend.Capabilities {
	if c.caps != nil {
		return *c.caps
	}
	return c.Backend.Capabilities()
}

func (c *cutting) Get(ctx context.Context, key string) (backend.Item, error) {
	if c.getErr != nil {
		return backend.Item{}, c.getErr
	}
	return c.Backend.Get(ctx, key)
}

func (c *cutting) Put(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
	c.mu.Lock()
	c.puts++
	n := c.puts
	c.mu.Unlock()
	if c.cut == nil {
		return c.Backend.Put(ctx, req)
	}
	apply, lose := c.cut(n)
	if !apply {
		return "", c.lost("put", req.Key, req.Cond, req.Nonce)
	}
	v, err := c.Backend.Put(ctx, req)
	if lose {
		if c.after != nil {
			c.after()
		}
		return "", c.lost("put", req.Key, req.Cond, req.Nonce)
	}
	return v, err
}

func (c *cutting) lost(op, key string, cond backend.Condition, nonce string) error {
	return &backend.UnknownOutcomeError{Op: op, Key: key, Cond: cond, Nonce: nonce, Err: errCut}
}

func (c *cutting) Batch(ctx context.Context, ops []backend.Op) ([]backend.Version, error) {
	if _, err := c.Backend.Batch(ctx, ops); err != nil {
		return nil, err
	}
	return nil, c.lost("batch", ops[0].Key, ops[0].Cond, ops[0].Nonce)
}

func (c *cutting) Add(ctx context.Context, req backend.AddRequest) (int64, backend.Version, error) {
	if _, _, err := c.Backend.Add(ctx, req); err != nil {
		return 0, "", err
	}
	return 0, "", c.lost("add", req.Key, backend.None(), req.Nonce)
}

func loseFirst(apply bool) func(int) (bool, bool) {
	return func(n int) (bool, bool) { return apply || n > 1, n == 1 }
}

func TestLostAnswers(t *testing.T) {
	ctx := t.Context()
	seed := func(t *testing.T, c *cutting) store.Version {
		v, err := c.Backend.Put(ctx, backend.PutRequest{Key: "k", Value: []byte("old"), Nonce: backend.NewNonce()})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	blind := func(c *cutting, value string) {
		_, _ = c.Backend.Put(ctx, backend.PutRequest{Key: "k", Value: []byte(value), Nonce: backend.NewNonce()})
	}
	tests := []struct {
		name  string
		apply bool
		cond  func(v store.Version) store.Condition // v is the seeded version; nil cond: create-only on an absent key
		after func(c *cutting)
		want  error
		holds string
		puts  int
	}{
		{"create took effect", true, nil, nil, nil, "new", 1},
		{"create never arrived: not sent again", false, nil, nil, store.ErrUnknownOutcome, "", 1},
		{"create took effect and was deleted: not brought back", true, nil,
			func(c *cutting) { _ = c.Backend.Delete(ctx, backend.DeleteRequest{Key: "k"}) }, store.ErrUnknownOutcome, "", 1},
		{"if-version took effect", true, store.IfVersion, nil, nil, "new", 1},
		{"if-version never arrived: sent again", false, store.IfVersion, nil, nil, "new", 2},
		{"if-version took effect and was replaced", true, store.IfVersion,
			func(c *cutting) { blind(c, "theirs") }, store.ErrUnknownOutcome, "theirs", 1},
		{"blind write took effect", true, func(store.Version) store.Condition { return store.None() }, nil, nil, "new", 1},
		{"blind write never arrived: not sent again", false, func(store.Version) store.Condition { return store.None() }, nil,
			store.ErrUnknownOutcome, "old", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &cutting{Backend: mem.New(), cut: loseFirst(tt.apply)}
			s := store.New(c, store.Options{})
			cond := store.CreateOnly()
			if tt.cond != nil {
				cond = tt.cond(seed(t, c))
			}
			if tt.after != nil {
				c.after = func() { tt.after(c) }
			}
			v, err := s.Put(ctx, "k", []byte("new"), cond)
			if !errors.Is(err, tt.want) || (tt.want == nil && err != nil) {
				t.Fatalf("put: %v, want %v", err, tt.want)
			}
			if tt.want != nil && errors.Is(err, store.ErrConflict) {
				t.Error("an unknown outcome must not look like a conflict")
			}
			item, err := c.Backend.Get(ctx, "k")
			if string(item.Value) != tt.holds || (tt.holds != "" && err != nil) {
				t.Errorf("the key holds %q (%v), want %q", item.Value, err, tt.holds)
			}
			if tt.want == nil && item.Version != v {
				t.Errorf("put returned version %q, the key has %q", v, item.Version)
			}
			if c.puts != tt.puts {
				t.Errorf("%d requests were sent, want %d", c.puts, tt.puts)
			}
		})
	}
}

// The store is away: the caller learns unknown, and Resolve settles it later.
func TestResolveLater(t *testing.T) {
	ctx := t.Context()
	c := &cutting{Backend: mem.New(), cut: loseFirst(true), getErr: errors.New("no route")}
	s := store.New(c, store.Options{})
	_, err := s.Put(ctx, "k", []byte("new"), store.CreateOnly())
	var lost *store.UnknownOutcomeError
	if !errors.As(err, &lost) || !errors.Is(err, errCut) {
		t.Fatalf("put: %v, want an unknown outcome that wraps its cause", err)
	}
	if _, err := s.Resolve(ctx, lost); err == nil || errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("resolve while the store is away: %v, want the read's own error", err)
	}
	c.getErr = nil
	v, err := s.Resolve(ctx, lost)
	if err != nil || v == "" {
		t.Fatalf("resolve: %q, %v", v, err)
	}
	if _, err := s.Put(ctx, "k", []byte("newer"), store.IfVersion(v)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resolve(ctx, lost); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("resolve after the value was replaced: %v, want unknown", err)
	}
}

// A client library below the backend repeats a request on its own. The second
// meets the first one's effect; the caller must see success.
func TestRepeatedBelowIsNotAConflict(t *testing.T) {
	ctx := t.Context()
	c := &cutting{Backend: mem.New()}
	twice := &repeating{c}
	s := store.New(twice, store.Options{})
	v, err := s.Put(ctx, "k", []byte("x"), store.CreateOnly())
	if err != nil {
		t.Fatalf("create sent twice below: %v", err)
	}
	if _, err := s.Put(ctx, "k", []byte("y"), store.IfVersion(v)); err != nil {
		t.Fatalf("if-version sent twice below: %v", err)
	}
}

type repeating struct{ *cutting }

func (r *repeating) Put(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
	if _, err := r.Backend.Put(ctx, req); err != nil {
		return "", err
	}
	return r.Backend.Put(ctx, req)
}

func TestLostBatchAndAdd(t *testing.T) {
	ctx := t.Context()
	c := &cutting{Backend: mem.New()}
	s := store.New(c, store.Options{})
	vs, err := s.Batch(ctx, []store.Op{{Key: "a", Value: []byte("1")}, {Key: "b", Delete: true}})
	if err != nil || vs[0] == "" {
		t.Fatalf("a batch whose answer was lost: %v, %v", vs, err)
	}
	sum, v, err := s.Add(ctx, "n", 7, 0, 10)
	if err != nil || sum != 7 || v == "" {
		t.Fatalf("an add whose answer was lost: %d, %q, %v", sum, v, err)
	}
	if _, err := s.Batch(ctx, []store.Op{{Key: "b", Delete: true}}); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("a batch of deletes has no nonce to prove it: %v, want unknown", err)
	}
}

// A backend without conditions gets no conditional write, ever.
func TestUndeclaredIsRefused(t *testing.T) {
	c := &cutting{Backend: mem.New(), caps: &backend.Capabilities{Name: "plain"}}
	s := store.New(c, store.Options{})
	for _, cs := range storetest.Cases() {
		if cs.Name != "undeclared conditions are refused" && cs.Name != "empty version is refused" {
			continue
		}
		if err := storetest.RunCase(t.Context(), s, cs); err != nil {
			t.Errorf("%s: %v", cs.Name, err)
		}
	}
	_, err := s.Put(t.Context(), "k", nil, store.CreateOnly())
	var refused *store.UnsupportedError
	if !errors.As(err, &refused) || refused.Backend != "plain" || !strings.Contains(err.Error(), "create-only") {
		t.Errorf("put: %v, want a refusal that names backend and condition", err)
	}
}

func TestUpdateEnds(t *testing.T) {
	ctx := t.Context()
	t.Run("exhausted", func(t *testing.T) {
		s := store.New(mem.New(), store.Options{})
		var waits []time.Duration
		retry := store.Retry{Base: time.Microsecond, OnRetry: func(_ int, w time.Duration, _ error) { waits = append(waits, w) }}
		calls := 0
		_, err := s.Update(ctx, "k", retry, func(store.Item, bool) ([]byte, error) {
			calls++
			_, err := s.Put(ctx, "k", fmt.Append(nil, calls), store.None())
			return []byte("mine"), err
		})
		var out *store.ExhaustedError
		var last *store.ConflictError
		if !errors.As(err, &out) || !errors.As(err, &last) || out.Attempts != 5 || calls != 5 || len(waits) != 4 {
			t.Fatalf("update: %v after %d calls and %d waits, want 5 attempts and the last conflict", err, calls, len(waits))
		}
	})
	t.Run("deadline", func(t *testing.T) {
		s := store.New(mem.New(), store.Options{})
		ctx, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		calls := 0
		_, err := s.Update(ctx, "k", store.Retry{Attempts: store.UntilDeadline, Cap: time.Millisecond}, func(store.Item, bool) ([]byte, error) {
			calls++
			_, err := s.Put(ctx, "k", nil, store.None())
			return []byte("mine"), err
		})
		if !errors.Is(err, context.DeadlineExceeded) || calls <= 5 {
			t.Fatalf("update: %v after %d calls, want more than 5 and the deadline", err, calls)
		}
	})
	t.Run("unknown is not repeated", func(t *testing.T) {
		c := &cutting{Backend: mem.New(), cut: loseFirst(false)}
		s := store.New(c, store.Options{})
		calls := 0
		_, err := s.Update(ctx, "k", store.Retry{}, func(store.Item, bool) ([]byte, error) { calls++; return nil, nil })
		if !errors.Is(err, store.ErrUnknownOutcome) || calls != 1 {
			t.Fatalf("update: %v after %d calls, want unknown after one", err, calls)
		}
	})
	t.Run("failed read is not absence", func(t *testing.T) {
		c := &cutting{Backend: mem.New(), getErr: errors.New("no route")}
		s := store.New(c, store.Options{})
		_, err := s.Update(ctx, "k", store.Retry{}, func(store.Item, bool) ([]byte, error) {
			t.Error("change was called after a failed read")
			return nil, nil
		})
		if !errors.Is(err, c.getErr) {
			t.Fatalf("update: %v, want the read's error", err)
		}
	})
}

// plain hides the optional interfaces of the memory store.
type plain struct{ backend.Backend }

func (plain) Capabilities() backend.Capabilities {
	return backend.Capabilities{Name: "plain", Put: backend.Enforced{CreateOnly: true, IfVersion: true}, Delete: backend.Enforced{IfVersion: true}}
}

// The polled watch and the one-by-one bulk delete stand in for backends that
// have neither; the whole suite runs over them.
func TestFallbacks(t *testing.T) {
	s := store.New(plain{mem.New()}, store.Options{WatchInterval: time.Millisecond})
	defer s.Close()
	storetest.Run(t, s)
}

func TestClosed(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("get after close: %v", err)
	}
}

func TestTelemetry(t *testing.T) {
	ctx := t.Context()
	spans := tracetest.NewSpanRecorder()
	reader := sdkmetric.NewManualReader()
	c := &cutting{Backend: mem.New()}
	s := store.New(c, store.Options{Telemetry: store.Telemetry{
		Tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		Meter:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	}})
	_, _ = s.Put(ctx, "secret-key", nil, store.CreateOnly())
	_, _ = s.Put(ctx, "secret-key", nil, store.CreateOnly())
	_, _ = s.Update(ctx, "other", store.Retry{Attempts: 2, Base: 1}, func(store.Item, bool) ([]byte, error) {
		_, err := c.Backend.Put(ctx, backend.PutRequest{Key: "other", Nonce: backend.NewNonce()})
		return nil, err
	})
	c.cut = func(int) (bool, bool) { return false, true }
	_, _ = s.Put(ctx, "lost", nil, store.CreateOnly())

	var data metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &data); err != nil {
		t.Fatal(err)
	}
	totals := map[string]int64{}
	byOutcome := map[string]int64{}
	for _, m := range data.ScopeMetrics[0].Metrics {
		for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
			totals[m.Name] += p.Value
			if o, ok := p.Attributes.Value(attribute.Key("holdfast.outcome")); ok {
				byOutcome[o.AsString()] += p.Value
			}
		}
	}
	want := map[string]int64{"holdfast.store.operations": 7, "holdfast.store.conflicts": 3, "holdfast.store.retries": 1, "holdfast.store.unknown_outcomes": 1}
	for name, n := range want {
		if totals[name] != n {
			t.Errorf("%s = %d, want %d", name, totals[name], n)
		}
	}
	if byOutcome["conflict"] != 3 || byOutcome["unknown"] != 1 || byOutcome["not_found"] != 1 {
		t.Errorf("operations by outcome: %v", byOutcome)
	}
	for _, span := range spans.Ended() {
		if !strings.HasPrefix(span.Name(), "holdfast.store.") {
			t.Errorf("span %q", span.Name())
		}
		for _, a := range span.Attributes() {
			if strings.Contains(a.Value.String(), "secret") {
				t.Errorf("span attribute %s holds a key", a.Key)
			}
		}
	}
	if n := len(spans.Ended()); n != 7 {
		t.Errorf("%d spans ended, want 7", n)
	}
}
