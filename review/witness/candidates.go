package witness

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// Candidates lists the pairs of entries worth a search: those that meet on a
// resource one of them changes. Each entry is paired with itself and, on each
// resource, with one representative of each way in which others reach it: how
// they do it decides what can come of it, not which handler it is (a table that
// a hundred handlers use gives a few hundred pairs, not five thousand).
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
		classes := map[string]bool{}
		places := map[string]bool{}
		var reps []int
		for _, i := range entries {
			if sig := p.signature(i, name, false); !classes[sig] {
				classes[sig] = true
				reps = append(reps, i)
			}
		}
		for _, i := range entries {
			// The same helper reached under the same locks is one.
			if sig := p.signature(i, name, true); places[sig] && !p.prints[i].sends {
				continue
			} else {
				places[sig] = true
			}
			for _, j := range append(reps[:len(reps):len(reps)], i) {
				if p.prints[i].touch[name] || p.prints[j].touch[name] {
					seen[[2]int{min(i, j), max(i, j)}] = true
				}
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

// signature is how an entry reaches a resource: the kind of entry, its steps on
// it, and the locks, transactions and calls around. With places, also where they
// stand in the source.
func (p *Problem) signature(i int, name string, places bool) string {
	e := &p.Entries[i]
	var b strings.Builder
	b.WriteString(string(e.Kind))
	e.Body.Walk(func(s *effect.Step) bool {
		on := s.On != nil && string(s.On.Kind)+":"+s.On.Name == name || s.To != nil && string(s.To.Kind)+":"+s.To.Name == name
		switch s.Op {
		case effect.Lock, effect.Unlock, effect.Begin, effect.Commit:
			on = true
		}
		if !on {
			return true
		}
		fmt.Fprintf(&b, " %s %s %s %s", s.Op, s.Mode, s.Lock, s.Iso)
		if s.Tx != "" {
			b.WriteString(" tx")
		}
		for _, a := range s.Set {
			b.WriteString(" " + a.Col)
		}
		for _, c := range s.Where {
			b.WriteString(" ?" + c.Col)
		}
		if s.Op == effect.Lock || s.Op == effect.Unlock {
			b.WriteString(s.On.String())
		}
		if places {
			b.WriteString(s.Pos.String())
		}
		return true
	})
	return b.String()
}
