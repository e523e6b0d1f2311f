// Package idempotency lets a request that arrives several times - a double
// click, a client that retries, a queue or a webhook that delivers at least
// once - have its effect exactly once.
//
// For most cases use [NewPgx] or [NewSQL] with [Keys.Handler] for HTTP requests
// that carry an Idempotency-Key, and with [Keys.Consume] for deliveries with an
// id. Use [Table] inside a transaction that you run yourself, [Objects] where
// the effect is a change of one object in a store, and [Claims] only where the
// effect is elsewhere, because it promises less.
//
// # Model
//
// A key belongs to one request. The first one to arrive claims the key, has its
// effect and records its answer; a later one gets the recorded answer, byte for
// byte. The claim is written in the same transaction as the effect:
//
//	BEGIN; INSERT key; effect; UPDATE key SET answer; COMMIT
//
// The obvious alternatives are both wrong. "Look for the key, then act, then
// write it" lets two copies look before either has written. "Write the key in
// its own transaction, then act" loses the request when the process dies in
// between: the key is taken, and nothing has happened. In one transaction the
// unique index decides between copies, and a crash takes the key back together
// with the half-done effect: there is no key of a crashed holder to recover.
//
// # Promise
//
//   - One committed effect for each (scope, key) until the key expires, whatever
//     is killed when, on PostgreSQL, SQLite and MySQL.
//   - A copy that comes while the first is still running gets
//     *[InProgressError] (409), at once or after Options.Wait; the same key
//     with another fingerprint gets *[MismatchError] (422).
//   - A commit whose answer is lost is settled by claiming the key again: if
//     that finds the record, the effect took place; if it gets the key, the
//     first transaction can never commit, because its row would be in the way.
//     Only if neither can be had in time the result is *[UnknownOutcomeError],
//     and the same request with the same key is the way to find out.
//   - A recorded answer lives for Options.TTL, at least 24 hours ([MinTTL]).
//     Expired keys go by [Table.Sweep], a bounded number at a time. Expiry is
//     measured by the clock of the database, one clock for all.
//
// [Objects] promises the same with the keys inside the object that changes: one
// conditional write carries both. [Claims] is claim, act, complete in separate
// steps: a holder that stays away longer than its lease is replaced, and when it
// comes back it cannot complete; but an effect outside the store may then have
// happened twice, unless its target rejects old fencing tokens.
//
// # Limits
//
// The effect must act through the transaction it is given, and nothing else: a
// mail or a call to another service in it is repeated when the transaction is.
// Use package outbox for these. After the TTL a copy is a new request. On
// SQLite and MySQL a copy that comes while the first runs waits for it, as long
// as the driver's lock time-out allows, instead of being told at once. A process
// that is stopped (not dead) inside its transaction keeps its key in progress
// until the server ends the transaction; PostgreSQL's
// idle_in_transaction_session_timeout bounds that.
//
// # The header
//
// [Keys.Handler] follows the semantics of the IETF draft
// draft-ietf-httpapi-idempotency-key-header: 400 where a key is required and
// missing, 409 while the first request is being processed, 422 for the same key
// with another request. The draft expired in April 2026 without becoming an RFC;
// the header is a convention, not a standard.
package idempotency
