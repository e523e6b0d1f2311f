package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/holdfast-dev/holdfast/store"
)

// ShardedOptions are for [NewSharded].
type ShardedOptions struct {
	// Prefix is where the numbers are kept: shard n of the number id is at
	// Prefix/id/n.
	Prefix string
	// Bounds must have zero between them, because that is where a number starts.
	Bounds Bounds
	// Shards is how many keys share a number; 0 means 8. It must not change
	// while there are numbers: shards beyond it are not looked at.
	Shards int
	// Retry bounds the moving of what is left between shards; Attempts 0 means
	// store.UntilDeadline.
	Retry store.Retry
}

// Sharded is a set of bounded numbers, each spread over several keys, so that
// changes of one number do not queue at one key.
type Sharded struct {
	s    *store.Store
	opts ShardedOptions
	// shares are the bounds of each shard. Their sums are the bounds of the
	// whole, so shards that keep theirs keep those.
	shares []Bounds
}

// maxShards keeps a look at all shards cheap.
const maxShards = 1024

// NewSharded returns the numbers at Options.Prefix. The store must have Add and
// Batch; without Batch, what is left in several shards could not be brought
// together in one step, and a crash in between would lose it.
func NewSharded(s *store.Store, opts ShardedOptions) (*Sharded, error) {
	const op = "new sharded counter"
	if err := checkPrefix(op, opts.Prefix); err != nil {
		return nil, err
	}
	if err := opts.Bounds.check(op); err != nil {
		return nil, err
	}
	low, high := opts.Bounds.Range()
	if low > 0 || high < 0 {
		return nil, &store.InvalidError{Op: op, What: "bounds", Why: fmt.Sprintf("a number starts at zero, which is not between %d and %d", low, high)}
	}
	if opts.Shards == 0 {
		opts.Shards = 8
	}
	if opts.Shards < 0 || opts.Shards > maxShards {
		return nil, &store.InvalidError{Op: op, What: fmt.Sprintf("%d shards", opts.Shards), Why: fmt.Sprintf("use 1 to %d", maxShards)}
	}
	caps := s.Capabilities()
	switch {
	case !caps.Add:
		return nil, &store.UnsupportedError{Backend: caps.Name, Op: op + " (native add)"}
	case !caps.Batch:
		return nil, &store.UnsupportedError{Backend: caps.Name, Op: op + " (batch)"}
	}
	if err := checkConditions(caps, op); err != nil {
		return nil, err
	}
	opts.Retry = patient(opts.Retry)
	return &Sharded{s: s, opts: opts, shares: split(low, high, opts.Shards)}, nil
}

// split divides bounds so that the parts add up to them. Without bounds the
// whole range of int64 is divided, and the sum of all shards cannot overflow.
func split(low, high int64, n int) []Bounds {
	shares := make([]Bounds, n)
	for i := range shares {
		// Division rounds towards zero; the first shards take the rest.
		l, h := low/int64(n), high/int64(n)
		if int64(i) < -(low % int64(n)) {
			l--
		}
		if int64(i) < high%int64(n) {
			h++
		}
		shares[i] = Between(l, h)
	}
	return shares
}

func (c *Sharded) key(id string, shard int) string {
	return fmt.Sprintf("%s/%s/%d", c.opts.Prefix, id, shard)
}

// Add is [Counter.Add]. Result.Value after a change is not known here, because
// that would be a look at all shards, and is left zero; after a refusal it is the
// number at one moment.
func (c *Sharded) Add(ctx context.Context, id string, delta int64) (Result, error) {
	r := Result{Delta: delta, Bounds: c.opts.Bounds}
	if c.fromOpenSide(delta) {
		// New stock in one shard would leave the others empty.
		done, err := c.tryAll(ctx, id, &r)
		if done || err != nil && !errors.Is(err, store.ErrConflict) {
			return r, err
		}
	}
	// Two shards by chance: if both are used up, the number is probably near its
	// bound, and asking each shard in turn would cost more than looking at all.
	first := rand.IntN(len(c.shares))
	for try := range min(2, len(c.shares)) {
		done, err := c.tryOne(ctx, id, (first+try)%len(c.shares), &r)
		if done || err != nil {
			return r, err
		}
	}
	err := c.s.Retry(ctx, c.opts.Prefix+"/"+id, c.opts.Retry, func(ctx context.Context) error {
		_, err := c.tryAll(ctx, id, &r)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		// Others change shards all the time. One that can take all of it by
		// itself does not need the others to hold still.
		shards, _, cerr := c.collect(ctx, id)
		if cerr != nil {
			return cerr
		}
		done, oerr := c.tryOne(ctx, id, c.roomiest(shards, delta), &r)
		if done || oerr != nil {
			return oerr
		}
		return err
	})
	return r, err
}

// fromOpenSide says whether an amount comes in from the side that has no bound,
// and is large enough that every shard can have a part of it.
func (c *Sharded) fromOpenSide(delta int64) bool {
	n := int64(len(c.shares))
	b := c.opts.Bounds
	return n > 1 && (b.hasLow && !b.hasHigh && delta >= n || b.hasHigh && !b.hasLow && delta <= -n)
}

// tryOne changes one shard within its share of the bounds.
func (c *Sharded) tryOne(ctx context.Context, id string, shard int, r *Result) (done bool, err error) {
	low, high := c.shares[shard].Range()
	_, _, err = c.s.Add(ctx, c.key(id, shard), r.Delta, low, high)
	if _, refused := errors.AsType[*store.BoundsError](err); refused {
		return false, nil
	}
	r.Applied = err == nil
	return r.Applied, err
}

// tryAll divides the changed number evenly over all shards, in one batch that is
// conditional on every one of them: it takes effect only on the state that was
// read, all of it. A refusal is done as well.
func (c *Sharded) tryAll(ctx context.Context, id string, r *Result) (done bool, err error) {
	shards, total, err := c.collect(ctx, id)
	if err != nil {
		return false, err
	}
	sum, ok := c.opts.Bounds.add(total, r.Delta)
	if !ok {
		r.Value = total
		err := c.confirm(ctx, id, shards)
		return err == nil, err
	}
	_, err = c.s.Batch(ctx, c.spread(id, shards, sum))
	r.Applied = err == nil
	return r.Applied, err
}

// roomiest is the shard that is farthest from the bound that delta moves it to.
func (c *Sharded) roomiest(shards []number, delta int64) (best int) {
	room := func(i int) uint64 {
		low, high := c.shares[i].Range()
		if delta < 0 {
			return uint64(shards[i].n) - uint64(low)
		}
		return uint64(high) - uint64(shards[i].n)
	}
	for i := range shards {
		if room(i) > room(best) {
			best = i
		}
	}
	return best
}

// Value is the number at one moment. Where it changes all the time,
// *store.ExhaustedError says that no such moment was found; [Sharded.Sum] does
// without.
func (c *Sharded) Value(ctx context.Context, id string) (total int64, err error) {
	err = c.s.Retry(ctx, c.opts.Prefix+"/"+id, c.opts.Retry, func(ctx context.Context) error {
		var shards []number
		if shards, total, err = c.collect(ctx, id); err != nil {
			return err
		}
		return c.confirm(ctx, id, shards)
	})
	return total, err
}

// Sum adds the shards up, one after the other. While others change them, it may
// be a number that never was.
func (c *Sharded) Sum(ctx context.Context, id string) (int64, error) {
	_, total, err := c.collect(ctx, id)
	return total, err
}

// number is a shard as it was read; one that is not there has no version.
type number struct {
	n       int64
	version store.Version
}

// collect reads all shards, one after the other.
func (c *Sharded) collect(ctx context.Context, id string) (shards []number, total int64, err error) {
	shards = make([]number, len(c.shares))
	for i := range shards {
		item, err := c.s.Get(ctx, c.key(id, i))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, 0, err
		}
		n, perr := parse(item, err == nil)
		if perr != nil {
			return nil, 0, perr
		}
		shards[i] = number{n, item.Version}
		total += n
	}
	return shards, total, nil
}

// confirm reads all shards again. If each still has the version that it had,
// then between the two rounds all of them had it at once: versions never repeat,
// so a shard cannot have changed and come back.
//
// Counter-example for a single round, stock 1: a reader sees shard 0 empty;
// then one unit comes back to shard 0 and the one in shard 1 is sold; the reader
// sees shard 1 empty, and refuses although there was always one.
func (c *Sharded) confirm(ctx context.Context, id string, shards []number) error {
	again, _, err := c.collect(ctx, id)
	if err != nil {
		return err
	}
	for i := range shards {
		if again[i].version != shards[i].version {
			return &store.ConflictError{Op: "look at all shards", Key: c.key(id, i), Wanted: store.IfVersion(shards[i].version), Found: again[i].version}
		}
	}
	return nil
}

// spread divides a number evenly over the shards, within their shares.
func (c *Sharded) spread(id string, shards []number, sum int64) []store.Op {
	order := make([]int, len(shards))
	for i := range order {
		order[i] = i
	}
	// Differences of int64 fit into uint64 where they would overflow int64.
	span := func(i int) uint64 {
		low, high := c.shares[i].Range()
		return uint64(high) - uint64(low)
	}
	// The shares differ by one or two. With the smallest first, what does not fit
	// into one fits into those that follow.
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(span(a), span(b)) })
	low, _ := c.opts.Bounds.Range()
	rest := uint64(sum) - uint64(low)
	ops := make([]store.Op, 0, len(shards))
	for n, i := range order {
		left := uint64(len(order) - n)
		part := rest / left
		if rest%left > 0 {
			part++
		}
		part = min(part, span(i))
		rest -= part
		shardLow, _ := c.shares[i].Range()
		cond := store.CreateOnly()
		if shards[i].version != "" {
			cond = store.IfVersion(shards[i].version)
		}
		ops = append(ops, store.Op{Key: c.key(id, i), Value: strconv.AppendInt(nil, int64(uint64(shardLow)+part), 10), Cond: cond})
	}
	return ops
}
