// Package explain tells what a SQL statement touches before it runs.
//
// # Model
//
// The parser and planner are the server's own: a statement is sent with its
// parameters as EXPLAIN (VERBOSE) on a side connection, and the plan names every
// relation, with views, rules and partitions resolved and the parameters put into
// the conditions. A scanned relation is read; the target of an INSERT, UPDATE or
// DELETE, and what SELECT ... FOR UPDATE scans, is locked. Equalities with
// constants that every touched row satisfies restrict the access to a part of the
// table. The catalog adds what plans do not show: foreign keys and their cascades,
// sequences, triggers. A [Session] follows one connection's transaction, since
// COMMIT publishes what the transaction has written.
//
// # Promise and limits
//
// A footprint leaves nothing out: what cannot be told (triggers, functions that
// are not immutable, DO, CALL, statements the planner refuses) conflicts with
// everything, and the reason is kept. It may claim too much: INSERTs have no
// restriction, and SERIALIZABLE transactions conflict with everything. The order
// in which two statements draw from a sequence counts as visible.
package explain
