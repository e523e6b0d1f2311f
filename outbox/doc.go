// Package outbox sends messages about changes in a database - to a queue, a
// webhook, a mail server - at least once if the change was committed, and never
// if it was not.
//
// # Model
//
// The message is a row that is written in the transaction of the change:
//
//	BEGIN; change; INSERT message; COMMIT
//
// After the commit a [Relay] claims the row, publishes it, and deletes it. The
// obvious alternatives lose messages or invent them: a message that is sent
// before the commit tells of a change that may be rolled back, and one that is
// sent after it is lost when the process dies in between. Nothing is published
// inside a transaction, neither the application's nor the relay's: a call over
// the network would hold locks for as long as the other side likes.
//
// A claim is a lease with a token: one statement that writes a random token and
// a time into the row. Any number of relays may run. A relay that dies is
// replaced when its lease has run out; one that was only stopped can then
// neither acknowledge nor fail a message, because its token is not there any
// more.
//
// # Promise
//
//   - A message is published at least once after its transaction has been
//     committed, and not at all if it was rolled back.
//   - The messages of one Key are published in the order in which their
//     transactions were committed, also by several relays: the first publication
//     of a message comes after a publication of each message before it. To that
//     end [Outbox.Add] makes transactions with the same key wait for each other,
//     from Add to commit. Messages without a key have no order.
//   - A message that fails Options.MaxTries times is set aside as a dead letter,
//     with its last error. It stops its key until somebody calls
//     [Outbox.Requeue] or [Outbox.Discard]: later messages do not silently
//     overtake it. [SkipDead] lets them, where the order does not matter that
//     much.
//
// # Limits
//
// At least once means more than once now and then: after a crash between
// publishing and deleting, and after a pause that outlasts a lease. A relay that
// comes back from such a pause inside publish may repeat an older message behind
// newer ones. [Delivery].ID grows along each key and never repeats, so a
// receiver drops what is not above the last ID it has seen of a key (package
// idempotency does it for receivers with a database).
//
// Add locks the key until the commit. A transaction that adds messages of several
// keys should do so in one call, which takes the locks in one order; otherwise
// two transactions can deadlock, and the database breaks one of them off.
//
// PostgreSQL and SQLite carry it. MySQL is refused: it has no statement that
// claims and returns rows. Leases are measured by the clock of the database, and
// by the relay's own monotonic clock for not publishing beyond one.
package outbox
