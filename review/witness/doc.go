// Package witness finds, for the effects of two entry points, a schedule that
// ends badly, and gives it back step by step. Without a schedule there is no
// finding.
//
// # Model
//
// Two instances of entry points (actors A and B) run on a small store whose
// content is symbolic: what a cell holds at the start is an atom, and what is
// written is a term over atoms (package effect's values in normal form). The
// interpreter runs the structured programs of the actors, one effect at a time,
// and knows what stores promise: row locks until the end of the transaction,
// READ COMMITTED, snapshots, serialization failures, unique indexes, conditional
// writes, advisory and file locks, fencing tokens, mutexes within one process.
//
// The specification is not an invariant but the serial orders: the outcome
// (state, effects outside, who failed) of an interleaving must be that of A
// then B, of B then A, or of one of them alone where the other failed. Because
// terms are uninterpreted, b - x - y equals b - y - x while the lost update
// b - y equals neither, and no numbers have to be guessed.
//
// What the code leaves open (does the row exist, is the balance enough, what
// does an unknown function say) is chosen by the world. A world answers by need
// and keeps its answers for all runs that are compared, so that an unknown
// condition alone never makes an interleaving differ from the serial orders.
// Worlds are enumerated, the ones with more effects first.
//
// Besides interleavings with up to two preemptions the surroundings strike: the
// process is killed after each step and the entry is run again where a caller or
// broker would; a read, a write, a commit fails, or takes effect and fails all
// the same; a lock is found too old while its holder is paused; a call over the
// network does not come back; the pool has no connection left; conditional
// writes always lose.
//
// # Promise and limits
//
// A witness is a run of the model: each of its steps was possible in the order
// shown. What it can not promise is that the model is the program: the front end
// may have taken two keys for equal that never are. The search is bounded (two
// actors, two preemptions, a few rounds of loops, [Options]); silence is no
// proof. Memory that is raced on within one process without any lock is left to
// the race detector.
package witness
