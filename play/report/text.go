package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// TextOptions say how [Text] prints.
type TextOptions struct {
	// Width in terminal cells; 0 is 80. A timeline needs about 18 cells for
	// each actor, and a smaller width is not kept.
	Width int
	// Color uses ANSI colours.
	Color bool
	// Verbose shows up to three lines of a statement instead of two, the
	// footprint of each step, and outcomes whole.
	Verbose bool
}

// Limits of the layout, in cells.
const (
	defaultWidth = 80
	minColumn    = 16 // of one actor
	minValue     = 12 // of one column of outcomes
)

// style is an ANSI "select graphic rendition" sequence's parameters.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "1;31"
	yellow style = "33"
	green  style = "32"
)

// actorStyles colour the columns, in order.
var actorStyles = [...]style{"1;36", "1;35", "1;34", "1;32"}

// textPrinter collects the text of one report.
type textPrinter struct {
	bytes.Buffer
	report  *Report
	width   int
	color   bool
	verbose bool
}

func newTextPrinter(r *Report, o TextOptions) *textPrinter {
	p := &textPrinter{report: r, width: o.Width, color: o.Color, verbose: o.Verbose}
	if p.width <= 0 {
		p.width = defaultWidth
	}
	return p
}

// Text prints the report for a terminal. Errors are those of the writer, or say
// that the report contradicts itself.
func Text(w io.Writer, r *Report, opts TextOptions) error {
	if err := r.check(); err != nil {
		return err
	}
	p := newTextPrinter(r, opts)
	p.head()
	for i := range r.Findings {
		p.line()
		p.finding(i)
	}
	p.line()
	p.summary()
	if _, err := w.Write(p.Bytes()); err != nil {
		return fmt.Errorf("print the report of %s: %w", r.Scenario, err)
	}
	return nil
}

// piece is a stretch of text in one style.
type piece struct {
	text  string
	style style
}

// line prints pieces as one line, without spaces at its end.
func (p *textPrinter) line(pieces ...piece) {
	for i := len(pieces) - 1; i >= 0; i-- {
		pieces[i].text = strings.TrimRight(pieces[i].text, " ")
		if pieces[i].text != "" {
			break
		}
	}
	for _, x := range pieces {
		if p.color && x.style != plain && strings.TrimSpace(x.text) != "" {
			fmt.Fprintf(p, "\x1b[%sm%s\x1b[0m", x.style, x.text)
		} else {
			p.WriteString(x.text)
		}
	}
	p.WriteByte('\n')
}

// paragraph prints text wrapped, with first before its first line and the
// same width of spaces before the others. first is ASCII.
func (p *textPrinter) paragraph(first, text string, s style) {
	n := len(first)
	for _, l := range hang(first, printable(text), p.width, 0) {
		p.line(piece{l[:n], dim}, piece{l[n:], s})
	}
}

func (p *textPrinter) head() {
	r := p.report
	name, file := printable(r.Name), printable(r.Scenario)
	switch {
	case name == "":
		name, file = file, ""
	case name == file:
		file = ""
	}
	if file != "" {
		file = "  " + file
	}
	if cellWidth(name)+cellWidth(file) > p.width {
		p.line(piece{cut(name, p.width), bold})
		p.line(piece{cut(file, p.width), dim})
	} else {
		p.line(piece{name, bold}, piece{file, dim})
	}
	names := 0
	for i := range r.Actors {
		names = max(names, cellWidth(r.actorName(i)))
	}
	names = min(names, p.width/4)
	for i, a := range r.Actors {
		where := fmt.Sprintf("  instance %d", a.Instance)
		if a.Program {
			where = ""
		}
		room := max(p.width-2-names-2-len(where), minColumn)
		p.line(piece{"  ", plain}, piece{pad(cut(r.actorName(i), names), names), actorStyle(i)},
			piece{"  ", plain}, piece{cut(printable(a.Request), room), plain}, piece{where, dim})
	}
}

func actorStyle(i int) style { return actorStyles[i%len(actorStyles)] }

func (p *textPrinter) finding(i int) {
	r, f := p.report, &p.report.Findings[i]
	heading := strings.ToUpper(string(f.Kind))
	if f.Inside {
		heading += ", inside one statement"
	}
	if n := len(r.Findings); n > 1 {
		heading = fmt.Sprintf("%d of %d: %s", i+1, n, heading)
	}
	p.paragraph("", heading, red)
	p.paragraph("", f.Sentence, bold)
	p.line()
	a := analyse(r, f)
	p.timeline(f, a)
	if a.why != "" {
		p.line()
		p.paragraph("why: ", a.why, plain)
	}
	p.line()
	p.outcomes(f)
	p.line()
	p.paragraph("schedule: ", r.scheduleWords(f), plain)
	confirmed := yellow
	if f.sure() {
		confirmed = green
	}
	p.line(piece{"seen in ", dim}, piece{r.timesWords(f), plain}, piece{", ", dim}, piece{f.confirmedWords(), confirmed})
	if c := f.replayCommand(); c != "" {
		// A command is not wrapped: it is to be copied.
		p.line(piece{"replay: ", dim}, piece{printable(c), bold})
	}
}

// timeline prints one column for each actor, time downwards.
func (p *textPrinter) timeline(f *Finding, a analysis) {
	n := max(len(p.report.Actors), 1)
	digits := max(2, len(fmt.Sprint(len(f.Rows))))
	column := max((p.width-digits-2-3*(n-1))/n, minColumn)
	heads := make([][]piece, n)
	for i := range heads {
		heads[i] = []piece{{cut(p.report.actorName(i), column), actorStyle(i)}}
	}
	p.columns(digits, "", column, heads)
	rule := strings.Repeat("─", digits+2+column)
	for i := 1; i < n; i++ {
		rule += "─┼─" + strings.Repeat("─", column)
	}
	p.line(piece{rule, dim})
	for i, row := range f.Rows {
		cells := make([][]piece, n)
		cells[row.Actor] = p.rowCell(row, column)
		height := len(cells[row.Actor])
		for _, s := range a.spans {
			if s.kind != holds && s.from < i && i < s.to && s.actor != row.Actor {
				cells[s.actor] = slices.Repeat([]piece{{"┆", yellow}}, height)
			}
		}
		p.columns(digits, fmt.Sprint(i+1), column, cells)
	}
}

// columns prints cells of several lines side by side.
func (p *textPrinter) columns(digits int, number string, width int, cells [][]piece) {
	height := 1
	for _, c := range cells {
		height = max(height, len(c))
	}
	for l := range height {
		pieces := []piece{{fmt.Sprintf("%*s  ", digits, number), dim}}
		number = ""
		for i, c := range cells {
			if i > 0 {
				pieces = append(pieces, piece{" │ ", dim})
			}
			var x piece
			if l < len(c) {
				x = c[l]
			}
			pieces = append(pieces, piece{pad(x.text, width), x.style})
		}
		p.line(pieces...)
	}
}

// rowCell is what one row shows in its actor's column.
func (p *textPrinter) rowCell(row Row, width int) []piece {
	var cell []piece
	add := func(s style, lines []string) {
		for _, l := range lines {
			if l != "" {
				cell = append(cell, piece{l, s})
			}
		}
	}
	limit := 2
	if p.verbose {
		limit = 3
	}
	text := printable(row.Step)
	switch row.Kind {
	case RowRequest:
		add(bold, wrap(text, width, limit-1)) // the head of the report has it whole
	case RowResponse:
		s := bold
		if failedAnswer(text) {
			s = red
		}
		add(s, wrap(text, width, limit))
	case RowFault:
		add(yellow, wrap(text, width, limit+1))
	case RowWoke:
		add(dim, shortenLines(text, width, 1)) // it stands above already
	default:
		add(plain, shortenLines(text, width, limit))
	}
	if before, note, s := rowNote(row); note != "" {
		add(s, hang(before, note, width, limit))
	}
	if p.verbose && row.Touch != "" {
		add(dim, hang("· ", printable(row.Touch), width, limit))
	}
	if len(cell) == 0 {
		add(dim, []string{ellipsis})
	}
	return cell
}

// failedAnswer reports whether a response is a server error or none at all.
func failedAnswer(text string) bool {
	if strings.HasPrefix(text, "exit 0") {
		return false
	}
	return text == "" || text[0] == '5' || text[0] < '0' || text[0] > '9'
}

// rowNote is what is said beneath a step, the mark before it and its style.
func rowNote(row Row) (before, note string, s style) {
	note, s, before = printable(row.Note), dim, "→ "
	switch row.Kind {
	case RowRequest, RowResponse:
		before = ""
	case RowBlocked:
		before, s = "┆ ", yellow
		if note == "" {
			note = "waits"
		}
	case RowPause:
		before, s = "┆ ", yellow
		if note == "" {
			note = "stops after its snapshot"
		}
	case RowWoke:
		switch {
		case note == "":
			before, note = "", "goes on"
		case strings.HasPrefix(note, "goes on"):
			before = ""
		default:
			before = "goes on → "
		}
	}
	if errorNote.MatchString(note) {
		s = red
	}
	return before, note, s
}
