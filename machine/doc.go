// Package machine moves things from state to state - an order from "new" to "paid"
// - so that of two callers who want to move it from the same state, one does.
//
// # Model
//
// A [Machine] is a table of allowed transitions, declared once and checked when it
// is declared. A transition names the state that it starts from, and that is its
// guard: one atomic update that takes effect only if the thing is still there.
//
//	UPDATE orders SET status = 'paid' WHERE id = $1 AND status = 'new'
//
// Counter-example without it: "pay" reads new, "cancel" reads new, "cancel"
// writes cancelled and gives the goods back, "pay" writes paid and takes the
// money. Each step was allowed by the table; together they are not.
//
// Two places for the things:
//
//   - [Rows]: rows of a table of your own, by package guard. An effect and the
//     history go into the same transaction.
//   - [Objects]: objects in a store, one per thing, with a value and the last
//     transitions in it. The effect is a change of that value, in the same write.
//
// # Promise
//
// A transition that returned nil happened once, with its effect and its line of
// history, or will not be seen at all. One that lost its race is *[LostError],
// which says what the state is now; nothing was written, and the effect did not
// run or was undone. A transition that the table does not have is
// *[IllegalError], before anything is read.
//
// # Limits
//
// The guard is the state, not its age: a thing that went from "new" to "held" and
// back to "new" is "new" again. If a caller must not overlook such a round trip,
// Step.Version names the object that it saw, and RowStep.If a column of the row
// that changes each time. Whoever writes the state past this package is not
// bound by the table. The history's times are from the
// clocks of the writers, its order is not.
package machine
