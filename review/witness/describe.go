package witness

import (
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// describe says what a read gave: the columns it asks for, as far as they fit a
// table cell.
func (a *actor) describe(s *effect.Step, rec *record) string {
	st := a.run.st
	var parts []string
	for _, c := range s.Cols {
		if c == "*" {
			continue
		}
		parts = append(parts, c+" = "+st.w.resolve(st.cell(rec.row, rec.data, c)).String())
	}
	if len(parts) == 0 {
		for _, c := range slices.Sorted(maps.Keys(rec.data.cols)) {
			if c != "*" {
				parts = append(parts, c+" = "+st.w.resolve(rec.data.cols[c]).String())
			}
		}
		if rec.data.star != nil && len(parts) == 0 {
			parts = append(parts, st.w.resolve(*rec.data.star).String())
		}
	}
	text := "found"
	if s.Op == effect.Read {
		text = "reads what was there at the start"
	}
	if len(parts) > 0 {
		text = "reads " + strings.Join(limit(parts, 4), ", ")
	}
	if s.Lock != "" && s.Void == "" && a.tx(s.Tx) != nil {
		text += ", row locked"
	}
	if s.Void != "" && s.Lock != "" {
		text += ", NOT locked: " + s.Void
	}
	return text
}

// describeWrite says what a write left.
func (a *actor) describeWrite(s *effect.Step, r *row, d data) string {
	st := a.run.st
	if !d.exists {
		return "deleted"
	}
	var parts []string
	for _, as := range s.Set {
		if as.Col == "*" {
			continue
		}
		parts = append(parts, as.Col+" = "+st.w.resolve(st.cell(r, d, as.Col)).String())
	}
	if len(parts) == 0 && d.star != nil {
		parts = append(parts, st.w.resolve(*d.star).String())
	}
	if len(parts) == 0 {
		for _, c := range slices.Sorted(maps.Keys(d.cols)) {
			parts = append(parts, c+" = "+st.w.resolve(d.cols[c]).String())
		}
	}
	verb := "writes "
	switch s.Mode {
	case effect.Insert, effect.Create, effect.Ignore:
		verb = "inserts "
	}
	return verb + strings.Join(limit(parts, 4), ", ")
}

func limit(parts []string, n int) []string {
	if len(parts) > n {
		return append(slices.Clone(parts[:n]), "...")
	}
	return parts
}
