package effect

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Format writes the text form; Parse reads it back.
func Format(p *Program) string {
	w := &writer{}
	if p.Module != "" {
		w.line("module ", word(p.Module))
	}
	if d := p.Deploy; d != (Deployment{}) {
		w.line("deploy", w.num("replicas", d.Replicas), w.yes("rolling", d.Rolling), w.str("isolation", d.Isolation), w.str("evidence", d.Evidence), w.at(d.Pos))
	}
	names := make([]string, 0, len(p.Schema.Tables))
	for n := range p.Schema.Tables {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		w.table(p.Schema.Tables[n])
	}
	for i := range p.Entries {
		w.entry(&p.Entries[i])
	}
	names = names[:0]
	for n := range p.Funcs {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		f := p.Funcs[n]
		w.line("func ", word(f.ID), "(", list(f.Params), ")", w.at(f.Pos), " {")
		w.block(f.Body)
		w.line("}")
	}
	return w.b.String()
}

// FormatStep writes one step and what is nested in it.
func FormatStep(s *Step) string {
	w := &writer{}
	w.step(s)
	return strings.TrimSuffix(w.b.String(), "\n")
}

type writer struct {
	b     strings.Builder
	depth int
}

func (w *writer) line(parts ...string) {
	w.b.WriteString(strings.Repeat("  ", w.depth))
	for _, p := range parts {
		w.b.WriteString(p)
	}
	w.b.WriteByte('\n')
}

// word quotes a name where the scanner would not take it for one word.
func word(s string) string {
	if s == "" || !isWord(s[0]) {
		return strconv.Quote(s)
	}
	for i := range len(s) {
		if !isWord(s[i]) {
			return strconv.Quote(s)
		}
	}
	return s
}

func list(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		if out[i] = word(n); n == "*" {
			out[i] = n
		}
	}
	return strings.Join(out, ", ")
}

func (w *writer) str(name, v string) string {
	switch v {
	case "":
		return ""
	case "?":
		return " " + name + "=?"
	}
	return " " + name + "=" + word(v)
}

func (w *writer) num(name string, n int) string {
	switch n {
	case 0:
		return ""
	case Many:
		return " " + name + "=many"
	}
	return fmt.Sprintf(" %s=%d", name, n)
}

func (w *writer) yes(name string, v bool) string {
	if v {
		return " " + name
	}
	return ""
}

func (w *writer) at(p Pos) string {
	if p.IsZero() {
		return ""
	}
	return " @" + p.String()
}

func (w *writer) names(name string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " " + name + "(" + list(names) + ")"
}

func (w *writer) val(name string, v *Value) string {
	if v == nil {
		return ""
	}
	return " " + name + "=" + v.String()
}

func (w *writer) table(t *Table) {
	var b strings.Builder
	b.WriteString("table " + word(t.Name))
	if len(t.Columns) > 0 {
		b.WriteString(" (" + list(t.Columns) + ")")
	}
	b.WriteString(w.names("primary", t.Primary))
	for _, u := range t.Unique {
		b.WriteString(" unique")
		if u.Name != "" {
			b.WriteString(" " + word(u.Name) + " ")
		}
		b.WriteString("(" + list(u.Cols) + ")" + w.str("partial", u.Where))
	}
	for _, c := range t.Checks {
		b.WriteString(" check=" + word(c))
	}
	for _, f := range t.ForeignKeys {
		b.WriteString(w.names("foreign", f.Cols) + " " + word(f.Ref) + w.str("ondelete", f.OnDelete))
	}
	w.line(b.String(), w.at(t.Pos))
}

func (w *writer) entry(e *Entry) {
	name := ""
	if e.Name != "" {
		name = " " + strconv.Quote(e.Name)
	}
	w.line("entry ", word(e.ID), " ", word(string(e.Kind)), name, w.str("retry", string(e.Retry)), w.num("per", e.PerProcess),
		w.num("procs", e.Processes), w.str("evidence", e.Evidence), w.at(e.Pos), " {")
	w.depth++
	for _, t := range e.Tests {
		w.line("test ", word(t.Name), w.yes("parallel", t.Parallel), w.yes("claims", t.Claims), w.at(t.Pos))
	}
	w.depth--
	w.block(e.Body)
	w.line("}")
}

func (w *writer) block(b Block) {
	w.depth++
	for i := range b {
		w.step(&b[i])
	}
	w.depth--
}

func (w *writer) step(s *Step) {
	head := string(s.Op)
	if s.Bind != "" {
		head = s.Bind + " := " + head
	}
	clauses := w.head(s) + w.effect(s) + w.at(s.Pos)
	if len(s.Body) == 0 && len(s.Else) == 0 && !slices.Contains([]Op{If, Loop, Scope, Spawn}, s.Op) {
		w.line(head, clauses)
		return
	}
	w.line(head, clauses, " {")
	w.block(s.Body)
	if len(s.Else) > 0 {
		w.line("} else {")
		w.block(s.Else)
	}
	w.line("}")
}

func (w *writer) head(s *Step) string {
	switch s.Op {
	case Let:
		return " " + s.Name + " = " + s.Val.String()
	case If:
		return " " + s.Val.String()
	case Loop:
		if s.Val != nil {
			return " while " + s.Val.String()
		}
	case Return:
		out := w.yes("fail", s.Fail)
		if len(s.Args) > 0 {
			out += " " + values(s.Args)
		}
		return out
	case Call:
		return " " + word(s.Func) + "(" + values(s.Args) + ")"
	}
	out := ""
	if s.Mode != "" {
		out = " " + s.Mode
	}
	if s.On != nil {
		out += " " + s.On.String()
	}
	if s.To != nil {
		out += " -> " + s.To.String()
	}
	return out
}

func values(vs []Value) string {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = v.String()
	}
	return strings.Join(out, ", ")
}

func assigns(as []Assign) string {
	out := make([]string, len(as))
	for i, a := range as {
		col := a.Col
		if col != "*" {
			col = word(col)
		}
		out[i] = col + " = " + a.Val.String()
	}
	return strings.Join(out, ", ")
}

func (r *Resource) String() string {
	s := string(r.Kind) + ":" + word(r.Name)
	if len(r.Key) > 0 {
		s += "[" + assigns(r.Key) + "]"
	}
	return s
}

func (w *writer) effect(s *Step) string {
	var b strings.Builder
	b.WriteString(w.names("cols", s.Cols))
	if len(s.Set) > 0 {
		b.WriteString(" set(" + assigns(s.Set) + ")")
	}
	if len(s.Where) > 0 {
		conds := make([]string, len(s.Where))
		for i, c := range s.Where {
			conds[i] = word(c.Col) + " " + c.Op + " " + c.Val.String()
		}
		b.WriteString(" where(" + strings.Join(conds, ", ") + ")")
	}
	if len(s.Args) > 0 && s.Op != Return && s.Op != Call {
		b.WriteString(" args(" + values(s.Args) + ")")
	}
	for _, name := range []string{"agg", "tx", "iso", "lock", "missing", "err", "stale", "content", "void", "note"} {
		if text := s.textClause(name); text != nil {
			b.WriteString(w.str(name, *text))
		}
	}
	for _, name := range []string{"shared", "try", "excl", "retry", "backoff", "ctx"} {
		b.WriteString(w.yes(name, *s.flag(name)))
	}
	b.WriteString(w.num("max", s.Max) + w.val("fence", s.Fence) + w.val("owner", s.Owner) + w.val("idem", s.Idem))
	if len(s.Via) > 0 {
		b.WriteString(" via(")
		for i, p := range s.Via {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString("@" + p.String())
		}
		b.WriteString(")")
	}
	return b.String()
}
