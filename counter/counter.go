package counter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
)

// Bounds are the lowest and highest value, both inclusive. The zero value has
// none; then only overflow is refused.
type Bounds struct {
	low, high       int64
	hasLow, hasHigh bool
}

// AtLeast has a lowest value: AtLeast(0) for stock.
func AtLeast(low int64) Bounds { return Bounds{low: low, hasLow: true} }

// AtMost has a highest value.
func AtMost(high int64) Bounds { return Bounds{high: high, hasHigh: true} }

// Between has both: Between(0, limit) for a quota.
func Between(low, high int64) Bounds {
	return Bounds{low: low, high: high, hasLow: true, hasHigh: true}
}

// Range is the lowest and the highest value.
func (b Bounds) Range() (low, high int64) {
	low, high = math.MinInt64, math.MaxInt64
	if b.hasLow {
		low = b.low
	}
	if b.hasHigh {
		high = b.high
	}
	return low, high
}

func (b Bounds) check(op string) error {
	if low, high := b.Range(); low > high {
		return &store.InvalidError{Op: op, What: "bounds", Why: fmt.Sprintf("%d is above %d", low, high)}
	}
	return nil
}

// add is the sum, if it is within the bounds and does not overflow.
func (b Bounds) add(current, delta int64) (sum int64, ok bool) {
	low, high := b.Range()
	if delta > 0 && current > math.MaxInt64-delta || delta < 0 && current < math.MinInt64-delta {
		return 0, false
	}
	sum = current + delta
	return sum, sum >= low && sum <= high
}

// Result is the answer to a change.
type Result struct {
	// Applied says that the change was made; if not, it was refused because of
	// the bounds, and nothing was written.
	Applied bool
	// Value is the number after the change or, after a refusal, the one that it
	// met.
	Value int64
	// Delta is what was asked for.
	Delta  int64
	Bounds Bounds
}

// String says what happened.
func (r Result) String() string {
	if r.Applied {
		return fmt.Sprintf("%+d applied: now %d", r.Delta, r.Value)
	}
	low, high := r.Bounds.Range()
	return fmt.Sprintf("%+d refused: %d would leave %d to %d", r.Delta, r.Value, low, high)
}

// Err is nil if the change was applied, else *[RefusedError], for callers to whom
// a refusal is an error after all, such as a handler behind conflict.Policy.
func (r Result) Err() error {
	if r.Applied {
		return nil
	}
	return &RefusedError{Result: r}
}

// RefusedError is a refusal as an error.
type RefusedError struct{ Result Result }

func (e *RefusedError) Error() string { return e.Result.String() + "; nothing was written" }

// Race is for package conflict.
func (e *RefusedError) Race() (status int, title string) {
	return http.StatusConflict, "The limit is reached"
}

// Retryable is false: the answer holds until somebody gives back.
func (e *RefusedError) Retryable() bool { return false }

// Method is how a [Counter] changes its number.
type Method int

// The methods.
const (
	// Auto takes Native where the store has it.
	Auto Method = iota
	// Native is one guarded step of the store.
	Native
	// CompareAndSet reads, and writes if nobody else has written.
	CompareAndSet
)

// Options are for [New].
type Options struct {
	// Prefix is where the numbers are kept: the number id is at Prefix/id.
	Prefix string
	Bounds Bounds
	Method Method
	// Retry bounds compare-and-set. Attempts 0 means store.UntilDeadline here: of
	// 64 writers each round has one winner, so five tries are too few.
	Retry store.Retry
}

// Counter is a set of bounded numbers in a store. It is safe for concurrent use.
type Counter struct {
	s      *store.Store
	opts   Options
	native bool
}

// New returns the counter at Options.Prefix. A store that has neither Add nor
// create-only and if-version writes is refused with *store.UnsupportedError.
func New(s *store.Store, opts Options) (*Counter, error) {
	const op = "new counter"
	if err := checkPrefix(op, opts.Prefix); err != nil {
		return nil, err
	}
	if err := opts.Bounds.check(op); err != nil {
		return nil, err
	}
	opts.Retry = patient(opts.Retry)
	caps := s.Capabilities()
	c := &Counter{s: s, opts: opts, native: opts.Method == Native || opts.Method == Auto && caps.Add}
	if c.native && !caps.Add {
		return nil, &store.UnsupportedError{Backend: caps.Name, Op: op + " by native add"}
	}
	if !c.native {
		if err := checkConditions(caps, op); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func checkPrefix(op, prefix string) error {
	if err := backend.CheckKey(op, prefix); err != nil {
		return err
	}
	if strings.HasSuffix(prefix, "/") {
		return &store.InvalidError{Op: op, What: fmt.Sprintf("prefix %q", prefix), Why: "leave out the slash at the end"}
	}
	return nil
}

func checkConditions(caps store.Capabilities, op string) error {
	for _, kind := range []backend.Kind{backend.KindCreateOnly, backend.KindIfVersion} {
		if !caps.Put.Has(kind) {
			return &store.UnsupportedError{Backend: caps.Name, Op: op, Cond: kind}
		}
	}
	return nil
}

// patient tries until the deadline where the caller has not said how often, with
// waits that suit a step of about a millisecond.
func patient(r store.Retry) store.Retry {
	if r.Attempts == 0 {
		r.Attempts = store.UntilDeadline
	}
	if r.Base <= 0 {
		r.Base = time.Millisecond
	}
	if r.Cap <= 0 {
		r.Cap = 50 * time.Millisecond
	}
	return r
}

func (c *Counter) key(id string) string { return c.opts.Prefix + "/" + id }

// Add adds delta, which may be negative, to the number id if the sum is within
// the bounds. A number that is not there counts as zero.
//
// A refusal is a Result with Applied false. *store.UnknownOutcomeError says that
// the change may be in; *store.ExhaustedError (compare-and-set only) that it is
// not, because others were always faster.
func (c *Counter) Add(ctx context.Context, id string, delta int64) (Result, error) {
	r := Result{Delta: delta, Bounds: c.opts.Bounds}
	if c.native {
		low, high := c.opts.Bounds.Range()
		sum, _, err := c.s.Add(ctx, c.key(id), delta, low, high)
		if refused, ok := errors.AsType[*store.BoundsError](err); ok {
			r.Value = refused.Current
			return r, nil
		}
		r.Applied, r.Value = err == nil, sum
		return r, err
	}
	_, err := c.s.Update(ctx, c.key(id), c.opts.Retry, func(item store.Item, exists bool) ([]byte, error) {
		current, err := parse(item, exists)
		if err != nil {
			return nil, err
		}
		sum, ok := c.opts.Bounds.add(current, delta)
		if !ok {
			r.Value = current
			return nil, errRefused
		}
		r.Value = sum
		return strconv.AppendInt(nil, sum, 10), nil
	})
	if errors.Is(err, errRefused) {
		return r, nil
	}
	r.Applied = err == nil
	return r, err
}

// errRefused ends an update that the bounds refuse.
var errRefused = errors.New("refused")

// Value reads the number; one that is not there is zero.
func (c *Counter) Value(ctx context.Context, id string) (int64, error) {
	item, err := c.s.Get(ctx, c.key(id))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	return parse(item, err == nil)
}

func parse(item store.Item, exists bool) (int64, error) {
	if !exists {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(item.Value), 10, 64)
	if err != nil {
		return 0, &store.CorruptError{Key: item.Key, Why: fmt.Sprintf("a decimal integer is expected, not %.40q", item.Value)}
	}
	return n, nil
}
