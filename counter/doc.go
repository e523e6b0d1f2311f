// Package counter adds to and subtracts from numbers that must stay within
// bounds - stock that is never negative, a quota that is never exceeded - however
// many do it at once.
//
// Which one to use:
//
//   - [Counter] for numbers in a store: one guarded step of the store where it has
//     one, else compare-and-set;
//   - [Sharded] for a number that so many change that they queue at it;
//   - [Column] for a number in a table of your own: UPDATE … SET n = n + $2 WHERE
//     n BETWEEN …;
//   - [Quota] where the number is first reserved and later confirmed or released,
//     and the holder may crash in between.
//
// # Promise
//
// A change and its check are one step, so the number never leaves its bounds, and
// every change that was answered Applied is in it exactly once. A refusal is an
// ordinary answer, [Result], and not an error: running out is no fault. An
// unknown outcome is *store.UnknownOutcomeError or *guard.UnknownError: the
// change may be in; adding it again may add it twice.
//
// How a sharded number keeps its bounds: each shard has its share of them, the
// shares add up to the whole, and each shard is guarded by itself. Where one
// shard's share is used up, one batch that is conditional on all shards moves
// what is left; a refusal is given only on a look at all shards that is known to
// be of one moment. What comes in from the side without a bound (new stock) is
// divided over all shards at once, where it is enough for that.
//
// How a quota outlives its holders: a reservation has an expiry, and whoever comes
// after that takes it away in the same write that gives its amount to somebody
// else. Confirm needs the reservation to be there still. So nothing is given twice
// even if the clocks disagree: with a wrong clock a reservation ends too early or
// too late, no more than that.
//
// # Limits
//
// All who use a number must use the same bounds; they are not stored. Sharded
// needs a store with Add and Batch, which files do not have. A Quota is one
// object per id: its writers take turns, and it grows with its open reservations
// (Options.MaxOpen).
package counter
