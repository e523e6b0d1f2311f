package report

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"
)

// Measures of the picture, in pixels.
const (
	glyph    = 7.25 // advance of one cell of the 12px monospaced font
	lineStep = 16.0
	padX     = 9.0
	padY     = 6.0
	rowGap   = 10.0
	margin   = 16.0
	nodeR    = 10.0
	toBox    = 20.0 // from the middle of a rail to the boxes of its lane
	gutter   = 118.0
	headStep = 40.0
)

// SVG writes the picture of one finding as a document of its own, with the
// finding's sentence above and the outcomes below it. It needs no other file
// and follows the reader's colour scheme.
func SVG(w io.Writer, r *Report, finding int) error {
	if finding < 0 || finding >= len(r.Findings) {
		return fmt.Errorf("draw finding %d of %s: the report has %s", finding, r.Scenario, count(len(r.Findings), "finding"))
	}
	if err := r.check(); err != nil {
		return err
	}
	d := newDrawing(r, finding, true)
	if _, err := w.Write(d.draw()); err != nil {
		return fmt.Errorf("write the picture of finding %d of %s: %w", finding, r.Scenario, err)
	}
	return nil
}

// textLine is one line within a box.
type textLine struct{ text, class string }

// box is one row of the timeline in the picture.
type box struct {
	row    Row
	lines  []textLine
	y, h   float64
	hot    bool
	number int
}

func (b *box) middle() float64 { return b.y + b.h/2 }

// drawing is one picture in the making.
type drawing struct {
	bytes.Buffer
	report   *Report
	finding  *Finding
	analysis analysis
	// id makes the names in this picture unique on a page with several.
	id string
	// alone: a document of its own, with style, heading and outcomes.
	alone   bool
	lanes   int
	chars   int // cells of a line in a box
	boxW    float64
	boxes   []box
	y       float64 // where the next part begins
	width   float64
	lanesAt float64 // the upper end of the rails
}

func newDrawing(r *Report, finding int, alone bool) *drawing {
	f := &r.Findings[finding]
	d := &drawing{report: r, finding: f, analysis: analyse(r, f), id: fmt.Sprintf("f%d", finding+1), alone: alone, lanes: max(len(r.Actors), 1)}
	switch d.lanes {
	case 1:
		d.chars = 64
	case 2:
		d.chars = 42
	case 3:
		d.chars = 30
	default:
		d.chars = 24
	}
	d.boxW = float64(d.chars)*glyph + 2*padX
	d.width = 2*margin + nodeR + float64(d.lanes)*(toBox+d.boxW) + float64(d.lanes-1)*(gutter+nodeR)
	return d
}

// rail is the middle of a lane's rail.
func (d *drawing) rail(lane int) float64 {
	return margin + nodeR + float64(lane)*(toBox+d.boxW+gutter+nodeR)
}

// draw returns the whole picture. The body is made first, since only then its
// height is known.
func (d *drawing) draw() []byte {
	d.y = margin
	if d.alone {
		d.heading()
	}
	d.laneHeads()
	d.placeRows()
	d.rails()
	d.bands()
	labels := d.links()
	for i := range d.boxes {
		d.box(&d.boxes[i])
	}
	d.labels(labels)
	d.legend()
	if d.alone {
		d.outcomes()
	}
	body := bytes.Clone(d.Bytes())
	d.Reset()
	d.open()
	d.Write(body)
	d.WriteString("</svg>\n")
	return d.Bytes()
}

func (d *drawing) open() {
	f := d.finding
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" class="hf" role="img" aria-labelledby="%s-title %s-desc" viewBox="0 0 %s %s" width="%s" height="%s">`+"\n",
		d.id, d.id, num(d.width), num(d.y+margin), num(d.width), num(d.y+margin))
	fmt.Fprintf(d, "<title id=\"%s-title\">%s</title>\n", d.id, esc(upperFirst(f.heading())+": "+f.Sentence))
	fmt.Fprintf(d, "<desc id=\"%s-desc\">%s</desc>\n", d.id, esc(d.description()))
	if d.alone {
		fmt.Fprintf(d, "<style>%s%s</style>\n", paletteCSS(".hf"), pictureCSS)
		d.WriteString(`<rect class="hf-bg" width="100%" height="100%" rx="8"/>` + "\n")
	}
	fmt.Fprintf(d, `<defs><pattern id="%[1]s-hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="hf-hatch" x1="0" y1="0" x2="0" y2="7"/></pattern>`+
		`<pattern id="%[1]s-dots" width="10" height="10" patternUnits="userSpaceOnUse"><circle class="hf-dots" cx="3" cy="3" r="1"/><circle class="hf-dots" cx="8" cy="8" r="1"/></pattern>`+
		`<marker id="%[1]s-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path class="hf-head" d="M0 0 8 4 0 8z"/></marker>`+
		`<marker id="%[1]s-amber" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path class="hf-head hf-amber" d="M0 0 8 4 0 8z"/></marker></defs>`+"\n", d.id)
}

// description is the picture in words: every row in order.
func (d *drawing) description() string {
	var b strings.Builder
	for i, row := range d.finding.Rows {
		fmt.Fprintf(&b, "%d %s: %s", i+1, d.report.actorName(row.Actor), printable(row.Step))
		if before, note, _ := rowNote(row); note != "" {
			b.WriteString(" " + strings.TrimPrefix(before, "┆ ") + note)
		}
		b.WriteString(". ")
	}
	return b.String() + d.analysis.why
}

func (d *drawing) heading() {
	d.y += 12
	d.text(margin, d.y, "hf-kind hf-sans", strings.ToUpper(d.finding.heading()))
	for _, l := range wrap(printable(d.finding.Sentence), int((d.width-2*margin)/9.3), 4) {
		d.y += 21
		d.text(margin, d.y, "hf-title hf-sans", l)
	}
	d.y += 24
}

func (d *drawing) laneHeads() {
	for i, a := range d.report.Actors {
		x := d.rail(i) - nodeR
		d.text(x, d.y+14, fmt.Sprintf("hf-title hf-sans hf-l%d", i%lanes), cut(d.report.actorName(i), d.chars-14))
		if a.Program {
			continue
		}
		fmt.Fprintf(d, `<text class="hf-sans hf-dim hf-small" x="%s" y="%s" text-anchor="end">instance %d</text>`+"\n",
			num(d.rail(i)+toBox+d.boxW), num(d.y+14), a.Instance)
	}
	d.lanesAt = d.y + 22
	d.y += headStep
}

// placeRows breaks the rows into lines and gives each its place.
func (d *drawing) placeRows() {
	hot := map[int]bool{}
	for _, l := range d.analysis.links {
		hot[l.from], hot[l.to] = true, true
	}
	for i, row := range d.finding.Rows {
		b := box{row: row, lines: d.rowLines(row), y: d.y, hot: hot[i], number: i + 1}
		b.h = 2*padY + float64(len(b.lines))*lineStep
		d.boxes = append(d.boxes, b)
		d.y += b.h + rowGap
	}
}

func (d *drawing) rowLines(row Row) []textLine {
	var lines []textLine
	add := func(class string, texts []string) {
		for _, t := range texts {
			if t != "" {
				lines = append(lines, textLine{t, class})
			}
		}
	}
	step := printable(row.Step)
	switch row.Kind {
	case RowRequest:
		add("hf-bold", wrap(step, d.chars, 2))
	case RowResponse:
		class := "hf-bold"
		if failedAnswer(step) {
			class = "hf-bold hf-race"
		}
		add(class, wrap(step, d.chars, 3))
	case RowWoke:
		add("hf-dim", shortenLines(step, d.chars, 1))
	default:
		add("", shortenLines(step, d.chars, 3))
	}
	if before, note, s := rowNote(row); note != "" {
		class := "hf-dim"
		switch s {
		case red:
			class = "hf-race"
		case yellow:
			class, before = "hf-wait", ""
		}
		add(class, hang(before, note, d.chars, 2))
	}
	if len(lines) == 0 {
		add("hf-dim", []string{ellipsis})
	}
	return lines
}

// text writes one line of text. What it says is made safe here.
func (d *drawing) text(x, y float64, class, s string) {
	fmt.Fprintf(d, `<text class="%s" x="%s" y="%s">%s</text>`+"\n", class, num(x), num(y), esc(s))
}

// esc makes text safe as XML and HTML content and attribute.
func esc(s string) string { return html.EscapeString(printableLines(s)) }

// num prints a length with at most one decimal.
func num(f float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}

// upperFirst is s with its first (ASCII) letter in upper case.
func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
