// Package lease gives one holder at a time a named right for a bounded time,
// with a fencing token that lets the place of the write refuse a holder whose
// time has passed without its knowing.
//
// For most cases use [Manager.Do], and in it write through a [Guarded] object,
// [Lease.Write], or [Fence] inside the SQL transaction of the effect. A lease
// without a fence is a hint, not a lock:
//
//	A                          B
//	takes the lease
//	is paused (a stop, a long
//	collection, a slow disk)
//	                           sees it expired, takes it, writes, releases
//	goes on, writes            B's write is gone
//
// No check of A's before its write helps: the pause can come behind the check.
// So each acquisition has a [Token], higher than all before it, and the write
// carries it; what has seen B's token refuses A's, in the same atomic step.
//
// # Which one
//
//   - [Manager]: leases in a store; the holder may die or be paused.
//   - [Advisory]: a lock of a PostgreSQL session, released by the server when
//     the session ends, with a token from a table.
//   - [LockRows]: rows of the caller's transaction, waiting for a bounded time.
//   - [LockFile]: a lock among the processes of one machine, released by the
//     system when the holder dies; a stopped holder keeps it.
//   - [Ordered]: several leases in one order, so that no two callers wait for
//     each other.
//
// # The token
//
// Tokens of one lease grow with every acquisition, also over deletion and
// collection of the lease: they come in blocks from a counter that is kept
// apart (<prefix>/tokens) and is raised before a block is used. An absent lease
// is first created without a holder and takes its block after that. So every
// token of an earlier life of the lease was drawn before that life ended, that
// is before the new record existed, that is before the new block was drawn.
// Drawing the block before creating the record would not do: A draws 1 to 128;
// B draws 129 to 256, takes the lease with 129, releases, and the record is
// collected; A creates it anew and holds it with 1. Do not delete the counter.
// Its loss is noticed as long as the records are there, and not otherwise.
//
// # Where a stale write is refused
//
//   - Any store: a [Guarded] object carries the highest token that it has seen,
//     so the check and the write are one conditional write of one key. It
//     refuses from the moment the new holder has first loaded or saved it.
//   - Stores with batches: [Lease.Write] applies the writes together with a
//     renewal of the lease. It refuses from the moment the lease is taken over.
//   - SQL: [Fence], [Column] and [Exec] hold the token against a row, in the
//     caller's own transaction. Refused from the new holder's first use of the
//     row; with [Advisory] and [Fence] from the moment the lock is taken.
//
// # Clocks
//
// Two machines' clocks are never compared. Who waits for a lease takes it over
// when it has itself seen the same version of the record for the whole TTL, by
// its own monotonic clock; each renewal makes a new version. So a waiter that
// has just started waits out a full TTL even for a holder long dead. The
// holder counts its TTL from before it sent the last confirmed renewal, and
// gives up a tenth earlier. One assumption is left, that clocks run at rates
// within ten per cent of each other while a lease is held, and it concerns
// only how many work at once: a machine whose clock stands still (a suspended
// virtual machine) works on, and loses at the write.
//
// A database's clock would be the alternative where there is one. It needs one
// that all writers share, and steps of that clock end leases.
//
// # Outcomes
//
// Acquisition, renewal and release are conditional on the version that they
// replace, which never repeats. A late release therefore meets another version
// and frees nobody. When an answer is lost, the next look tells: a record with
// the claim of the lost attempt is taken over at once, a renewal that did take
// effect is found and continued, a release is tried again. An acquisition that
// ends unknown leaves at worst a lease that nobody uses until its TTL is over.
//
// # Limits
//
// The promise is as durable as the store: one that loses acknowledged writes
// in a crash, or is restored from an old copy, can hand out a token again.
// Waiters poll and are not served in order of arrival. The lease itself does
// not stop a holder's code; give it the context and let it stop. Effects that
// carry no token (a mail, a call to a service that knows no fence) can happen
// twice or late.
package lease
