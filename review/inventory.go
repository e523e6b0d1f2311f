package review

import (
	"cmp"
	"slices"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/report"
	"github.com/holdfast-dev/holdfast/review/rules"
	"github.com/holdfast-dev/holdfast/review/witness"
)

// inventory lists the shared resources: who reads and writes each, and what
// guards it.
func inventory(p *witness.Problem, found []*rules.Finding) []report.Resource {
	byName := map[string]*report.Resource{}
	for i := range p.Entries {
		e := &p.Entries[i]
		e.Body.Walk(func(s *effect.Step) bool {
			on := target(s)
			if on == nil || !listed(on.Kind) {
				return true
			}
			key := string(on.Kind) + " " + rules.Name(on)
			x := byName[key]
			if x == nil {
				x = &report.Resource{Kind: string(on.Kind), Name: rules.Name(on)}
				byName[key] = x
			}
			switch {
			case s.Op == effect.Read || s.Op == effect.Check:
				add(&x.Readers, report.Access{Entry: e.Title(), Pos: s.Pos, How: string(s.Op)})
			case s.Op == effect.Write || s.Op == effect.Rename:
				add(&x.Writers, report.Access{Entry: e.Title(), Pos: s.Pos, How: how(s)})
				if f := about(found, s.Pos, on); f != nil {
					addText(&x.Guards, "none that holds: "+f.Rule.ID)
					addText(&x.Conflict, "the last wins")
				} else {
					g := p.GuardOf(i, s)
					addText(&x.Guards, g.Text)
					addText(&x.Conflict, g.Conflict)
				}
				for _, t := range e.Tests {
					addText(&x.Tests, t.Name)
				}
			}
			return true
		})
	}
	for _, f := range found {
		if on := f.Witness.On; on != nil {
			if x := byName[string(on.Kind)+" "+rules.Name(on)]; x != nil {
				addText(&x.Class, f.Rule.ID+" "+f.Rule.Title)
			}
		}
	}
	var out []report.Resource
	for _, x := range byName {
		if len(x.Writers) > 0 {
			out = append(out, *x)
		}
	}
	slices.SortFunc(out, func(a, b report.Resource) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func listed(k effect.Kind) bool {
	switch k {
	case effect.TableKind, effect.FileKind, effect.BlobKind, effect.CacheKind, effect.ObjectKind, effect.VarKind, effect.LockfileKind:
		return true
	}
	return false
}

func add(to *[]report.Access, a report.Access) {
	if !slices.Contains(*to, a) {
		*to = append(*to, a)
	}
}

func addText(to *[]string, s string) {
	if s != "" && !slices.Contains(*to, s) {
		*to = append(*to, s)
	}
}
