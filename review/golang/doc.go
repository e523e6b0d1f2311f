// Package golang turns Go packages into effects.
//
// # Model
//
// [FrontEnd.Analyze] loads the packages in scope with go/packages (their
// dependencies come as export data), finds the entry points, and evaluates each
// one: a walk over its syntax with type information, in which every expression
// has a symbolic value and every call of a known library function (package
// knowledge, and the hooks in hook_*.go) leaves an effect. Calls of functions of
// the analysed packages are followed. A function whose arguments are ordinary
// values is summarised once, as an effect.Func, and called; one that is given
// something of the caller's (a closure, a builder, an open file, the address of
// a variable) is evaluated again at the place of the call, which is how
// transaction helpers and wrappers are seen through. A variable of the program
// becomes a `let` only where ways join; the rest is substituted.
//
// The walk is over syntax and not over SSA on purpose: effect programs are
// structured, and findings name loops, deferred calls and error branches, which a
// flow graph no longer has.
//
// # Promise and limits
//
// Nothing is guessed: an expression that is not understood has the unknown value,
// a SQL text that is not understood is left out and reported as a problem, a call through an interface with more than two
// implementations in scope is not followed. Recursion and calls deeper than 14
// are cut, and a circle of calls is followed once. Channels carry no values. Two
// assumptions keep programs small: an error of which nothing is known (input that
// does not parse) does not occur, and a function that looks only at the request is
// a value derived from it. A package that does not compile is reported
// and analysed as far as it type-checks.
//
// What is shared between requests: package variables, and the fields of the
// receivers that handlers, consumers and jobs are methods of (or that their
// closures capture), if they are changed anywhere outside constructors.
package golang
