package sql

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// maxSchemaFile keeps data dumps out: a migration is small.
const maxSchemaFile = 4 << 20

// ReadDir reads all schema and migration files below a folder, in the order of
// their paths, which is the order in which every migration tool runs them.
// Parts that take a migration back are left out.
func ReadDir(ctx context.Context, dir string) (*effect.Schema, error) {
	var files []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n := d.Name()
		if d.IsDir() {
			if p != dir && (n == "vendor" || n == "node_modules" || n == "testdata" || strings.HasPrefix(n, ".") || strings.HasPrefix(n, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(n, ".sql") || isDown(n) {
			return nil
		}
		if i, err := d.Info(); err == nil && i.Size() <= maxSchemaFile {
			files = append(files, p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sort.Strings(files)
	s := NewSchema()
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(dir, f)
		if err != nil {
			rel = f
		}
		s.Apply(string(text), effect.Pos{File: filepath.ToSlash(rel), Line: 1})
	}
	return &effect.Schema{Tables: s.Tables}, nil
}

func isDown(name string) bool {
	return strings.HasSuffix(name, ".down.sql") || strings.HasSuffix(name, "_down.sql") || name == "down.sql"
}

// Schema is what the statements applied so far leave behind.
type Schema struct {
	Tables  map[string]*effect.Table
	indexes map[string]string // unique index or constraint -> table
}

// NewSchema starts with nothing.
func NewSchema() *Schema {
	return &Schema{Tables: map[string]*effect.Table{}, indexes: map[string]string{}}
}

// From goes on from a schema that is there already.
func From(e *effect.Schema) *Schema {
	s := NewSchema()
	for n, t := range e.Tables {
		s.Tables[n] = t
		for _, u := range t.Unique {
			if u.Name != "" {
				s.indexes[u.Name] = n
			} else if len(u.Cols) == 1 {
				s.indexes[n+"_"+u.Cols[0]+"_key"] = n
			}
		}
	}
	return s
}

// AddUnique puts a unique constraint on a table, which is made if it is not there.
func (s *Schema) AddUnique(table string, u effect.Unique) {
	s.addUnique(s.table(table, u.Pos), u)
}

// SetPrimary names the primary key of a table that has none yet.
func (s *Schema) SetPrimary(table string, cols []string, pos effect.Pos) {
	if t := s.table(table, pos); len(t.Primary) == 0 {
		t.Primary = cols
	}
}

// Apply runs the data definition statements of a text that begins at pos.
// Statements that are not understood are passed over: a schema is made of many
// more kinds of them than matter here.
func (s *Schema) Apply(text string, pos effect.Pos) {
	text = upPart(text)
	toks, _ := lex(text)
	for start := 0; start < len(toks); {
		end := start
		for end < len(toks) && toks[end].kind != tokEOF && toks[end].text != ";" {
			end++
		}
		if end > start {
			at := pos
			if n := strings.Count(text[:toks[start].at], "\n"); n > 0 {
				at.Line, at.Col = at.Line+n, 0
			}
			p := &parser{src: text, toks: append(append([]token(nil), toks[start:end]...), token{kind: tokEOF, at: len(text)})}
			s.statement(p, at)
		}
		start = end + 1
	}
}

// upPart cuts off the section that takes a migration back.
func upPart(text string) string {
	low := strings.ToLower(text)
	cut := len(text)
	for _, mark := range []string{"-- +goose down", "-- +migrate down", "-- migrate:down", "--+goose down", "-- +up down"} {
		if i := strings.Index(low, mark); i >= 0 && i < cut {
			cut = i
		}
	}
	return text[:cut]
}

func (s *Schema) statement(p *parser, pos effect.Pos) {
	switch {
	case p.word("CREATE"):
		p.words("OR", "REPLACE")
		p.anyWord("TEMP", "TEMPORARY", "UNLOGGED", "GLOBAL", "LOCAL")
		switch {
		case p.word("TABLE"):
			s.createTable(p, pos)
		case p.words("UNIQUE", "INDEX"), p.words("UNIQUE", "KEY"):
			s.createUnique(p, pos)
		}
	case p.words("ALTER", "TABLE"):
		s.alterTable(p, pos)
	case p.words("DROP", "INDEX"):
		p.word("CONCURRENTLY")
		p.words("IF", "EXISTS")
		s.dropIndex(p.table())
	case p.words("DROP", "TABLE"):
		p.words("IF", "EXISTS")
		for {
			delete(s.Tables, p.table())
			if !p.op(",") {
				break
			}
		}
	}
}

func (s *Schema) table(name string, pos effect.Pos) *effect.Table {
	t := s.Tables[name]
	if t == nil {
		t = &effect.Table{Name: name, Pos: pos}
		s.Tables[name] = t
	}
	return t
}

func (s *Schema) createTable(p *parser, pos effect.Pos) {
	p.words("IF", "NOT", "EXISTS")
	name := p.table()
	if p.bad != "" || name == "" {
		return
	}
	if p.words("PARTITION", "OF") || !p.op("(") {
		return
	}
	t := s.table(name, pos)
	for p.bad == "" && p.tok().kind != tokEOF {
		at := p.tok()
		itemPos := pos
		itemPos.Line += strings.Count(p.src[p.toks[0].at:at.at], "\n")
		if !s.tableConstraint(p, t, itemPos) {
			s.columnDef(p, t, itemPos)
		}
		p.skipItem()
		if !p.op(",") {
			break
		}
	}
}

// skipItem moves to the comma or parenthesis that ends an element.
func (p *parser) skipItem() {
	for p.tok().kind != tokEOF && !p.isOp(",") && !p.isOp(")") && p.bad == "" {
		if p.isOp("(") {
			p.skipParens()
			continue
		}
		p.at++
	}
}

// tableConstraint reads one constraint; false if the element is a column.
func (s *Schema) tableConstraint(p *parser, t *effect.Table, pos effect.Pos) bool {
	name := ""
	if p.word("CONSTRAINT") {
		if !p.isWord("UNIQUE") && !p.isWord("PRIMARY") && !p.isWord("CHECK") && !p.isWord("FOREIGN") {
			name = strings.ToLower(p.ident())
		}
	}
	switch {
	case p.words("PRIMARY", "KEY"):
		p.anyWord("CLUSTERED", "NONCLUSTERED")
		if p.words("USING", "INDEX") {
			return true
		}
		p.needOp("(")
		t.Primary = p.nameList()
	case p.isWord("UNIQUE") && (p.peek(1).text == "(" || p.peek(1).kind != tokEOF && isKeyWord(p.peek(1))):
		p.at++
		p.anyWord("KEY", "INDEX")
		p.words("NULLS", "NOT", "DISTINCT")
		if p.words("USING", "INDEX") {
			return true
		}
		if !p.isOp("(") {
			name = strings.ToLower(p.ident())
		}
		p.needOp("(")
		if cols := p.nameList(); p.bad == "" {
			s.addUnique(t, effect.Unique{Name: name, Cols: cols, Pos: pos})
		}
	case p.word("CHECK"):
		t.Checks = append(t.Checks, p.parenText())
	case p.words("FOREIGN", "KEY"):
		if !p.isOp("(") {
			p.ident()
		}
		p.needOp("(")
		cols := p.nameList()
		p.needWord("REFERENCES")
		s.reference(p, t, cols)
	case p.word("EXCLUDE"):
		t.Checks = append(t.Checks, "EXCLUDE")
	case name != "":
		return true
	case p.isWord("KEY"), p.isWord("INDEX"), p.isWord("LIKE"), p.isWord("FULLTEXT"), p.isWord("SPATIAL"), p.isWord("PERIOD"):
		// A column may have such a name; then a type follows.
		next := p.peek(1)
		return next.text == "(" || p.peek(2).text == "(" && next.upper != "VARCHAR" && next.upper != "CHAR" && next.upper != "NUMERIC" && next.upper != "DECIMAL"
	default:
		return false
	}
	return true
}

func isKeyWord(t token) bool {
	return t.upper == "KEY" || t.upper == "INDEX" || t.kind == tokQuoted || t.upper == "NULLS" || t.upper == "USING" || t.kind == tokWord
}

// parenText is the text in a pair of parentheses.
func (p *parser) parenText() string {
	if !p.isOp("(") {
		return ""
	}
	from := p.tok().at + 1
	p.skipParens()
	if p.bad != "" {
		return ""
	}
	to := p.toks[p.at-1].at
	return strings.Join(strings.Fields(p.src[from:to]), " ")
}

func (s *Schema) columnDef(p *parser, t *effect.Table, pos effect.Pos) {
	if k := p.tok().kind; k != tokWord && k != tokQuoted {
		return
	}
	col := strings.ToLower(p.ident())
	known := false
	for _, c := range t.Columns {
		known = known || c == col
	}
	if !known {
		t.Columns = append(t.Columns, col)
	}
	for p.tok().kind != tokEOF && !p.isOp(",") && !p.isOp(")") && p.bad == "" {
		switch {
		case p.words("PRIMARY", "KEY"):
			t.Primary = []string{col}
		case p.word("UNIQUE"):
			s.addUnique(t, effect.Unique{Cols: []string{col}, Pos: pos})
		case p.word("CHECK"):
			t.Checks = append(t.Checks, p.parenText())
		case p.word("REFERENCES"):
			s.reference(p, t, []string{col})
		case p.isOp("("):
			p.skipParens()
		default:
			p.at++
		}
	}
}

func (s *Schema) reference(p *parser, t *effect.Table, cols []string) {
	fk := effect.ForeignKey{Cols: cols, Ref: p.table()}
	if p.isOp("(") {
		p.skipParens()
	}
	for p.word("ON") {
		del := p.isWord("DELETE")
		p.at++
		action := strings.ToLower(p.tok().upper)
		p.at++
		if action == "set" || action == "no" {
			action += " " + strings.ToLower(p.tok().upper)
			p.at++
		}
		if del {
			fk.OnDelete = action
		}
	}
	t.ForeignKeys = append(t.ForeignKeys, fk)
}

func (s *Schema) addUnique(t *effect.Table, u effect.Unique) {
	for _, c := range u.Cols {
		if c == "" || c == "?" {
			return // an index on an expression; which rows it keeps apart is not known
		}
	}
	for _, old := range t.Unique {
		if old.Where == u.Where && strings.Join(old.Cols, ",") == strings.Join(u.Cols, ",") {
			return
		}
	}
	if u.Name != "" {
		s.indexes[u.Name] = t.Name
	} else if len(u.Cols) == 1 {
		s.indexes[t.Name+"_"+u.Cols[0]+"_key"] = t.Name
	}
	t.Unique = append(t.Unique, u)
}

func (s *Schema) createUnique(p *parser, pos effect.Pos) {
	p.word("CONCURRENTLY")
	p.words("IF", "NOT", "EXISTS")
	name := ""
	if !p.isWord("ON") {
		name = p.table()
	}
	p.needWord("ON")
	table := p.table()
	if p.word("USING") {
		p.ident()
	}
	p.needOp("(")
	u := effect.Unique{Name: name, Pos: pos}
	u.Cols = p.indexColumns()
	if p.words("INCLUDE") {
		p.skipParens()
	}
	p.words("NULLS", "NOT", "DISTINCT")
	if p.bad != "" {
		return
	}
	if p.word("WHERE") {
		u.Where = strings.Join(strings.Fields(p.src[p.tok().at:p.toks[len(p.toks)-2].end]), " ")
	}
	s.addUnique(s.table(table, pos), u)
}

// indexColumns are the columns of an index; lower(email) counts as email, because
// a check for the one or the other is kept apart by it.
func (p *parser) indexColumns() []string {
	var out []string
	for !p.op(")") && p.bad == "" && p.tok().kind != tokEOF {
		switch {
		case p.isOp("("):
			p.at++
			e := p.expr(0)
			p.needOp(")")
			out = append(out, firstCol(e))
		default:
			out = append(out, firstCol(p.expr(8)))
		}
		for p.tok().kind != tokEOF && !p.isOp(",") && !p.isOp(")") {
			p.at++
		}
		p.op(",")
	}
	return out
}

func firstCol(e *Expr) string {
	name := ""
	e.Walk(func(x *Expr) {
		if x.Kind == Col && name == "" {
			name = x.Name
		}
	})
	return name
}
