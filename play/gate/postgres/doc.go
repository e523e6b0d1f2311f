// Package postgres is the gate for PostgreSQL: a proxy between an application
// and its real server that holds every statement until the player lets it
// through, and keeps every answer until the player hands it over.
//
// # Model
//
// The gate speaks protocol 3.0 on both sides and changes nothing in it. The
// application's stream is cut into units: one simple Query, everything up to a
// Sync, or everything up to a Flush. A unit that executes something is a step;
// units that only parse, describe or close (a driver that prepares) pass at
// once. Units of one connection go one after another, so in a pipeline the next
// step is announced when the answer of the one before has been delivered. A
// COPY is one step: its data stream passes, its completion is kept.
//
// Notices, notifications and parameter changes pass at once. So do start-up,
// authentication (message by message, whatever the method) and cancel requests.
//
// A step released in two parts stops once more inside the server, at a
// statement-level trigger that [Gate.InstallSplit] has put on the written
// tables. PostgreSQL fires it after the statement's snapshot has been taken and
// before a row is read or locked. The trigger finds an advisory lock that the
// gate holds for this backend, says so with an INFO message (which no setting
// of client_min_messages suppresses and which the gate keeps for itself), and
// waits for the lock until [Gate.Resume].
//
// # Promise and limits
//
// The bytes of each message reach the other side unchanged and, apart from the
// messages that pass at once, in their order. What the gate can not handle
// (replication, function calls, unknown messages) ends the connection with an
// error that names it, to the application and as an event gate.Failed.
//
// The time that a step is held counts for the time-outs of the application and
// of the server (statement_timeout while paused, since the server arms it
// before the trigger runs; idle_in_transaction_session_timeout while held).
// The upstream connection is not encrypted. A cancel request for a step that is
// still held has no effect, as it has none on an idle server.
package postgres
