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
	unknownOf = regexp.MustCompile(`\b([A-Z])(?:\.\d+)?\.(?:\?|answer|item|content|now|found|err|col\.)\d+\.\d+`)
)

// people puts the terms of the interpreter into words: A.in.amount is A's
// amount, A.new3.0 a new value of A.
func people(s string) string {
	s = inputOf.ReplaceAllString(s, "$1's $2")
	s = input.ReplaceAllString(s, "$1")
	s = freshOf.ReplaceAllString(s, "new by $1")
	s = defaultOf.ReplaceAllString(s, "$2 made by $1")
	return unknownOf.ReplaceAllString(s, "something of $1")
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
		l := line{actor: e.Actor, then: people(e.Result), fault: e.Fault}
		if e.Step == nil {
			l.what, l.then = l.then, ""
		} else {
			l.what = what(e.Step)
			if !e.Step.Pos.IsZero() {
				l.pos = e.Step.Pos.String()
			}
		}
		out = append(out, l)
	}
	return out
}

// table draws the schedule with a column per actor.
func table(w *witness.Witness, width int) string {
	n := len(w.Actors)
	col := (width - 6 - 3*(n-1)) / n
	var b strings.Builder
	row := func(number string, actor int, text string) {
		b.WriteString(fmt.Sprintf("  %3s ", number))
		for i := range n {
			cell := ""
			if i == actor {
				cell = text
			}
			if i > 0 {
				b.WriteString(" | ")
			}
			if i == n-1 {
				b.WriteString(cell)
			} else {
				fmt.Fprintf(&b, "%-*s", col, cell)
			}
		}
		s := strings.TrimRight(b.String(), " ")
		b.Reset()
		b.WriteString(s + "\n")
	}
	heads := make([][]string, n)
	deep := 0
	for i, a := range w.Actors {
		title := a.Name + ": " + a.Entry.Title()
		if n > 1 && w.Actors[0].Process != w.Actors[n-1].Process {
			title += fmt.Sprintf(" (process %d)", a.Process+1)
		}
		heads[i] = wrap(title, col)
		deep = max(deep, len(heads[i]))
	}
	for j := range deep {
		var cells []string
		for i := range n {
			cell := ""
			if j < len(heads[i]) {
				cell = heads[i][j]
			}
			cells = append(cells, fmt.Sprintf("%-*s", col, cell))
		}
		b.WriteString(strings.TrimRight("      "+strings.Join(cells, " | "), " ") + "\n")
	}
	b.WriteString("      " + strings.TrimSuffix(strings.Repeat(strings.Repeat("-", col)+"-+-", n), "-+-") + "\n")
	for i, l := range lines(w) {
		number := fmt.Sprint(i + 1)
		first := l.what
		if l.fault && l.pos == "" {
			first = "*** " + l.what + " ***"
		}
		for _, t := range wrap(first, col) {
			row(number, l.actor, t)
			number = ""
		}
		if l.pos != "" {
			row("", l.actor, "  "+l.pos)
		}
		if l.then != "" {
			for _, t := range wrap("-> "+l.then, col-2) {
				row("", l.actor, "  "+t)
			}
		}
	}
	return b.String()
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
