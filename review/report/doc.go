// Package report writes what a review found: text for people, JSON, SARIF
// 2.1.0, GitHub annotations, JUnit, and the race inventory.
//
// # Model
//
// A [Report] holds findings (each with its witness), the write paths in scope
// with what became of each, and what could not be analysed. Every form is made
// from it; none of them decides anything. The schedule is the centre of each: in
// text a table with a column per actor, in SARIF one codeFlow with a threadFlow
// per actor whose locations carry the executionOrder.
//
// # Promise and limits
//
// Reports are deterministic: findings are ordered by severity, file, line and
// rule. Fingerprints do not contain line numbers. Text is at most Width columns
// wide where words allow it; tables have at most two actors, as witnesses have.
package report
