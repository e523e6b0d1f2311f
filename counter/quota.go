package counter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
)

// QuotaOptions are for [NewQuota].
type QuotaOptions struct {
	// Prefix is where the quotas are kept: the quota id is at Prefix/id.
	Prefix string
	// Limit is how much may be confirmed and reserved together. It is not
	// stored; all who use a quota must use the same.
	Limit int64
	// TTL is how long a reservation holds that does not say so itself; 0 means
	// one minute.
	TTL time.Duration
	// Keep is how long a confirmed reservation is remembered, so that a repeated
	// Confirm is recognised; 0 means ten minutes. At most the last 1,000 are
	// remembered.
	Keep time.Duration
	// MaxOpen is how many reservations of one quota may be open at once; 0 means
	// 10,000. They are in one object.
	MaxOpen int
	// Retry bounds compare-and-set; Attempts 0 means store.UntilDeadline.
	Retry store.Retry
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Quota hands out shares of a limited amount: reserve, then confirm or release.
// A share whose holder does neither goes back when its time is over. It is safe
// for concurrent use.
type Quota struct {
	s    *store.Store
	opts QuotaOptions
}

// maxRemembered bounds the confirmed reservations in an object.
const maxRemembered = 1000

// NewQuota returns the quotas at Options.Prefix of s, which must enforce
// create-only and if-version.
func NewQuota(s *store.Store, opts QuotaOptions) (*Quota, error) {
	const op = "new quota"
	if err := checkPrefix(op, opts.Prefix); err != nil {
		return nil, err
	}
	if opts.Limit < 0 || opts.TTL < 0 || opts.Keep < 0 || opts.MaxOpen < 0 {
		return nil, &store.InvalidError{Op: op, What: "options", Why: "a limit or a time is below zero"}
	}
	if err := checkConditions(s.Capabilities(), op); err != nil {
		return nil, err
	}
	if opts.TTL == 0 {
		opts.TTL = time.Minute
	}
	if opts.Keep == 0 {
		opts.Keep = 10 * time.Minute
	}
	if opts.MaxOpen == 0 {
		opts.MaxOpen = 10_000
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Retry = patient(opts.Retry)
	return &Quota{s: s, opts: opts}, nil
}

// share is one reservation in the object.
type share struct {
	Amount int64 `json:"n"`
	// Until is when an open one ends, or a confirmed one is forgotten.
	Until time.Time `json:"until"`
}

// state is the object of one quota.
type state struct {
	Used      int64            `json:"used"`
	Open      map[string]share `json:"open,omitempty"`
	Confirmed map[string]share `json:"confirmed,omitempty"`
}

// held is the amount of the open reservations.
func (st *state) held() (sum int64) {
	for _, s := range st.Open {
		sum += s.Amount
	}
	return sum
}

// Request is what to reserve.
type Request struct {
	// Amount must be above zero.
	Amount int64
	// ID names the reservation. Empty means a new random one; with one of your
	// own, a Reserve that is repeated after an unknown outcome gets the
	// reservation that it made.
	ID string
	// TTL is how long it holds; 0 means the quota's.
	TTL time.Duration
}

// Reservation is the answer to a request.
type Reservation struct {
	// Granted is false if there was not enough left; nothing was written then.
	Granted bool
	ID      string
	Amount  int64
	// Expires is when it ends by the clock of this process, unless it is
	// confirmed before.
	Expires time.Time
	// Left is what was left after it or, without a grant, before it.
	Left int64
}

// Err is nil if the reservation was granted, else *[QuotaError].
func (r Reservation) Err() error {
	if r.Granted {
		return nil
	}
	return &QuotaError{Asked: r.Amount, Left: r.Left}
}

// QuotaError is a refused reservation as an error.
type QuotaError struct{ Asked, Left int64 }

func (e *QuotaError) Error() string {
	return fmt.Sprintf("reserve %d: only %d left; nothing was written", e.Asked, e.Left)
}

// Race is for package conflict.
func (e *QuotaError) Race() (status int, title string) {
	return http.StatusConflict, "The limit is reached"
}

// Retryable is false: the answer holds until a reservation is released or
// expires.
func (e *QuotaError) Retryable() bool { return false }

// Reserve takes an amount out of the quota for a time. Not enough is a
// Reservation with Granted false. *store.UnknownOutcomeError says that the
// reservation may be there: repeat it under the same ID, or let it expire.
func (q *Quota) Reserve(ctx context.Context, quota string, req Request) (Reservation, error) {
	if req.Amount <= 0 {
		return Reservation{}, &store.InvalidError{Op: "reserve", What: fmt.Sprintf("amount %d", req.Amount), Why: "it must be above zero"}
	}
	if req.TTL < 0 {
		return Reservation{}, &store.InvalidError{Op: "reserve", What: fmt.Sprintf("time to live %s", req.TTL), Why: "it must not be below zero"}
	}
	if req.TTL == 0 {
		req.TTL = q.opts.TTL
	}
	if req.ID == "" {
		req.ID = backend.NewNonce()
	}
	var r Reservation
	err := q.change(ctx, quota, func(st *state, now time.Time) error {
		r = Reservation{ID: req.ID, Amount: req.Amount, Left: q.opts.Limit - st.Used - st.held()}
		for _, known := range []map[string]share{st.Open, st.Confirmed} {
			if s, ok := known[req.ID]; ok {
				if s.Amount != req.Amount {
					return &store.InvalidError{Op: "reserve", What: fmt.Sprintf("reservation %q", req.ID),
						Why: fmt.Sprintf("it is there with the amount %d, not %d", s.Amount, req.Amount)}
				}
				r.Granted, r.Expires = true, s.Until
				return errUnchanged
			}
		}
		if req.Amount > r.Left {
			return errUnchanged
		}
		if len(st.Open) >= q.opts.MaxOpen {
			return &store.InvalidError{Op: "reserve", What: fmt.Sprintf("quota %q", quota), Why: fmt.Sprintf("it has %d open reservations; split it, or raise MaxOpen", len(st.Open))}
		}
		r.Granted, r.Expires = true, now.Add(req.TTL)
		r.Left -= req.Amount
		st.Open[req.ID] = share{Amount: req.Amount, Until: r.Expires}
		return nil
	})
	if err != nil {
		r.Granted = false
	}
	return r, err
}

// Outcome is what became of a reservation.
type Outcome int

// The outcomes.
const (
	// Lapsed: it is not there (any more): it expired, was released, or never was.
	Lapsed Outcome = iota
	// Confirmed: its amount is used.
	Confirmed
	// Released: its amount went back.
	Released
)

// String is the outcome as a word.
func (o Outcome) String() string { return [...]string{"lapsed", "confirmed", "released"}[o] }

// Confirm makes a reservation final. Only Confirmed is a success; a repeated
// Confirm gets it too. Lapsed says that its time was over: the amount may belong
// to somebody else by now, so the work that it was for must not go ahead.
func (q *Quota) Confirm(ctx context.Context, quota, reservation string) (Outcome, error) {
	var out Outcome
	err := q.change(ctx, quota, func(st *state, now time.Time) error {
		if _, ok := st.Confirmed[reservation]; ok {
			out = Confirmed
			return errUnchanged
		}
		s, ok := st.Open[reservation]
		if !ok {
			out = Lapsed
			return errUnchanged
		}
		out = Confirmed
		delete(st.Open, reservation)
		st.Used += s.Amount
		st.Confirmed[reservation] = share{Amount: s.Amount, Until: now.Add(q.opts.Keep)}
		forgetOldest(st.Confirmed)
		return nil
	})
	if err != nil {
		out = Lapsed
	}
	return out, err
}

func forgetOldest(confirmed map[string]share) {
	for len(confirmed) > maxRemembered {
		oldest := ""
		for id, s := range confirmed {
			if oldest == "" || s.Until.Before(confirmed[oldest].Until) {
				oldest = id
			}
		}
		delete(confirmed, oldest)
	}
}

// Release gives a reservation back. Doing so twice, or after it expired, is
// harmless: Lapsed, and nothing changes. A confirmed one is not given back:
// Confirmed.
func (q *Quota) Release(ctx context.Context, quota, reservation string) (Outcome, error) {
	var out Outcome
	err := q.change(ctx, quota, func(st *state, _ time.Time) error {
		if _, ok := st.Confirmed[reservation]; ok {
			out = Confirmed
			return errUnchanged
		}
		if _, ok := st.Open[reservation]; !ok {
			out = Lapsed
			return errUnchanged
		}
		out = Released
		delete(st.Open, reservation)
		return nil
	})
	if err != nil {
		out = Lapsed
	}
	return out, err
}

// GiveBack lowers what is used, when confirmed amounts are free again: an order
// was cancelled, a file deleted. More than is used is refused. It is not
// recognised when repeated; call it as a part of something that happens once.
func (q *Quota) GiveBack(ctx context.Context, quota string, amount int64) (Result, error) {
	if amount <= 0 {
		return Result{}, &store.InvalidError{Op: "give back", What: fmt.Sprintf("amount %d", amount), Why: "it must be above zero"}
	}
	r := Result{Delta: -amount, Bounds: AtLeast(0)}
	err := q.change(ctx, quota, func(st *state, _ time.Time) error {
		r.Value, r.Applied = st.Used, amount <= st.Used
		if !r.Applied {
			return errUnchanged
		}
		st.Used -= amount
		r.Value = st.Used
		return nil
	})
	if err != nil {
		r.Applied = false
	}
	return r, err
}

// Usage is the state of a quota.
type Usage struct {
	// Used is confirmed, Held is reserved, Left is neither. Left is below zero if
	// the limit was lowered.
	Used, Held, Left int64
}

// Usage reads the state.
func (q *Quota) Usage(ctx context.Context, quota string) (Usage, error) {
	item, err := q.s.Get(ctx, q.opts.Prefix+"/"+quota)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Usage{}, err
	}
	st, err := q.read(item, err == nil, q.opts.Now())
	if err != nil {
		return Usage{}, err
	}
	held := st.held()
	return Usage{Used: st.Used, Held: held, Left: q.opts.Limit - st.Used - held}, nil
}

// errUnchanged ends a change that has nothing to write.
var errUnchanged = errors.New("unchanged")

// change is one guarded write of a quota's object: what has expired is taken out
// in the same write in which its amount may be given to somebody else.
func (q *Quota) change(ctx context.Context, quota string, f func(st *state, now time.Time) error) error {
	_, err := q.s.Update(ctx, q.opts.Prefix+"/"+quota, q.opts.Retry, func(item store.Item, exists bool) ([]byte, error) {
		now := q.opts.Now()
		st, err := q.read(item, exists, now)
		if err != nil {
			return nil, err
		}
		if err := f(st, now); err != nil {
			return nil, err
		}
		return json.Marshal(st)
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

func (q *Quota) read(item store.Item, exists bool, now time.Time) (*state, error) {
	st := &state{}
	if exists {
		if err := json.Unmarshal(item.Value, st); err != nil {
			return nil, &store.CorruptError{Key: item.Key, Why: "the state of a quota is expected: " + err.Error()}
		}
	}
	for _, shares := range []*map[string]share{&st.Open, &st.Confirmed} {
		if *shares == nil {
			*shares = map[string]share{}
		}
		maps.DeleteFunc(*shares, func(_ string, s share) bool { return !now.Before(s.Until) })
	}
	return st, nil
}

// Open lists the open reservations of a quota by their ids, in order.
func (q *Quota) Open(ctx context.Context, quota string) ([]Reservation, error) {
	item, err := q.s.Get(ctx, q.opts.Prefix+"/"+quota)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	st, err := q.read(item, err == nil, q.opts.Now())
	if err != nil {
		return nil, err
	}
	var out []Reservation
	for _, id := range slices.Sorted(maps.Keys(st.Open)) {
		s := st.Open[id]
		out = append(out, Reservation{Granted: true, ID: id, Amount: s.Amount, Expires: s.Until})
	}
	return out, nil
}
