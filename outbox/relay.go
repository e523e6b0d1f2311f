package outbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/store"
)

// OnDead says what a dead letter means for later messages of its key.
type OnDead int

const (
	// BlockKey lets them wait until the dead letter is requeued or discarded.
	BlockKey OnDead = iota
	// SkipDead lets them go on: the order of the key has a hole.
	SkipDead
)

// RelayOptions are for [NewRelaySQL] and [NewRelayPgx]. The zero value is
// useful. Relays of one outbox should have the same OnDead.
type RelayOptions struct {
	// Lease is how long a claimed message is this relay's; publish is cancelled
	// after four fifths of it. 0 means 30 seconds. A crashed relay's messages
	// wait this long.
	Lease time.Duration
	// Poll is how long to wait when there is nothing to do; 0 means 200 ms. The
	// wait is drawn evenly between half of it and all of it. See [Relay.Wake].
	Poll time.Duration
	// Keys is how many keys (and messages without one) are claimed at once; 0
	// means 64. Run is how many messages of a key; 0 means 32.
	Keys, Run int
	// Parallel is how many keys are published at once; 0 means 8. Messages of
	// one key are published one after another.
	Parallel int
	// MaxTries is how often a message is tried before it becomes a dead letter;
	// 0 means 10. A crash in the middle counts as a try.
	MaxTries int
	// OnDead is what a dead letter means for later messages of its key.
	OnDead OnDead
	// Backoff is the wait after the first failure, doubled for each further one
	// up to MaxBackoff, and drawn evenly between half of it and all of it. 0
	// means 1 s and 1 min.
	Backoff, MaxBackoff time.Duration
	// Logger is told of failures (WARN), dead letters (ERROR) and lost leases
	// (WARN); nil means slog.Default().
	Logger *slog.Logger
}

func (o RelayOptions) withDefaults() RelayOptions {
	o.Lease = cmp.Or(max(o.Lease, 0), 30*time.Second)
	o.Poll = cmp.Or(max(o.Poll, 0), 200*time.Millisecond)
	o.Keys = cmp.Or(max(o.Keys, 0), 64)
	o.Run = cmp.Or(max(o.Run, 0), 32)
	o.Parallel = cmp.Or(max(o.Parallel, 0), 8)
	o.MaxTries = cmp.Or(max(o.MaxTries, 0), 10)
	o.Backoff = cmp.Or(max(o.Backoff, 0), time.Second)
	o.MaxBackoff = cmp.Or(max(o.MaxBackoff, 0), time.Minute)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// Delivery is a message on its way.
type Delivery struct {
	Message
	// ID grows along each key in the order of commits, and never repeats.
	ID int64
	// Try counts from 1. It is a hint: another relay may be at it as well.
	Try   int
	Added time.Time

	lane string
	// bad is why the row can not be delivered.
	bad error
}

// Publish hands a message to whoever it is for, and returns nil when they have
// it for good. It runs outside any transaction. When ctx ends the lease does:
// return soon, and do not send after it.
type Publish func(ctx context.Context, d Delivery) error

// Relay publishes the messages of an outbox. Use one of them from one goroutine;
// any number of relays may share an outbox.
type Relay struct {
	o       *Outbox
	h       guard.Handle
	publish Publish
	opts    RelayOptions
	// cursor is the lane behind which the next claim looks.
	cursor string
	wake   chan struct{}
}

// NewRelaySQL makes a relay on a database. It takes the database itself, because
// inside a transaction nothing may be published.
func NewRelaySQL(o *Outbox, db *sql.DB, publish Publish, opts RelayOptions) (*Relay, error) {
	return newRelay(o, guard.SQL(db, o.dialect), publish, opts)
}

// NewRelayPgx makes a relay on a PostgreSQL database.
func NewRelayPgx(o *Outbox, pool *pgxpool.Pool, publish Publish, opts RelayOptions) (*Relay, error) {
	return newRelay(o, guard.Pgx(pool), publish, opts)
}

func newRelay(o *Outbox, h guard.Handle, publish Publish, opts RelayOptions) (*Relay, error) {
	if h.Dialect() != o.dialect {
		return nil, &store.InvalidError{Op: "outbox relay", What: "database", Why: "it speaks another dialect than the outbox was made for"}
	}
	if publish == nil {
		return nil, &store.InvalidError{Op: "outbox relay", What: "publish", Why: "it is nil"}
	}
	return &Relay{o: o, h: h, publish: publish, opts: opts.withDefaults(), wake: make(chan struct{}, 1)}, nil
}

// Wake ends the wait of Run: call it after a commit in the same process, to have
// the message published without the delay of a poll.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends, and returns its cause. Messages that are claimed
// then and not published are given back. Errors of the database are logged and
// tried again.
func (r *Relay) Run(ctx context.Context) error {
	failures := 0
	for ctx.Err() == nil {
		stats, err := r.Once(ctx)
		wait := time.Duration(0)
		switch {
		case err != nil && ctx.Err() == nil:
			failures++
			wait = r.backoff(failures)
			r.opts.Logger.WarnContext(ctx, "outbox relay: the database did not answer, trying again", "table", r.o.table, "wait", wait, "error", err)
		case stats.Claimed == 0:
			failures, wait = 0, jitter(r.opts.Poll)
		default:
			failures = 0
		}
		if wait == 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	return context.Cause(ctx)
}

// jitter draws between half of d and all of it.
func jitter(d time.Duration) time.Duration { return d/2 + mathrand.N(d/2+1) }

func (r *Relay) backoff(failures int) time.Duration {
	d := r.opts.MaxBackoff
	if shift := failures - 1; shift < 30 && r.opts.Backoff<<shift < d {
		d = r.opts.Backoff << shift
	}
	return jitter(d)
}

// Stats are what one round came to.
type Stats struct {
	// Claimed messages were published, failed, became dead letters, or were
	// given back (the rest).
	Claimed, Published, Failed, Dead int
	// Lost counts messages whose lease had run out when the result was to be
	// written: they are published again, by whoever holds them now.
	Lost int
}

// Once claims messages, publishes them, and records what came of it. Claimed is
// 0 if there was nothing to do. An error is one of the database; what was
// published and could not be recorded is published again after the lease.
func (r *Relay) Once(ctx context.Context) (Stats, error) {
	// By the monotonic clock, from before the claim: the lease in the database
	// ends later than this.
	deadline := time.Now().Add(r.opts.Lease / 5 * 4)
	token := rand.Text()
	claimed, err := r.claimNext(ctx, token)
	if err != nil {
		return Stats{}, err
	}
	if len(claimed) == 0 {
		return Stats{}, nil
	}
	b := &batch{r: r, token: token}
	for _, lane := range claimed {
		b.stats.Claimed += len(lane)
	}
	pctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	lanes := make(chan []Delivery)
	var wg sync.WaitGroup
	for range r.opts.Parallel {
		wg.Go(func() {
			for lane := range lanes {
				b.publish(pctx, ctx, lane)
			}
		})
	}
	for _, lane := range claimed {
		lanes <- lane
	}
	close(lanes)
	wg.Wait()
	return b.record(ctx)
}

// claimNext claims behind the cursor, and goes on until something is claimed or
// all lanes have been looked at.
func (r *Relay) claimNext(ctx context.Context, token string) ([][]Delivery, error) {
	window := 16 * r.opts.Keys
	wrapped := r.cursor == ""
	for {
		from := r.cursor
		claimed, err := r.claim(ctx, token, from, window)
		if err != nil {
			return nil, fmt.Errorf("claim messages of outbox %s: %w", r.o.table, err)
		}
		if len(claimed) == r.opts.Keys {
			r.cursor = claimed[len(claimed)-1][0].lane
			return claimed, nil
		}
		// Not all that were asked for, so all lanes of the window were seen.
		var last string
		var n int
		if err := r.h.QueryRow(ctx, r.o.sql.scanned, from, window).Scan(&last, &n); err != nil {
			if len(claimed) > 0 {
				return claimed, nil
			}
			return nil, fmt.Errorf("look for messages of outbox %s: %w", r.o.table, err)
		}
		if r.cursor = last; n < window {
			r.cursor = ""
		}
		if len(claimed) > 0 || r.cursor == "" && wrapped {
			return claimed, nil
		}
		wrapped = wrapped || r.cursor == ""
	}
}

// claim claims for the time of the lease. Each lane that it returns has its
// messages in order; the lanes are in order too.
func (r *Relay) claim(ctx context.Context, token, after string, window int) (_ [][]Delivery, err error) {
	query := r.o.sql.claim
	if r.opts.OnDead == SkipDead {
		query = r.o.sql.claimSkipping
	}
	rows, err := r.h.Query(ctx, query, after, window, r.opts.Keys, r.opts.Run-1, token, r.opts.Lease.Milliseconds())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	lanes := map[string][]Delivery{}
	for rows.Next() {
		var d Delivery
		var header string
		var added int64
		if err := rows.Scan(&d.ID, &d.lane, &d.Topic, &header, &d.Payload, &d.Try, &added); err != nil {
			return nil, err
		}
		d.Header, d.bad = decodeHeader(d.ID, header)
		d.Key, d.Added = keyOf(d.lane), time.UnixMilli(added)
		lanes[d.lane] = append(lanes[d.lane], d)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	ordered := make([][]Delivery, 0, len(lanes))
	for _, name := range slices.Sorted(maps.Keys(lanes)) {
		lane := lanes[name]
		slices.SortFunc(lane, func(a, b Delivery) int { return cmp.Compare(a.ID, b.ID) })
		for i := range lane[1:] {
			lane[i+1].Try++ // the claim has counted the try of the first
		}
		ordered = append(ordered, lane)
	}
	return ordered, nil
}
