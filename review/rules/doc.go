// Package rules names what a witness is: the class of the defect, how bad it is
// in the deployed shape, how sure the reviewer is, and what to do about it.
//
// # Model
//
// The documentation of a rule is data (docs/ID.md: title, severity, references,
// the advice, the text); `holdfast review --explain ID` prints it and
// docs/rules.md is generated from it. What decides whether a witness belongs to
// a rule is code, one file per family: lost updates and checks (race.go),
// protections without effect (void.go), crashes and errors (fault.go), waiting
// (waiting.go). [Classify] asks them in that order of tellingness: where a
// protection stood in the source and did nothing, that is the finding, whatever
// it let through.
//
// # Promise and limits
//
// [Classify] never invents: without a witness there is no finding. Severity
// follows the schedule, not the rule alone: a rule's severity is the highest it
// reaches; a schedule that is possible but unusual (a command that somebody
// starts twice) is one step lower. CWE and ASVS references are to the lists of
// CWE 4.17 and OWASP ASVS 5.0.0.
package rules
