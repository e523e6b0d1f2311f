package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// batch is what one round has claimed, and what became of it.
type batch struct {
	r     *Relay
	token string

	mu    sync.Mutex
	stats Stats
	done  []int64
	// back are messages that were not tried, heads those among them whose try
	// the claim has counted.
	back, heads []int64
	failed      []failure
}

type failure struct {
	d   Delivery
	err error
}

// publish goes along one lane and stops at the first message that can not be
// published: the next one must not overtake it. pctx ends with the lease, ctx
// with the relay.
func (b *batch) publish(pctx, ctx context.Context, lane []Delivery) {
	for i, d := range lane {
		if pctx.Err() != nil {
			b.giveBack(lane[i:], i == 0)
			return
		}
		err := d.bad
		if err == nil && d.Try > b.r.opts.MaxTries {
			// A message that ends the process each time would do so for ever.
			err = fmt.Errorf("each of %d tries ended without a result: the relay crashed or was stopped for longer than its lease", d.Try-1)
		}
		if err == nil {
			err = b.r.publish(pctx, d)
		}
		if err == nil {
			b.mu.Lock()
			b.done = append(b.done, d.ID)
			b.mu.Unlock()
			continue
		}
		if ctx.Err() != nil {
			// The relay stops: that is no failure of the message.
			b.giveBack(lane[i:], i == 0)
			return
		}
		b.mu.Lock()
		b.failed = append(b.failed, failure{d, err})
		b.mu.Unlock()
		b.giveBack(lane[i+1:], false)
		return
	}
}

func (b *batch) giveBack(lane []Delivery, head bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, d := range lane {
		if i == 0 && head {
			b.heads = append(b.heads, d.ID)
		} else {
			b.back = append(b.back, d.ID)
		}
	}
}

// recordTime bounds the statements after the publishing. They run to their end
// also when the relay stops, so that its successor need not wait for the leases.
const recordTime = 10 * time.Second

// record writes what became of the messages, each statement on condition that
// the token is still there.
func (b *batch) record(ctx context.Context) (Stats, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	n, err := b.byID(ctx, b.r.o.sql.ack, b.done)
	if err == nil {
		b.stats.Published = int(n)
		b.lost(ctx, len(b.done)-int(n))
	}
	errs := []error{err}
	for _, f := range b.failed {
		errs = append(errs, b.fail(ctx, f))
	}
	_, err = b.byID(ctx, b.r.o.sql.release, b.back)
	errs = append(errs, err)
	for _, id := range b.heads {
		_, err := b.r.h.Exec(ctx, b.r.o.sql.unclaim, b.token, id)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return b.stats, fmt.Errorf("record what was published from outbox %s: %w", b.r.o.table, err)
	}
	return b.stats, nil
}

// chunk bounds the parameters of one statement.
const chunk = 256

// byID runs a statement on many ids. The list is filled up to a power of two, so
// that the driver's cache of prepared statements holds a few texts and not one
// for each length.
func (b *batch) byID(ctx context.Context, query string, ids []int64) (n int64, err error) {
	for len(ids) > 0 {
		part := ids[:min(chunk, len(ids))]
		ids = ids[len(part):]
		size := 1
		for size < len(part) {
			size *= 2
		}
		args := []any{b.token}
		for i := range size {
			args = append(args, part[min(i, len(part)-1)])
		}
		m, err := b.r.h.Exec(ctx, query+list(b.r.o.dialect, size), args...)
		if err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

func (b *batch) fail(ctx context.Context, f failure) error {
	state := 0
	if f.d.Try >= b.r.opts.MaxTries {
		state = 1
	}
	text := f.err.Error()
	if len(text) > 1000 {
		text = text[:1000]
	}
	n, err := b.r.h.Exec(ctx, b.r.o.sql.fail, b.r.backoff(f.d.Try).Milliseconds(), f.d.Try, state, plain(text), b.token, f.d.ID)
	if err != nil {
		return err
	}
	log := b.r.opts.Logger.With("table", b.r.o.table, "id", f.d.ID, "key", f.d.Key, "try", f.d.Try, "error", f.err)
	switch {
	case n == 0:
		b.lost(ctx, 1)
	case state == 1:
		b.stats.Dead++
		log.ErrorContext(ctx, "outbox message is a dead letter now; requeue or discard it", "blocks its key", b.r.opts.OnDead == BlockKey && f.d.Key != "")
	default:
		b.stats.Failed++
		log.WarnContext(ctx, "outbox message could not be published, trying again later")
	}
	return nil
}

func (b *batch) lost(ctx context.Context, n int) {
	if n == 0 {
		return
	}
	b.stats.Lost += n
	b.r.opts.Logger.WarnContext(ctx, "outbox relay: leases ran out before the results could be written; the messages are published again", "table", b.r.o.table, "messages", n)
}

// plain is text that a database takes: an error may hold anything.
func plain(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
}
