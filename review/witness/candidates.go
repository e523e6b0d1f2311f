package witness

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// Candidates lists the pairs of entries worth a search: those that meet on a
// resource one of them changes. Entries that reach a resource through the same
// steps under the same locks are one for this purpose (a helper that a hundred
// handlers call is looked at once, not ten thousand times).
func (p *Problem) Candidates() [][2]int {
	byName := map[string][]int{}
	for i := range p.Entries {
		if p.Entries[i].Kind == effect.Library {
			continue
		}
		for name := range p.prints[i].touch {
			byName[name] = append(byName[name], i)
		}
	}
	seen := map[[2]int]bool{}
	for name, entries := range byName {
		slices.Sort(entries)
		classes := map[string]bool{}
		var reps []int
		for _, i := range entries {
			sig := p.signature(i, name)
			if !classes[sig] {
				classes[sig] = true
				reps = append(reps, i)
			}
		}
		for x, i := range reps {
			for _, j := range reps[x:] {
				if p.prints[i].touch[name] || p.prints[j].touch[name] {
					seen[[2]int{i, j}] = true
				}
			}
		}
		for _, i := range entries {
			// An entry that sends acts twice when two of it run.
			if p.prints[i].sends && p.prints[i].touch[name] {
				seen[[2]int{i, i}] = true
			}
		}
	}
	out := make([][2]int, 0, len(seen))
	for k := range seen {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b [2]int) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	return out
}

// signature is how an entry reaches a resource: the kind of entry, the places of
// its steps on it, and of the locks, transactions and conditions around.
func (p *Problem) signature(i int, name string) string {
	e := &p.Entries[i]
	parts := []string{string(e.Kind)}
	e.Body.Walk(func(s *effect.Step) bool {
		on := s.On != nil && string(s.On.Kind)+":"+s.On.Name == name || s.To != nil && string(s.To.Kind)+":"+s.To.Name == name
		switch s.Op {
		case effect.Lock, effect.Unlock, effect.Begin, effect.Commit:
			on = true
		}
		if on {
			parts = append(parts, s.Pos.String())
		}
		return true
	})
	return strings.Join(parts, " ")
}
