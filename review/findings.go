package review

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/front"
	"github.com/holdfast-dev/holdfast/review/report"
	"github.com/holdfast-dev/holdfast/review/rules"
	"github.com/holdfast-dev/holdfast/review/witness"
)

// distinct leaves one finding per defect. A race is one defect however many
// pairs of entry points meet in it: the one with the worst schedule and the
// highest confidence stays.
func distinct(found []*rules.Finding) []*rules.Finding {
	best := map[string]int{}
	var out []*rules.Finding
	for _, f := range found {
		key := f.Rule.ID + f.Pos.String()
		if k := f.Witness.Kind; k == witness.NonSerial || k == witness.Memory {
			key = "race " + writePos(f).String() + rules.Name(f.Witness.On)
		}
		i, ok := best[key]
		if !ok {
			best[key] = len(out)
			out = append(out, f)
			continue
		}
		if rank(f) < rank(out[i]) {
			out[i] = f
		}
	}
	return out
}

func writePos(f *rules.Finding) effect.Pos {
	if w := f.Witness.Write; w != nil {
		return w.Pos
	}
	return f.Pos
}

// rank orders findings: less is worse.
func rank(f *rules.Finding) int {
	s := slices.Index([]rules.Severity{rules.Blocking, rules.ShouldFix, rules.Note}, f.Severity)
	c := slices.Index([]rules.Confidence{rules.High, rules.Medium, rules.Low}, f.Confidence)
	return s*3 + c
}

// keep fills the report's findings: without notes unless wanted, without those
// of the baseline, without suppressed ones; it reports suppressions that are
// wrong.
func keep(r *report.Report, found []*rules.Finding, ignores []front.Ignore, known map[string]bool, notes bool) {
	used := make([]bool, len(ignores))
	for _, f := range found {
		if n := suppressed(f, ignores); n >= 0 {
			used[n] = true
			r.Ignored++
			continue
		}
		switch {
		case !notes && (f.Severity == rules.Note || f.Confidence == rules.Low):
			r.Notes++
		case known[f.Fingerprint()]:
			r.Baselined++
		default:
			r.Findings = append(r.Findings, f)
		}
	}
	r.Sort()
	for i, ig := range ignores {
		switch {
		case ig.Rule == "" || ig.Reason == "":
			r.Bad = append(r.Bad, report.BadIgnore{Ignore: ig, Why: "write //holdfast:ignore RULE reason: both are required"})
		case !used[i]:
			r.Bad = append(r.Bad, report.BadIgnore{Ignore: ig, Why: fmt.Sprintf("nothing of %s is found here: remove the comment", ig.Rule)})
		}
	}
}

// suppressed gives the comment that holds for the finding, or -1.
func suppressed(f *rules.Finding, ignores []front.Ignore) int {
	return slices.IndexFunc(ignores, func(ig front.Ignore) bool {
		return ig.Rule == f.Rule.ID && ig.Reason != "" && ig.Pos.File == f.Pos.File && (ig.Pos.Line == f.Pos.Line || ig.Pos.Line == f.Pos.Line-1)
	})
}

// paths lists the write paths with what became of each. A write that several
// entries reach is one path.
func paths(p *witness.Problem, found []*rules.Finding) []report.Path {
	var out []report.Path
	index := map[string]int{}
	others := map[int]int{}
	for i := range p.Entries {
		e := &p.Entries[i]
		e.Body.Walk(func(s *effect.Step) bool {
			if !changes(s) {
				return true
			}
			on := target(s)
			key := s.Pos.String() + on.String() + s.Mode
			if n, ok := index[key]; ok {
				others[n]++
				return true
			}
			path := report.Path{Entry: e.Title(), Pos: s.Pos, Resource: rules.Name(on), What: how(s)}
			if f := about(found, s.Pos, on); f != nil {
				path.Finding = f.Rule.ID
			} else {
				g := p.GuardOf(i, s)
				path.Guard, path.GuardPos = g.Text, g.Pos
			}
			index[key] = len(out)
			out = append(out, path)
			return true
		})
	}
	for n, more := range others {
		out[n].Entry += fmt.Sprintf(" and %d more", more)
	}
	slices.SortStableFunc(out, func(a, b report.Path) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Col, b.Pos.Col))
	})
	return out
}

// changes says whether a step is a write path: of something that outlives the
// process, and not of a temporary file, whose rename is the path.
func changes(s *effect.Step) bool {
	switch {
	case s.Op == effect.Rename:
		return s.To != nil
	case s.Op != effect.Write || s.On == nil || s.Mode == effect.Temp || s.Mode == effect.Fill:
		return false
	}
	return s.On.Kind != effect.VarKind
}

func target(s *effect.Step) *effect.Resource {
	if s.Op == effect.Rename {
		return s.To
	}
	return s.On
}

func how(s *effect.Step) string {
	if s.Op == effect.Rename {
		return "replace"
	}
	return s.Mode
}

// about finds a finding in which the step takes part.
func about(found []*rules.Finding, pos effect.Pos, on *effect.Resource) *rules.Finding {
	for _, f := range found {
		for _, s := range []*effect.Step{f.Witness.Write, f.Witness.Other, f.Witness.Read} {
			if s != nil && s.Pos == pos && s.On != nil && target(s).Kind == on.Kind && target(s).Name == on.Name {
				return f
			}
		}
		if f.Pos == pos && f.Witness.On != nil && f.Witness.On.Name == on.Name {
			return f
		}
	}
	return nil
}
