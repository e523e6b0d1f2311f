// Package review finds races and data-integrity defects in code and gives each
// with the schedule that breaks it.
//
// # Model
//
// Front ends (package front) turn a module into an effect.Program; [Run] merges
// what they give, searches the pairs of entry points that can meet (package
// witness), names what was found (package rules), and makes a report.Report. The
// search runs on all processors; its result does not depend on their number.
//
// A finding is new, known (in the baseline file), or suppressed by a comment
// `//holdfast:ignore RULE reason` on its line or the line above; a comment that
// suppresses nothing, or lacks its rule or reason, is reported itself.
//
// With [Options.Diff] the revision is analysed as well (once; its result is kept
// in the user's cache), and the findings that it has, too, are left out. A new
// finding on a write that was guarded there names the protection that was
// removed, also when the line of the write did not change.
//
// # Promise and limits
//
// The exit code is the verdict: no blocking finding, no failure. Silence is no
// proof: the front ends see what they know, and the search is bounded.
package review
