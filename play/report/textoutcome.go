package report

import (
	"fmt"
	"slices"
	"strings"
)

// wrongMark stands before a value that no serial order has, so that the mark
// does not depend on colour.
const wrongMark = "✗ "

// outcomes prints the observed outcome beside those of the serial orders. What
// does not fit side by side follows in further blocks, each with the labels.
func (p *textPrinter) outcomes(f *Finding) {
	if len(f.Observed.Cells) == 0 {
		return
	}
	labels := 0
	for _, c := range f.Observed.Cells {
		labels = max(labels, cellWidth(printable(c.Label)))
	}
	labels = min(labels, max(p.width*2/5, minValue))
	all := append([]Outcome{f.Observed}, f.Serial...)
	fit := max((p.width-labels)/(minValue+2), 1)
	blocks := (len(all) + fit - 1) / fit
	fit = (len(all) + blocks - 1) / blocks
	for i, block := range slices.Collect(slices.Chunk(all, fit)) {
		if i > 0 {
			p.line()
		}
		p.outcomeBlock(f, labels, block)
	}
	if slices.ContainsFunc(f.Observed.Cells, func(c Cell) bool { return c.Wrong }) {
		p.line(piece{"✗", red}, piece{" in no serial order", dim})
	}
}

// outcomeBlock prints some outcomes as the columns of one table.
func (p *textPrinter) outcomeBlock(f *Finding, labels int, outcomes []Outcome) {
	widths := valueNeeds(f, outcomes)
	over := labels - p.width
	for _, w := range widths {
		over += w + 2
	}
	if over > 0 && labels-over >= minValue {
		labels -= over // a label of two lines is easier to read than such a value
	}
	share(widths, p.width-labels-2*len(widths))
	head := [][]piece{nil}
	for i, o := range outcomes {
		title, s := o.Order, bold
		if title == "" {
			title, s = "observed", red
		}
		var cell []piece
		for _, l := range wrap(printable(title), widths[i], 3) {
			cell = append(cell, piece{l, s})
		}
		head = append(head, cell)
	}
	p.tableRow(labels, widths, head)
	limit := 3
	if p.verbose {
		limit = 0
	}
	for i, c := range f.Observed.Cells {
		row := [][]piece{nil}
		for _, l := range wrap(printable(c.Label), labels, 2) {
			row[0] = append(row[0], piece{l, dim})
		}
		for j, o := range outcomes {
			row = append(row, valueCell(&o, i, c.Label, widths[j], limit))
		}
		p.tableRow(labels, widths, row)
	}
}

func valueCell(o *Outcome, i int, label string, width, limit int) []piece {
	v, ok := o.cell(i, label)
	if !ok {
		return []piece{{"–", dim}}
	}
	s, mark := plain, ""
	if v.Wrong {
		s, mark = red, wrongMark
	}
	var cell []piece
	for _, l := range hang(mark, printable(v.Value), width, limit) {
		cell = append(cell, piece{l, s})
	}
	return cell
}

// valueNeeds is the width that each outcome needs to stand on single lines.
func valueNeeds(f *Finding, outcomes []Outcome) []int {
	need := make([]int, len(outcomes))
	for i, o := range outcomes {
		need[i] = max(cellWidth(printable(o.Order)), len("observed"))
		for j, c := range f.Observed.Cells {
			if v, ok := o.cell(j, c.Label); ok {
				n := cellWidth(printable(v.Value))
				if v.Wrong {
					n += cellWidth(wrongMark)
				}
				need[i] = max(need[i], n)
			}
		}
	}
	return need
}

// share brings widths down to a sum of room: those that need least get it, the
// others share the rest.
func share(widths []int, room int) {
	order := make([]int, len(widths))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return widths[a] - widths[b] })
	for i, o := range order {
		widths[o] = min(widths[o], max(room/(len(order)-i), minValue/2))
		room -= widths[o]
	}
}

// tableRow prints the cells of one row, each of which may have several lines.
func (p *textPrinter) tableRow(labels int, widths []int, cells [][]piece) {
	height := 0
	for _, c := range cells {
		height = max(height, len(c))
	}
	for l := range height {
		var pieces []piece
		for i, c := range cells {
			w := labels
			if i > 0 {
				pieces = append(pieces, piece{"  ", plain})
				w = widths[i-1]
			}
			var x piece
			if l < len(c) {
				x = c[l]
			}
			pieces = append(pieces, piece{pad(x.text, w), x.style})
		}
		p.line(pieces...)
	}
}

// summary says what was explored, and what was not.
func (p *textPrinter) summary() {
	r := p.report
	s := red
	if len(r.Findings) == 0 {
		s = bold
	}
	p.paragraph("", r.verdict(), s)
	p.line()
	for i := range r.Passes {
		x := &r.Passes[i]
		p.paragraph("", x.Name+": "+x.Search, bold)
		p.paragraph("  ", x.counts(), plain)
		s := yellow
		if x.Complete && x.Inconclusive == 0 {
			s = plain
		}
		p.paragraph("  ", x.coverage(), s)
		if why := x.reasonWords(); len(why) > 0 {
			p.paragraph("  inconclusive: ", strings.Join(why, "; "), yellow)
		}
	}
	p.line(piece{fmt.Sprintf("%s to know the right outcomes, %s in all", count(r.SerialRuns, "serial run"), duration(r.Took)), dim})
	p.list("The application also sent on its own (passed through, not explored):", r.Background)
	p.list("Notes:", r.Notes)
}

func (p *textPrinter) list(title string, items []string) {
	if len(items) == 0 {
		return
	}
	p.line()
	p.paragraph("", title, bold)
	for _, x := range items {
		p.paragraph("  - ", x, plain)
	}
}
