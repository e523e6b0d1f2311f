// Package guard turns the statements of applications that keep their own tables
// into guarded ones, on database/sql and pgx: nobody has to move data to be safe.
//
// # Model
//
// A [Handle] is anything that runs statements: a database, a connection or a
// transaction, made by [SQL] or [Pgx]. The other packages that work inside an
// application's own transaction take a Handle too.
//
// A guarded statement carries its condition in itself, and the database decides
// it while it holds the row: UPDATE … SET n = n - 1 WHERE id = $1 AND n >= 1. It
// is safe only if somebody looks at the answer. That is what this package is
// for:
//
//   - [Exec] fails with *[NoRowError] when no row changed;
//   - [Insert] and [InsertOrGet] leave "is it there already?" to a unique index,
//     because a SELECT before the INSERT looks at a moment that has passed;
//   - [Classify] recognises unique and check violations, serialization failures,
//     deadlocks and lock time-outs of every driver as the lost races they are;
//   - [Tx] and [Retry] run a transaction, and repeat it when the server undid it;
//   - [OrderedForUpdate] locks rows in one order for everybody, so that two
//     transactions that need the same rows wait instead of deadlocking.
//
// # Promise
//
// A write has three outcomes: nil (it took effect), a typed race error (it did
// not; errors.Is(err, store.ErrConflict) is true), or *[UnknownError] (no
// answer; it may have taken effect). Any other error means that nothing was
// written. [Retry] repeats only what the server said it undid; an unknown commit
// is never repeated, because the first one may be there already.
//
// # Limits
//
// The guard is as good as the WHERE, the index and the constraint: a unique
// index that is not there refuses nothing. Statements on a connection that the
// caller put into a transaction by hand (BEGIN through Exec) are taken for
// statements outside one. On MySQL and MariaDB the number of changed rows leaves
// out rows that got the values they had; set clientFoundRows=true in the driver's
// address, or change a column that always changes. The function given to Retry
// may run several times: what it does outside the database happens each time.
package guard
