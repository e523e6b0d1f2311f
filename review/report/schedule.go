package report

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/rules"
	"github.com/holdfast-dev/holdfast/review/witness"
)

var (
	inputOf   = regexp.MustCompile(`\b([A-Z])(?:\.\d+)?\.in\.([\w.]+)`)
	input     = regexp.MustCompile(`\bin\.([\w.]+)`)
	freshOf   = regexp.MustCompile(`\b([A-Z])(?:\.\d+)?\.(?:new|temp)\d+\.\d+`)
	defaultOf = regexp.MustCompile(`\b([A-Z])(?:\.\d+)?\.(?:row|file|renamed)\d+(?:\.\d+)?\.(\w+)`)
	localOf   = regexp.MustCompile(`(?:\b[A-Z]\.)?\$\d+([A-Za-z_]\w*)`)
	unknownOf = regexp.MustCompile(`\b([A-Z])(?:\.\d+)?\.(?:\?|answer|item|content|now|found|err|col\.)\d+\.\d+`)
)

// people puts the terms of the interpreter into words: A.in.amount is A's
// amount, A.new3.0 a new value of A.
func people(s string) string {
	s = inputOf.ReplaceAllString(s, "$1's $2")
	s = input.ReplaceAllString(s, "$1")
	s = freshOf.ReplaceAllString(s, "new by $1")
	s = defaultOf.ReplaceAllString(s, "$2 made by $1")
	s = unknownOf.ReplaceAllString(s, "something of $1")
	return localOf.ReplaceAllString(s, "$1")
}

// short cuts a text that says more than a table cell can.
func short(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-3]) + "..."
}

// what says what a step does, as the source has it if the front end kept it.
func what(s *effect.Step) string {
	if s.Note != "" {
		return s.Note
	}
	name := ""
	if s.On != nil {
		name = " " + rules.Name(s.On)
	}
	switch s.Op {
	case effect.Write:
		verb := map[string]string{effect.Put: "store", effect.Truncate: "empty", effect.Fill: "fill", effect.Temp: "make a temporary file in",
			effect.Ignore: "insert if absent", effect.Create: "create"}[s.Mode]
		if verb == "" {
			verb = s.Mode
		}
		return verb + name
	case effect.Read:
		if s.Lock != "" {
			return "read" + name + " FOR " + strings.ToUpper(s.Lock)
		}
		if s.Agg != "" {
			return s.Agg + " of" + name
		}
	case effect.Rename:
		return "rename onto " + rules.Name(s.To)
	case effect.Send:
		return "call" + name
	case effect.Ack:
		return "acknowledge" + name
	case effect.Begin, effect.Commit, effect.Rollback, effect.Loop:
		return string(s.Op)
	case effect.Spawn:
		return "start a goroutine"
	}
	return string(s.Op) + name
}

// maxCell is the length from which a cell of the schedule is cut.
const maxCell = 140

// maxOutcome is the length from which an outcome is cut.
const maxOutcome = 400

// line is one row of the schedule.
type line struct {
	actor int
	pos   string
	what  string
	then  string
	fault bool
}

func lines(w *witness.Witness) []line {
	var out []line
	for _, e := range w.Events {
		l := line{actor: e.Actor, then: short(people(e.Result), maxCell), fault: e.Fault}
		if e.Step == nil {
			l.what, l.then = l.then, ""
		} else {
			l.what = short(people(what(e.Step)), maxCell)
			if !e.Step.Pos.IsZero() {
				l.pos = e.Step.Pos.String()
			}
		}
		out = append(out, l)
	}
	return out
}

// grid draws the schedule with a column per actor.
type grid struct {
	b   strings.Builder
	n   int // columns
	col int // width of one
}

func table(w *witness.Witness, width int) string {
	n := len(w.Actors)
	g := &grid{n: n, col: (width - 6 - 3*(n-1)) / n}
	g.head(w)
	for i, l := range lines(w) {
		number := fmt.Sprint(i + 1)
		first := l.what
		if l.fault && l.pos == "" {
			first = "*** " + l.what + " ***"
		}
		for _, t := range wrap(first, g.col) {
			g.row(number, l.actor, t)
			number = ""
		}
		if l.pos != "" {
			g.row("", l.actor, "  "+l.pos)
		}
		if l.then == "" {
			continue
		}
		for _, t := range wrap("-> "+l.then, g.col-2) {
			g.row("", l.actor, "  "+t)
		}
	}
	return g.b.String()
}

// head names the actors, and their processes where there are several.
func (g *grid) head(w *witness.Witness) {
	heads := make([][]string, g.n)
	deep := 0
	for i, a := range w.Actors {
		title := a.Name + ": " + a.Entry.Title()
		if w.Actors[0].Process != w.Actors[g.n-1].Process {
			title += fmt.Sprintf(" (process %d)", a.Process+1)
		}
		heads[i] = wrap(title, g.col)
		deep = max(deep, len(heads[i]))
	}
	for j := range deep {
		cells := make([]string, g.n)
		for i := range g.n {
			if j < len(heads[i]) {
				cells[i] = heads[i][j]
			}
		}
		g.cells("", cells)
	}
	g.b.WriteString("      " + strings.TrimSuffix(strings.Repeat(strings.Repeat("-", g.col)+"-+-", g.n), "-+-") + "\n")
}

// row writes a text into the column of an actor.
func (g *grid) row(number string, actor int, text string) {
	cells := make([]string, g.n)
	cells[actor] = text
	g.cells(number, cells)
}

func (g *grid) cells(number string, cells []string) {
	line := fmt.Sprintf("  %3s ", number)
	for i, c := range cells {
		if i > 0 {
			line += " | "
		}
		line += fmt.Sprintf("%-*s", g.col, c)
	}
	g.b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// wrap breaks a text at spaces so that lines have at most width columns; a word
// that is longer is broken anywhere.
func wrap(text string, width int) []string {
	var out []string
	cur := ""
	for _, word := range strings.Fields(text) {
		for len([]rune(word)) > width {
			if cur != "" {
				out = append(out, cur)
				cur = ""
			}
			r := []rune(word)
			out, word = append(out, string(r[:width])), string(r[width:])
		}
		switch {
		case cur == "":
			cur = word
		case len([]rune(cur))+1+len([]rune(word)) <= width:
			cur += " " + word
		default:
			out = append(out, cur)
			cur = word
		}
	}
	if cur != "" {
		out = append(out, cur)
	}
	return out
}
