// Package play proves races in a real, unmodified application: it starts the
// application behind gates that hold each of its steps (database statements),
// sends a few requests at once, lets one step through at a time, explores the
// interleavings, and reports every outcome that no serial order of the requests
// explains.
//
// # Model
//
// One request is one actor of package explore; what a gate holds is one step.
// At any moment at most one request runs inside the application: all others are
// held at a gate, wait at the server for a lock, or have been answered. So
// whatever arrives at a gate belongs to the request that runs, and connection
// pools need no help. A statement on a connection that is inside a transaction
// belongs to whom the transaction belongs.
//
// Exceptions that are told apart: a request that waits inside the application
// (for a mutex, or for a connection of an exhausted pool) shows as an
// application whose threads are all asleep and use no processor; statements that
// the application sends on its own are learned while no request runs, and pass.
//
// # Promise and limits
//
// A finding has been replayed from the recorded start state and gave the same
// outcome each time. Where a run can not be understood (time-out, a statement
// that could belong to two requests, a replay that went another way) it is
// counted as inconclusive and never as right or wrong. Not seen: races through
// the memory of the application when no step of a gate lies between them, and
// everything behind a boundary without a gate.
package play
