package rules

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/witness"
)

// Tests finds tests that claim concurrency and run their actors one after
// another. Their schedule is what the test does: no two actors overlap.
func (s *Set) Tests(entries []effect.Entry) []*Finding {
	var out []*Finding
	seen := map[effect.Pos]bool{}
	for i := range entries {
		e := &entries[i]
		for _, t := range e.Tests {
			if !t.Claims || t.Parallel || seen[t.Pos] {
				continue
			}
			seen[t.Pos] = true
			rule := s.Get("HF180")
			w := &witness.Witness{Kind: witness.Sequential, Actors: []witness.Actor{{Name: "A", Entry: e}},
				Events:   []witness.Event{{Result: t.Name + " starts one actor"}, {Result: "it ends before another begins", End: true}},
				Expected: []string{"two actors run at once, and an invariant is checked"},
				Got:      "the test passes also without any guard"}
			out = append(out, &Finding{Rule: rule, Severity: rule.Severity, Confidence: Medium, Pos: t.Pos, Fix: rule.Fix, Witness: w,
				Message: fmt.Sprintf("%s says that concurrent use of %s is tested, and starts one actor at a time", t.Name, e.Title())})
		}
	}
	return out
}
