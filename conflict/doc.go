// Package conflict decides what happens when a race was lost: try again, tell
// the caller, or accept that somebody else's write stands.
//
// # Model
//
// A lost race is an error. Those of the store are known here; every other
// package's is one that says so itself, by the method of [Race], so this package
// imports no mechanism and no mechanism imports it. [Find] turns an error into a
// [Signal]: an HTTP status, a short title, and whether another try can help.
//
// A [Policy] applies one [Choice] to all lost races of one kind of work and
// counts each decision, because a policy that is not seen in the metrics hides
// the contention that it copes with.
//
//	Retry     programs whose change can be made again on the fresh state
//	Surface   people, who must look at the other change first (409, 412, 423, 428)
//	Converge  changes whose point is the state, not who brought it about
//
// # Promise
//
// An unknown outcome is never repeated and never accepted: whatever the choice,
// it is surfaced, because it may or may not have taken effect. The same goes for
// the caller's mistakes (422, 428), which the next try would repeat. Retries have
// a bound or a deadline, and full jitter.
//
// # Metric
//
// holdfast.conflict.choices, a counter with the attributes holdfast.policy (the
// name given to [New]), holdfast.choice ("retry", "surface", "converge") and
// http.response.status_code. A retry is counted before each further try, so the
// successes after a retry do not show as surfaced.
//
// # Limits
//
// A policy repeats what it is given: the attempt must read the fresh state each
// time, and have no effect outside the guarded write. [Policy.Handler] does not
// retry, because a request's body can be read once; retry inside the handler.
package conflict
