package store

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// Telemetry names the OpenTelemetry providers; nil means the process-wide one.
//
// Spans are named "holdfast.store.<operation>". Counters:
// holdfast.store.operations (by outcome), holdfast.store.conflicts,
// holdfast.store.retries and holdfast.store.unknown_outcomes. Attributes are
// the backend, the operation, the condition and the outcome; keys are left out,
// because they may hold what must not leave the process.
type Telemetry struct {
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider
}

type operation int

const (
	opGet operation = iota
	opPut
	opDelete
	opList
	opBatch
	opAdd
	opDeleteMany
	opWatch
	operations
)

func (o operation) String() string {
	return [...]string{"get", "put", "delete", "list", "batch", "add", "delete_many", "watch"}[o]
}

type outcome int

const (
	outcomeOK outcome = iota
	outcomeNotFound
	outcomeConflict
	outcomeUnknown
	outcomeError
	outcomes
)

func (o outcome) String() string {
	return [...]string{"ok", "not_found", "conflict", "unknown", "error"}[o]
}

const kinds = int(backend.KindIfVersion) + 1

// telemetry holds the instruments and every attribute set, built once: an
// operation then allocates nothing for its counters.
type telemetry struct {
	tracer     trace.Tracer
	operations metric.Int64Counter
	conflicts  metric.Int64Counter
	retries    metric.Int64Counter
	unknowns   metric.Int64Counter

	names    [operations]string
	spanAttr [operations][kinds]trace.SpanStartEventOption
	counted  [operations][kinds][outcomes][]metric.AddOption
	plain    [operations][]metric.AddOption
}

const scope = "github.com/holdfast-dev/holdfast/store"

func newTelemetry(name string, t Telemetry) *telemetry {
	if t.Tracer == nil {
		t.Tracer = otel.GetTracerProvider()
	}
	if t.Meter == nil {
		t.Meter = otel.GetMeterProvider()
	}
	meter := t.Meter.Meter(scope)
	counter := func(name, unit, text string) metric.Int64Counter {
		// The API returns a usable no-op instrument beside its error, and
		// names and units here are constants: there is nothing to report.
		c, _ := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
		return c
	}
	tel := &telemetry{
		tracer:     t.Tracer.Tracer(scope),
		operations: counter("holdfast.store.operations", "{operation}", "Operations by backend, kind and outcome."),
		conflicts:  counter("holdfast.store.conflicts", "{conflict}", "Conditions that did not hold."),
		retries:    counter("holdfast.store.retries", "{retry}", "Attempts after the first."),
		unknowns:   counter("holdfast.store.unknown_outcomes", "{operation}", "Writes whose answer was lost and could not be settled."),
	}
	for op := range operations {
		tel.names[op] = "holdfast.store." + op.String()
		base := []attribute.KeyValue{attribute.String("holdfast.backend", name), attribute.String("holdfast.operation", op.String())}
		tel.plain[op] = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(base...))}
		for k := range kinds {
			withCond := append(base[:2:2], attribute.String("holdfast.condition", backend.Kind(k).String()))
			tel.spanAttr[op][k] = trace.WithAttributes(withCond...)
			for o := range outcomes {
				all := append(withCond[:3:3], attribute.String("holdfast.outcome", o.String()))
				tel.counted[op][k][o] = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(all...))}
			}
		}
	}
	return tel
}

// start opens the span of an operation; the returned function closes it and
// counts.
func (t *telemetry) start(ctx context.Context, op operation, k backend.Kind) (context.Context, func(error)) {
	if int(k) >= kinds {
		k = backend.KindNone
	}
	ctx, span := t.tracer.Start(ctx, t.names[op], t.spanAttr[op][k])
	return ctx, func(err error) {
		o := classify(err)
		add := t.counted[op][k][o]
		t.operations.Add(ctx, 1, add...)
		switch o {
		case outcomeConflict:
			t.conflicts.Add(ctx, 1, t.plain[op]...)
		case outcomeUnknown:
			t.unknowns.Add(ctx, 1, t.plain[op]...)
		}
		// A conflict or an absent key is an ordinary answer, not a fault.
		if span.IsRecording() {
			span.SetAttributes(attribute.String("holdfast.outcome", o.String()))
			if o == outcomeError || o == outcomeUnknown {
				span.RecordError(err)
				span.SetStatus(codes.Error, o.String())
			}
		}
		span.End()
	}
}

func (t *telemetry) retry(ctx context.Context, op operation) {
	t.retries.Add(ctx, 1, t.plain[op]...)
}

func classify(err error) outcome {
	switch {
	case err == nil:
		return outcomeOK
	case errors.Is(err, ErrUnknownOutcome):
		return outcomeUnknown
	case errors.Is(err, ErrConflict):
		return outcomeConflict
	case errors.Is(err, ErrNotFound):
		return outcomeNotFound
	}
	return outcomeError
}
