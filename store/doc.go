// Package store keeps shared state safe when several goroutines, processes or
// machines change it at once. It is one small contract - conditional writes on
// single keys - over stores that really enforce it: memory, local files,
// SQLite, PostgreSQL, and others by [WithScheme] or [New].
//
// For most cases do not use this package directly. Use package marker for
// "what is running now" and other growing sets, package document for values
// that several writers change, and package manifest for one ordered list.
//
// # Promise
//
// Every write is one atomic step on one key, with a condition: [None],
// [CreateOnly] or [IfVersion]. It has three outcomes: nil (it took effect),
// *[ConflictError] (the condition did not hold, nothing was written), or
// *[UnknownOutcomeError] (no answer; it may or may not have taken effect). Any
// other error means that nothing was written. A condition that a backend cannot
// enforce is refused with *[UnsupportedError]; it is never dropped.
//
// A version names one write and never repeats, not even when the same value is
// written again or the key is deleted and created anew. Each key is
// linearizable: reads and writes of it take effect one after another in an
// order that agrees with real time. A failed read is an error, never "empty";
// only *[NotFoundError] says that a key is absent.
//
// # Limits
//
// Steps on different keys are not one unit unless they are sent as one
// [Store.Batch], which some backends refuse. A listing is not a snapshot. What
// survives a crash of the machine is what [Capabilities].Durable says. The four
// embedded backends are linked into every program that imports this package,
// because [Open] chooses by URL at run time.
package store
