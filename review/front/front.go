// Package front is the seam between the reviewer and the front ends that turn a
// language into effects.
//
// # Model
//
// A front end gets a [Request] (a folder and patterns) and gives a [Result]: one
// effect.Program for all packages of its language in scope, what it could not
// analyse, and the suppression comments it met. It reports no findings; it says
// what the code does, and the reviewer says what is wrong with it.
//
// # Promise and limits
//
// A package that does not compile is a [Problem], not an error: the rest is
// still analysed. Analyze fails only when nothing could be analysed. Results are
// deterministic: entries in the order of their IDs.
package front

import (
	"context"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// FrontEnd turns one language into effects.
type FrontEnd interface {
	// Name is the language, for messages: "go".
	Name() string
	// Analyze analyses what the request names. A request without anything in the
	// front end's language gives an empty Result.
	Analyze(ctx context.Context, r Request) (*Result, error)
}

// Request says what to analyse.
type Request struct {
	Dir      string   // root of the module or repository, absolute
	Patterns []string // as the user gave them ("./..."); empty is everything in Dir
	// Parallel is how many workers may run; 0 is the number of processors.
	Parallel int
	// Deployment files, migrations and schema files are searched in Dir. SkipRepo
	// leaves them out (the caller has them already).
	SkipRepo bool
}

// Result is what a front end found.
type Result struct {
	Program  *effect.Program
	Problems []Problem
	Ignores  []Ignore
	// Packages and Lines count what was analysed.
	Packages, Lines int
}

// Problem is a part of the scope that could not be analysed.
type Problem struct {
	Pos  effect.Pos `json:"pos"`
	Text string     `json:"text"`
}

// Ignore is a suppression comment: `//holdfast:ignore RULE reason`. It holds for
// findings whose place is the line of the comment or the line below it.
type Ignore struct {
	Pos    effect.Pos `json:"pos"`
	Rule   string     `json:"rule"`   // as written; empty if it is missing
	Reason string     `json:"reason"` // empty if it is missing
}
