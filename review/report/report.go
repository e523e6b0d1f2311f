package report

import (
	"cmp"
	"slices"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/front"
	"github.com/holdfast-dev/holdfast/review/rules"
)

// Report is the result of one review.
type Report struct {
	Version  string
	Module   string
	Findings []*rules.Finding
	// Notes are findings of severity note or low confidence that were left out.
	Notes     int
	Paths     []Path
	Problems  []front.Problem
	Baselined int // findings that the baseline knows
	Ignored   int // findings with a suppression comment
	// Bad are suppression comments that are wrong: unused, without rule or reason.
	Bad       []BadIgnore
	Entries   int
	Packages  int
	Lines     int
	Resources []Resource
	// Diff is the revision that was compared with, if any; then Findings are the
	// new ones, and Removed tells which of them come from a protection that the
	// change took away, by fingerprint.
	Diff    string
	Removed map[string]string
}

// BadIgnore is a suppression comment that does not hold.
type BadIgnore struct {
	front.Ignore
	Why string `json:"why"`
}

// Path is one write path in scope and what became of it.
type Path struct {
	Entry    string     `json:"entry"`
	Pos      effect.Pos `json:"pos"`
	Resource string     `json:"resource"`
	What     string     `json:"what"`
	Finding  string     `json:"finding,omitempty"` // rule, if one was found
	Guard    string     `json:"guard,omitempty"`
	GuardPos effect.Pos `json:"guardPos"`
}

// Resource is one line of the race inventory.
type Resource struct {
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	Readers  []Access `json:"readers,omitempty"`
	Writers  []Access `json:"writers,omitempty"`
	Class    []string `json:"class,omitempty"` // rules of the findings on it
	Guards   []string `json:"guards,omitempty"`
	Conflict []string `json:"conflict,omitempty"` // what happens to the second
	Tests    []string `json:"tests,omitempty"`    // that reach a writer
}

// Access is an entry point that reads or writes a resource.
type Access struct {
	Entry string     `json:"entry"`
	Pos   effect.Pos `json:"pos"`
	How   string     `json:"how"`
}

// Blocking says whether any finding is blocking.
func (r *Report) Blocking() bool {
	return slices.ContainsFunc(r.Findings, func(f *rules.Finding) bool { return f.Severity == rules.Blocking })
}

// Verdict is the last line.
func (r *Report) Verdict() string {
	if r.Blocking() {
		return "RECOMMEND CHANGES"
	}
	return "NO BLOCKING FINDING"
}

// Sort puts findings into the order of the report.
func (r *Report) Sort() {
	rank := func(s rules.Severity) int {
		return slices.Index([]rules.Severity{rules.Blocking, rules.ShouldFix, rules.Note}, s)
	}
	slices.SortStableFunc(r.Findings, func(a, b *rules.Finding) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(a.Pos.File, b.Pos.File),
			cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Rule.ID, b.Rule.ID))
	})
}
