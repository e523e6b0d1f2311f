package sql

import "strings"

func (p *parser) statement() *Stmt {
	if p.startsQuery() || p.isWord("REPLACE") {
		return p.query()
	}
	t := p.tok()
	if t.kind != tokWord {
		p.fail("a statement")
		return &Stmt{}
	}
	s := &Stmt{Verb: Other}
	switch t.upper {
	case "BEGIN", "START":
		s.Verb = Begin
		s.Iso = isolation(p.restWords())
	case "COMMIT", "END":
		s.Verb = Commit
	case "ROLLBACK", "ABORT":
		s.Verb = Rollback
		if strings.Contains(p.restWords(), " TO ") {
			s.Verb = Other
		}
	case "LOCK":
		s.Verb = LockTbl
		p.at++
		p.anyWord("TABLE", "TABLES")
		s.Table = p.table()
		if p.word("IN") {
			s.Lock = lockMode(p.restWords())
		}
	case "CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME", "COMMENT", "GRANT", "REVOKE":
		s.Verb = DDL
	case "SET", "SAVEPOINT", "RELEASE", "ANALYZE", "VACUUM", "EXPLAIN", "PRAGMA", "NOTIFY", "LISTEN", "UNLISTEN",
		"REFRESH", "USE", "SHOW", "DO", "CALL", "COPY", "REINDEX", "UNLOCK", "ATTACH", "DETACH", "OPTIMIZE", "CHECKPOINT", "DEALLOCATE", "DISCARD":
		s.Iso = isolation(p.restWords())
	default:
		p.fail("a statement")
	}
	p.skipTo(";")
	return s
}

// restWords is the rest of the statement in upper case, for looking only.
func (p *parser) restWords() string {
	var b strings.Builder
	for i := p.at; i < len(p.toks) && p.toks[i].text != ";"; i++ {
		b.WriteString(p.toks[i].upper)
		b.WriteByte(' ')
	}
	return b.String()
}

func isolation(words string) string {
	for _, l := range []string{"SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED", "READ UNCOMMITTED"} {
		if strings.Contains(words, "ISOLATION LEVEL "+l) {
			return strings.ToLower(l)
		}
	}
	if strings.Contains(words, "BEGIN IMMEDIATE") || strings.Contains(words, "BEGIN EXCLUSIVE") {
		return "serializable"
	}
	return ""
}

func lockMode(words string) string {
	if strings.Contains(words, "SHARE MODE") && !strings.Contains(words, "ROW EXCLUSIVE") && !strings.Contains(words, "SHARE ROW") {
		return "share"
	}
	return "update"
}

// query reads SELECT, VALUES, INSERT, UPDATE, DELETE, with its WITH.
func (p *parser) query() *Stmt {
	p.nest()
	defer p.up()
	if p.bad != "" {
		return &Stmt{}
	}
	if p.op("(") {
		s := p.query()
		p.needOp(")")
		p.tail(s)
		return s
	}
	var ctes []CTE
	if p.word("WITH") {
		p.word("RECURSIVE")
		for p.bad == "" {
			c := CTE{Name: strings.ToLower(p.ident())}
			if p.isOp("(") {
				p.skipParens()
			}
			p.needWord("AS")
			p.word("NOT")
			p.word("MATERIALIZED")
			p.needOp("(")
			c.Stmt = p.query()
			p.needOp(")")
			ctes = append(ctes, c)
			if !p.op(",") {
				break
			}
		}
	}
	holes := p.holes
	var s *Stmt
	switch {
	case p.word("SELECT"):
		s = p.selectStmt()
	case p.word("VALUES"):
		s = &Stmt{Verb: Select}
		s.Values = p.valueRows()
	case p.isWord("INSERT"), p.isWord("REPLACE"):
		s = p.insertStmt()
	case p.word("UPDATE"):
		s = p.updateStmt()
	case p.word("DELETE"):
		s = p.deleteStmt()
	case p.isOp("("):
		s = p.query()
	default:
		p.fail("SELECT, INSERT, UPDATE or DELETE")
		return &Stmt{}
	}
	s.CTEs = append(ctes, s.CTEs...)
	s.Incomplete = s.Incomplete || p.holes > holes && p.trailingHole()
	return s
}

// trailingHole says whether the token before is a hole: what it stands for may
// be anything.
func (p *parser) trailingHole() bool { return p.at > 0 && p.toks[p.at-1].kind == tokHole }

func (p *parser) table() string {
	p.word("ONLY")
	name := p.ident()
	for p.op(".") {
		name = p.ident()
	}
	p.op("*")
	return strings.ToLower(name)
}

// clause words end a list of tables or an alias.
var clauseWords = map[string]bool{
	"WHERE": true, "SET": true, "GROUP": true, "ORDER": true, "LIMIT": true, "OFFSET": true, "FOR": true, "ON": true, "USING": true,
	"JOIN": true, "LEFT": true, "RIGHT": true, "INNER": true, "OUTER": true, "FULL": true, "CROSS": true, "NATURAL": true, "UNION": true,
	"EXCEPT": true, "INTERSECT": true, "RETURNING": true, "HAVING": true, "WINDOW": true, "FROM": true, "VALUES": true, "SELECT": true,
	"DEFAULT": true, "FETCH": true, "LOCK": true, "STRAIGHT_JOIN": true, "FORCE": true, "USE": true, "IGNORE": true, "INDEXED": true, "OVERRIDING": true, "LATERAL": true, "TABLESAMPLE": true, "WITH": true,
}

// alias reads an alias if there is one.
func (p *parser) alias() string {
	if p.word("AS") {
		a := strings.ToLower(p.ident())
		if p.isOp("(") {
			p.skipParens()
		}
		return a
	}
	if t := p.tok(); t.kind == tokQuoted || t.kind == tokWord && !clauseWords[t.upper] {
		p.at++
		if p.isOp("(") {
			p.skipParens()
		}
		return strings.ToLower(t.text)
	}
	return ""
}

func (p *parser) selectStmt() *Stmt {
	s := &Stmt{Verb: Select}
	p.anyWord("ALL", "SQL_NO_CACHE", "STRAIGHT_JOIN")
	if p.word("DISTINCT") && p.word("ON") {
		p.skipParens()
	}
	if !p.isWord("FROM") { // PostgreSQL takes an empty list
		s.Columns = p.columns()
	}
	if p.word("INTO") {
		p.skipWordsUntilFrom()
	}
	if p.word("FROM") {
		p.from(s)
	}
	p.where(s)
	p.tail(s)
	return s
}

func (p *parser) skipWordsUntilFrom() {
	for p.tok().kind != tokEOF && !p.isWord("FROM") && !p.isOp(";") {
		p.at++
	}
}

func (p *parser) columns() []Column {
	var out []Column
	for p.bad == "" {
		e := p.expr(0)
		c := Column{Expr: e}
		switch e.Kind {
		case Col, Call:
			c.Name = e.Name
		case Star:
			c.Name = "*"
		case HoleExpr:
			if p.peek(1).text == "." { // the hole had the comma in it
				out = append(out, c)
				continue
			}
		}
		if a := p.alias(); a != "" {
			c.Name = a
		}
		out = append(out, c)
		if !p.op(",") {
			break
		}
	}
	return out
}

// from reads the tables of a FROM clause into s.
func (p *parser) from(s *Stmt) {
	p.fromItem(s)
	for p.bad == "" {
		switch {
		case p.op(","):
			p.word("LATERAL")
			p.fromItem(s)
		case p.tok().kind == tokHole:
			p.at++
			p.holes++
			s.Incomplete = true
		case p.joinWords():
			p.word("LATERAL")
			p.fromItem(s)
			if p.word("ON") {
				s.On = append(s.On, p.expr(0))
			} else if p.word("USING") {
				p.skipParens()
			}
		default:
			return
		}
	}
}

func (p *parser) joinWords() bool {
	was := p.at
	for p.anyWord("NATURAL", "LEFT", "RIGHT", "INNER", "OUTER", "FULL", "CROSS") {
	}
	if p.anyWord("JOIN", "STRAIGHT_JOIN") {
		return true
	}
	p.at = was
	return false
}

func (p *parser) fromItem(s *Stmt) {
	p.nest()
	defer p.up()
	p.word("LATERAL")
	if p.isOp("(") {
		p.at++
		if p.startsQuery() {
			sub := p.query()
			p.needOp(")")
			p.alias()
			s.addTables(sub.tables()...)
			return
		}
		p.from(s)
		p.needOp(")")
		p.alias()
		return
	}
	hole := p.tok().kind == tokHole
	name := p.table()
	if p.isOp("(") { // a set-returning function
		p.skipParens()
		p.words("WITH", "ORDINALITY")
		p.alias()
		return
	}
	if p.word("TABLESAMPLE") {
		p.ident()
		p.skipParens()
	}
	if hole && name == "?" {
		for p.tok().kind == tokHole {
			p.at++
		}
	}
	alias := p.alias()
	if p.anyWord("FORCE", "USE", "IGNORE") {
		p.word("INDEX")
		p.skipParens()
	}
	if p.words("INDEXED", "BY") {
		p.ident()
	}
	s.addTables(Ref{name, alias})
}

func (s *Stmt) addTables(refs ...Ref) {
	for _, r := range refs {
		if s.Table == "" {
			s.Table, s.Alias = r.Name, r.Alias
		} else {
			s.Joined = append(s.Joined, r)
		}
	}
}

func (s *Stmt) tables() []Ref {
	if s.Table == "" {
		return s.Joined
	}
	return append([]Ref{{s.Table, s.Alias}}, s.Joined...)
}

func (p *parser) where(s *Stmt) {
	if p.tok().kind == tokHole {
		p.at++
		p.holes++
		s.Incomplete = true
	}
	if p.word("WHERE") {
		if p.words("CURRENT", "OF") {
			p.ident()
			return
		}
		s.Where = p.expr(0)
	}
}

// tail reads what follows WHERE.
func (p *parser) tail(s *Stmt) {
	for p.bad == "" {
		switch {
		case p.words("GROUP", "BY"):
			s.Group = true
			p.listUntilClause()
		case p.word("HAVING"):
			p.expr(0)
		case p.word("WINDOW"):
			p.ident()
			p.word("AS")
			p.skipParens()
		case p.words("ORDER", "BY"):
			s.Order = true
			p.listUntilClause()
		case p.word("LIMIT"):
			s.Limit = true
			p.listUntilClause()
		case p.word("OFFSET"):
			p.expr(0)
			p.anyWord("ROW", "ROWS")
		case p.word("FETCH"):
			s.Limit = true
			p.listUntilClause()
		case p.anyWord("UNION", "EXCEPT", "INTERSECT"):
			p.anyWord("ALL", "DISTINCT")
			other := p.query()
			s.addTables(other.tables()...)
			s.Where = nil
		case p.word("FOR"):
			p.rowLock(s)
		case p.words("LOCK", "IN", "SHARE", "MODE"):
			s.Lock = "share"
		case p.word("RETURNING"):
			s.Columns = p.columns()
		case p.tok().kind == tokHole:
			p.at++
			p.holes++
			s.Incomplete = true
		default:
			return
		}
	}
}

// rowLock reads FOR UPDATE and its kin.
func (p *parser) rowLock(s *Stmt) {
	switch {
	case p.words("NO", "KEY", "UPDATE"), p.word("UPDATE"):
		s.Lock = "update"
	case p.words("KEY", "SHARE"), p.word("SHARE"):
		s.Lock = "share"
	default:
		p.fail("UPDATE or SHARE")
	}
	if p.word("OF") {
		p.table()
		for p.op(",") {
			p.table()
		}
	}
	if p.words("SKIP", "LOCKED") {
		s.Lock = "skip"
	} else if p.word("NOWAIT") {
		s.Lock = "nowait"
	}
}

// listUntilClause passes over expressions and words up to the next clause.
func (p *parser) listUntilClause() {
	for p.bad == "" {
		t := p.tok()
		if t.kind == tokEOF || t.kind == tokOp && (t.text == ";" || t.text == ")") {
			return
		}
		if t.kind == tokWord && t.upper != "USING" && t.upper != "WITH" && t.upper != "ON" && clauseWords[t.upper] {
			return
		}
		if t.kind == tokOp && t.text == "(" {
			p.skipParens()
			continue
		}
		if t.kind == tokParam && t.text == "?" {
			p.params++
		}
		if t.kind == tokHole {
			p.holes++
		}
		p.at++
	}
}
