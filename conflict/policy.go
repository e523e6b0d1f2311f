package conflict

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-dev/holdfast/store"
)

// Choice is what to do about a lost race.
type Choice int

// The choices.
const (
	// Surface returns the error.
	Surface Choice = iota
	// Retry runs the attempt again on the fresh state, within Options.Retry.
	Retry
	// Converge takes the other writer's result for the caller's own.
	Converge
)

// String is the choice as the metric has it.
func (c Choice) String() string {
	return [...]string{"surface", "retry", "converge"}[c]
}

// Options are for [New]. The zero value surfaces.
type Options struct {
	OnLost Choice
	// Retry bounds the attempts; its zero value is five, with full jitter.
	Retry store.Retry
	// Accept says, with Converge, which lost races may pass for a success; nil
	// accepts every one. What it does not accept is surfaced.
	Accept func(lost error) bool
	// Meter is where decisions are counted; nil is the process-wide provider.
	Meter metric.MeterProvider
	// ProblemBase is the address below which the problem types are described,
	// such as "https://api.example.com/problems/"; a type is it and the title in
	// lower case with dashes. Empty makes problems of type about:blank.
	ProblemBase string
}

// Policy applies one choice to the lost races of one kind of work. It is safe
// for concurrent use.
type Policy struct {
	name    string
	opts    Options
	choices metric.Int64Counter
}

// New makes a policy. name is its name in the metric: few, constant names, such
// as "orders.pay", and no ids.
func New(name string, opts Options) *Policy {
	if opts.Meter == nil {
		opts.Meter = otel.GetMeterProvider()
	}
	if opts.OnLost < Surface || opts.OnLost > Converge {
		opts.OnLost = Surface
	}
	// The API returns a usable no-op instrument beside its error, and the name
	// and unit are constants: there is nothing to report.
	c, _ := opts.Meter.Meter("github.com/holdfast-dev/holdfast/conflict").Int64Counter("holdfast.conflict.choices",
		metric.WithUnit("{choice}"), metric.WithDescription("What was done about lost races."))
	return &Policy{name: name, opts: opts, choices: c}
}

// Do runs attempt and applies the policy to a lost race. attempt reads the fresh
// state each time that it runs. what names the state in messages.
//
// It returns nil if the attempt succeeded, or if the race was lost and the
// policy accepts that. Otherwise the error is attempt's, for errors.As;
// *store.ExhaustedError is around it if retries did not help.
func (p *Policy) Do(ctx context.Context, what string, attempt func(context.Context) error) error {
	if p.opts.OnLost != Retry {
		return p.settle(ctx, attempt(ctx))
	}
	var last error
	retry := p.opts.Retry
	retry.OnRetry = func(n int, wait time.Duration, _ error) {
		s, _ := Find(last)
		p.count(ctx, Retry, s.Status)
		if p.opts.Retry.OnRetry != nil {
			p.opts.Retry.OnRetry(n, wait, last)
		}
	}
	err := store.RunRetry(ctx, what, retry, nil, func(ctx context.Context) error {
		last = attempt(ctx)
		if s, lost := Find(last); lost && s.Retryable {
			return &again{last}
		}
		if last != nil {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		err = last
	}
	return p.settle(ctx, err)
}

// errStop ends the loop with an error that must not be repeated.
var errStop = errors.New("stop")

// again makes the loop go on for a lost race, whatever its type.
type again struct{ error }

func (a *again) Unwrap() error        { return a.error }
func (a *again) Is(target error) bool { return target == store.ErrConflict }

// decided marks an error that was counted already.
type decided struct{ error }

func (d *decided) Unwrap() error { return d.error }

// settle surfaces or accepts what is left after the attempts.
func (p *Policy) settle(ctx context.Context, err error) error {
	s, lost := Find(err)
	if !lost {
		return err
	}
	if _, counted := errors.AsType[*decided](err); counted {
		return err
	}
	if p.accepts(s, err) {
		p.count(ctx, Converge, s.Status)
		return nil
	}
	p.count(ctx, Surface, s.Status)
	return &decided{err}
}

func (p *Policy) accepts(s Signal, err error) bool {
	// 422 and 428 are the caller's mistakes; no other writer made the state that
	// the caller wanted.
	if p.opts.OnLost != Converge || s.Unknown || s.Status == 422 || s.Status == 428 {
		return false
	}
	return p.opts.Accept == nil || p.opts.Accept(err)
}

func (p *Policy) count(ctx context.Context, c Choice, status int) {
	p.choices.Add(ctx, 1, metric.WithAttributes(
		attribute.String("holdfast.policy", p.name),
		attribute.String("holdfast.choice", c.String()),
		attribute.Int("http.response.status_code", status)))
}
