// Package effect is the one representation in which a program's effects on
// shared things are written down, whatever language it came from. Front ends
// produce it; the witness interpreter, the rules and the inventory read it, and
// none of them knows a language.
//
// # Model
//
// A [Program] is a set of entry points ([Entry]: an HTTP handler, a consumer, a
// cron job, the main of a command ...), each with a small structured program (a
// [Block] of [Step]s) that holds what the entry point does to things other
// actors can see, in order, under its path conditions. Everything else (pure
// computation, logging) is left out, except where a value or a condition derives
// from it. Beside the entries stand the facts that decide whether two of them
// can meet and what a store enforces: [Deployment] and [Schema].
//
// A step is one atomic effect on one [Resource], or control flow. Steps that a
// store executes at once are one step: `UPDATE t SET n = n + 1 WHERE id = $1` is
// one write whose value mentions the stored column (root `col`), while a read
// followed by a computed UPDATE is two steps. This difference is the whole point
// of the representation, so when in doubt split.
//
// # Values
//
// A [Value] is symbolic. Its leaves:
//
//	in.amount     an input of the entry point (request, message, argument)
//	a.balance     a field of what an earlier step bound (`a := read ...`)
//	col.balance   the stored column at the moment of the write (atomic expression)
//	"used" 3 nil true false
//	fresh()       different at each evaluation (uuid, temporary name, sequence)
//	now()         the clock
//	?             not known; behaves like an input: it never counts as derived
//
// Anything computed is an application: + - * / == != < <= > >= && || ! are
// understood, any other function is opaque but deterministic: f(a.list, in.x)
// means "derived from a.list and in.x". A front end that loses track must write
// `?`, never a guess: findings come from derivations, so `?` loses findings and a
// guess invents them.
//
// A step that binds v gives these fields beside the columns read:
//
//	v.found   a read: the row, file, key was there
//	v.rows    a write: rows changed (1 or 0)
//	v.ok      a try-lock or conditional create: it was got
//	v.err     nil or an error (only where OnErr is Bind)
//	v.version a read: the stored version (ETag, generation, resourceVersion)
//
// A bare v is the whole thing read. `let u.balance = ...` changes a field of the
// local copy; writing `* = u` stores the whole copy (the full-row save of ORMs:
// every column, also those that were only read).
//
// # Resources
//
// [Resource] is a kind, a constant name, and key expressions. Two actors meet on
// a resource when kind and name are equal and the keys can be. Kinds and names:
//
//	table:accounts[id = in.id]     name: the table; key: the equality conditions
//	                               of WHERE that say which row; no key: a scan
//	file:"*"[path = concat(dir(), "/index.json")]  name "*", key path: what is
//	                               known of the path; for a path constant up to
//	                               the configuration, name it: file:"index.json"
//	blob:bucket[key = ...]  cache:redis[key = ...]
//	object:Pod[name = in.name]     Kubernetes objects, documents with versions
//	var:"app.counters"             package variables and what hangs on a server
//	                               value that all requests share
//	mutex:"app.Server.mu"          in-process locks; key for maps of locks
//	flock:"*"[path = ...]  advisory:pg[key = ...]  lease:name[key = ...]
//	lockfile:"*"[path = ...]       a lock made of a file's existence
//	topic:orders  remote:"api.stripe.com"  (send, ack)
//
// # Errors
//
// Each effect can fail. [Step.OnErr] says what the program does then: "" or
// Return (it leaves the entry point with a failure, or the called function with
// an error), Drop (goes on; the bound value is zero), Log (Drop with a log line),
// Bind (v.err is set and the following steps look at it). A missing row is no
// error unless Missing is "error". A store that refuses (unique violation, If
// not met on a conditional store, serialization failure) counts as an error; a
// SQL UPDATE whose WHERE does not match is not: it gives v.rows == 0.
//
// # Functions
//
// A front end summarises each function as a [Func] and leaves calls as [Call]
// steps; [Link] replaces them by the bodies (recursion and depth bounded), with
// renamed variables, transactions passed as arguments included. Func is
// serialisable: it is the fact that is handed from package to package.
//
// # Promise and limits
//
// [Parse] and [Format] are inverse. The text form is for tests and for people;
// between packages and processes everything is JSON. The representation has no
// aliasing of local copies (a bound variable is a value), no exceptions besides
// OnErr, and loops whose bodies the interpreter runs at most twice.
package effect
