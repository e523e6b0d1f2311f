package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/play/oracle"
)

// rails draws a line for the life of each actor and bars where it holds locks.
func (d *drawing) rails() {
	for lane := range d.lanes {
		end := d.lanesAt
		for i := range d.boxes {
			if d.boxes[i].row.Actor == lane {
				end = d.boxes[i].middle()
			}
		}
		fmt.Fprintf(d, `<line class="hf-rail" x1="%[1]s" y1="%[2]s" x2="%[1]s" y2="%[3]s"/>`+"\n", num(d.rail(lane)), num(d.lanesAt), num(end))
	}
	for _, s := range d.analysis.spans {
		if s.kind != holds {
			continue
		}
		from, to := &d.boxes[s.from], &d.boxes[s.to]
		fmt.Fprintf(d, `<rect class="hf-l%d" x="%s" y="%s" width="8" height="%s" rx="4"><title>%s</title></rect>`+"\n",
			s.actor%lanes, num(d.rail(s.actor)-4), num(from.middle()), num(to.middle()-from.middle()),
			esc(fmt.Sprintf("%s holds a lock on %s", d.report.actorName(s.actor), strings.Join(s.objects, ", "))))
	}
}

// bands shades the lane of an actor while it is blocked or stopped.
func (d *drawing) bands() {
	for _, s := range d.analysis.spans {
		fill, what := "hatch", "waits"
		switch s.kind {
		case holds:
			continue
		case stops:
			fill, what = "dots", "is stopped after its snapshot"
		}
		from, to := &d.boxes[s.from], &d.boxes[s.to]
		top, bottom := from.y+from.h, to.y
		if s.to == len(d.finding.Rows)-1 && to.row.Actor != s.actor {
			bottom = to.y + to.h // it never went on
		}
		if bottom-top < 2 {
			continue
		}
		fmt.Fprintf(d, `<rect class="hf-band" fill="url(#%s-%s)" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`+"\n",
			d.id, fill, num(d.rail(s.actor)+toBox+12), num(top), num(d.boxW-24), num(bottom-top),
			esc(d.report.actorName(s.actor)+" "+what))
	}
}

func (d *drawing) box(b *box) {
	lane := b.row.Actor
	x := d.rail(lane) + toBox
	tip := printable(b.row.Step)
	for _, s := range []string{b.row.Note, b.row.Touch} {
		if s = printable(s); s != "" {
			tip += "\n" + s
		}
	}
	class := "hf-box"
	rx := 4.0
	if b.row.Kind == RowRequest || b.row.Kind == RowResponse {
		class = fmt.Sprintf("hf-talk hf-s%d", lane%lanes)
		rx = 14
	}
	if b.hot {
		class += " hf-hot"
	}
	fmt.Fprintf(d, "<g><title>%s</title>", esc(tip))
	fmt.Fprintf(d, `<line class="hf-rail" x1="%s" y1="%[2]s" x2="%s" y2="%[2]s"/>`, num(d.rail(lane)), num(b.middle()), num(x))
	fmt.Fprintf(d, `<rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="%s"/>`, class, num(x), num(b.y), num(d.boxW), num(b.h), num(rx))
	fmt.Fprintf(d, `<circle class="hf-l%d" cx="%s" cy="%s" r="%s"/>`, lane%lanes, num(d.rail(lane)), num(b.middle()), num(nodeR))
	fmt.Fprintf(d, `<text class="hf-node hf-sans" x="%s" y="%s">%d</text>`+"\n", num(d.rail(lane)), num(b.middle()+3.8), b.number)
	for i, l := range b.lines {
		d.text(x+padX, b.y+padY+float64(i)*lineStep+12, l.class, l.text)
	}
	d.WriteString("</g>\n")
}

// label is the text on a link.
type label struct {
	x, y  float64
	text  string
	amber bool
}

// links draws the arrows, beneath the boxes, and returns their labels.
func (d *drawing) links() []label {
	var labels []label
	leaving := map[int]int{}
	for _, l := range d.analysis.links {
		from, to := &d.boxes[l.from], &d.boxes[l.to]
		text := linkLabel(d.finding.Kind, l.kind)
		// A label stands before the arrow's head, since it is said of that end.
		back := -14 - pillWidth(text)/2
		x0, x1 := d.rail(from.row.Actor)+toBox+d.boxW, d.rail(to.row.Actor)-nodeR-2
		if from.row.Actor > to.row.Actor {
			back = -back
			x0, x1 = d.rail(from.row.Actor)-nodeR-2, d.rail(to.row.Actor)+toBox+d.boxW+2
		}
		// Several arrows may leave one box: apart, in the order of their ends.
		y0, y1 := from.middle(), to.middle()
		if leaving[l.from] > 0 || y1 > y0 {
			y0 += 4
		} else {
			y0 -= 4
		}
		leaving[l.from]++
		class, marker := "hf-link", "arrow"
		if l.kind == missed {
			class += " hf-dash"
		}
		if l.kind == waitsFor {
			class, marker = class+" hf-amber", "amber"
		}
		mid := (x0 + x1) / 2
		fmt.Fprintf(d, `<path class="%s" marker-end="url(#%s-%s)" d="M%s %sC%[6]s %[5]s %[6]s %[7]s %[8]s %[7]s"><title>%[9]s</title></path>`+"\n",
			class, d.id, marker, num(x0), num(y0), num(mid), num(y1), num(x1), esc(d.linkTitle(l)))
		labels = append(labels, label{x1 + back, curveY(x0, y0, x1, y1, x1+back), text, l.kind == waitsFor})
	}
	return labels
}

// pillWidth is the width of the frame around a label.
func pillWidth(text string) float64 { return float64(len(text))*6.3 + 12 }

// curveY is the height at x of the curve that links draws from (x0, y0) to
// (x1, y1), which is monotonous in x.
func curveY(x0, y0, x1, y1, x float64) float64 {
	mid, lo, hi := (x0+x1)/2, 0.0, 1.0
	for range 30 {
		t := (lo + hi) / 2
		u := 1 - t
		if at := u*u*u*x0 + 3*u*t*mid + t*t*t*x1; (at < x) == (x0 < x1) {
			lo = t
		} else {
			hi = t
		}
	}
	return y0 + (y1-y0)*lo*lo*(3-2*lo)
}

func (d *drawing) linkTitle(l link) string {
	t := timeline{}
	return t.words(d.report, []link{l})
}

func linkLabel(kind oracle.Kind, l linkKind) string {
	switch {
	case l == missed:
		return "not seen here"
	case l == seen:
		return "seen here"
	case l == waitsFor:
		return "waits for"
	case kind == oracle.LostUpdate:
		return "overwritten"
	case kind == oracle.DuplicateEffect:
		return "done again"
	}
	return "written again"
}

// labels draws the labels above everything, moved apart where they would
// overlap.
func (d *drawing) labels(labels []label) {
	slices.SortStableFunc(labels, func(a, b label) int { return cmp.Compare(a.y, b.y) })
	for i := range labels {
		l := &labels[i]
		for _, other := range labels[:i] {
			if abs(int(other.x-l.x)) < gutter && l.y < other.y+18 {
				l.y = other.y + 18
			}
		}
		class, pill := "hf-sans hf-small hf-mid hf-race", "hf-pill"
		if l.amber {
			class, pill = "hf-sans hf-small hf-mid hf-wait", "hf-pill hf-amber"
		}
		w := pillWidth(l.text)
		fmt.Fprintf(d, `<rect class="%s" x="%s" y="%s" width="%s" height="16" rx="8"/>`, pill, num(l.x-w/2), num(l.y-8), num(w))
		d.text(l.x, l.y+3.8, class, l.text)
	}
}

// legend explains the signs that this picture has.
func (d *drawing) legend() {
	x, y := margin, d.y+12
	entry := func(sign, text string) {
		w := 34 + float64(cellWidth(text))*6.6
		if x > margin && x+w > d.width-margin {
			x, y = margin, y+20
		}
		fmt.Fprintf(d, `<g transform="translate(%s %s)">%s</g>`, num(x), num(y), sign)
		d.text(x+26, y+4, "hf-sans hf-small hf-dim", text)
		x += w + 14
	}
	has := func(kind spanKind) bool {
		return slices.ContainsFunc(d.analysis.spans, func(s span) bool { return s.kind == kind })
	}
	linked := func(kind linkKind) bool {
		return slices.ContainsFunc(d.analysis.links, func(l link) bool { return l.kind == kind })
	}
	band := func(fill string) string {
		return fmt.Sprintf(`<rect class="hf-band" fill="url(#%s-%s)" y="-6" width="20" height="12"/>`, d.id, fill)
	}
	arrow := func(class, marker string) string {
		return fmt.Sprintf(`<path class="hf-link%s" marker-end="url(#%s-%s)" d="M0 0H20"/>`, class, d.id, marker)
	}
	start := x
	if has(holds) {
		entry(`<rect class="hf-l0" y="-4" width="20" height="8" rx="4"/>`, "holds a lock")
	}
	if has(waits) {
		entry(band("hatch"), "waits for another actor")
	}
	if has(stops) {
		entry(band("dots"), "stopped after its snapshot")
	}
	if linked(missed) {
		entry(arrow(" hf-dash", "arrow"), "this read did not see that write")
	}
	if linked(seen) {
		entry(arrow("", "arrow"), "this read saw that write")
	}
	if linked(over) {
		entry(arrow("", "arrow"), "this write came on top of that write")
	}
	if linked(waitsFor) {
		entry(arrow(" hf-amber", "amber"), "waits for what this step has locked")
	}
	if x > start {
		d.WriteByte('\n')
		d.y = y + 10
	}
}

// outcomes draws the observed outcome beside the serial ones.
func (d *drawing) outcomes() {
	f := d.finding
	if len(f.Observed.Cells) == 0 {
		return
	}
	const most = 3 // serial orders side by side
	shown := append([]Outcome{f.Observed}, f.Serial[:min(len(f.Serial), most)]...)
	chars := int((d.width - 2*margin) / glyph)
	labels := 0
	for _, c := range f.Observed.Cells {
		labels = max(labels, cellWidth(printable(c.Label)))
	}
	labels = min(labels, chars/3)
	widths := valueNeeds(f, shown)
	share(widths, chars-labels-2*len(widths))
	d.y += 14
	d.rule()
	row := func(cells [][]textLine) {
		x, height := margin, 1
		for i, c := range cells {
			height = max(height, len(c))
			for j, l := range c {
				d.text(x, d.y+13+float64(j)*lineStep, l.class, l.text)
			}
			w := labels
			if i > 0 {
				w = widths[i-1]
			}
			x += float64(w+2) * glyph
		}
		d.y += float64(height)*lineStep + 8
	}
	head := [][]textLine{nil}
	for i, o := range shown {
		title, class := printable(o.Order), "hf-bold"
		if i == 0 {
			title, class = "observed", "hf-bold hf-race"
		}
		head = append(head, lines(class, wrap(title, widths[i], 2)))
	}
	row(head)
	for i, c := range f.Observed.Cells {
		cells := [][]textLine{lines("hf-dim", wrap(printable(c.Label), labels, 2))}
		for j, o := range shown {
			cells = append(cells, d.valueLines(&o, i, c.Label, widths[j]))
		}
		row(cells)
	}
	d.rule()
	foot := "seen in " + d.report.timesWords(f) + ", " + f.confirmedWords()
	if n := len(f.Serial) - most; n > 0 {
		foot = count(n, "more serial order") + " not shown; " + foot
	}
	if slices.ContainsFunc(f.Observed.Cells, func(c Cell) bool { return c.Wrong }) {
		foot = "✗ in no serial order; " + foot
	}
	d.text(margin, d.y+16, "hf-sans hf-dim", foot)
	d.y += 18
}

func (d *drawing) rule() {
	fmt.Fprintf(d, `<line class="hf-rule" x1="%s" y1="%[2]s" x2="%s" y2="%[2]s"/>`+"\n", num(margin), num(d.y), num(d.width-margin))
	d.y += 6
}

func (d *drawing) valueLines(o *Outcome, i int, label string, width int) []textLine {
	v, ok := o.cell(i, label)
	switch {
	case !ok:
		return lines("hf-dim", []string{"–"})
	case v.Wrong:
		return lines("hf-bold hf-race", hang(wrongMark, printable(v.Value), width, 3))
	}
	return lines("", wrap(printable(v.Value), width, 3))
}

func lines(class string, texts []string) []textLine {
	all := make([]textLine, len(texts))
	for i, t := range texts {
		all[i] = textLine{t, class}
	}
	return all
}
