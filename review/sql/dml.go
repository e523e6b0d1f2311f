package sql

import "strings"

func (p *parser) valueRows() [][]*Expr {
	var out [][]*Expr
	for p.bad == "" {
		switch {
		case p.op("("):
			out = append(out, p.exprList())
		case p.tok().kind == tokHole:
			p.at++
			p.holes++
		default:
			p.fail("a row of values")
		}
		if !p.op(",") {
			break
		}
	}
	return out
}

func (p *parser) insertStmt() *Stmt {
	s := &Stmt{Verb: Insert}
	if p.word("REPLACE") {
		s.OnConflict = &Conflict{Replace: true}
	} else {
		p.needWord("INSERT")
		switch {
		case p.words("OR", "REPLACE"):
			s.OnConflict = &Conflict{Replace: true}
		case p.words("OR", "IGNORE"), p.word("IGNORE"):
			s.OnConflict = &Conflict{Nothing: true}
		case p.word("OR"):
			p.ident()
		}
	}
	p.anyWord("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY")
	p.word("INTO")
	s.Table = p.table()
	if p.word("AS") {
		s.Alias = strings.ToLower(p.ident())
	}
	if p.isOp("(") && !p.parenQuery() {
		p.at++
		s.InsertCols = p.nameList()
	}
	if p.word("OVERRIDING") {
		p.anyWord("SYSTEM", "USER")
		p.word("VALUE")
	}
	switch {
	case p.words("DEFAULT", "VALUES"):
	case p.anyWord("VALUES", "VALUE"):
		s.Values = p.valueRows()
		p.alias()
	case p.word("SET"):
		for _, a := range p.assigns() {
			s.InsertCols = append(s.InsertCols, a.Col)
			if len(s.Values) == 0 {
				s.Values = [][]*Expr{nil}
			}
			s.Values[0] = append(s.Values[0], a.Val)
		}
	case p.startsQuery():
		s.Source = p.query()
		if s.Source.Verb == Select {
			s.Columns = nil
		}
	case p.tok().kind == tokHole:
		p.at++
		p.holes++
		s.Incomplete = true
	default:
		p.fail("VALUES or SELECT")
	}
	p.onConflict(s)
	p.tail(s)
	return s
}

func (p *parser) parenQuery() bool {
	w := p.peek(1)
	return w.kind == tokWord && (w.upper == "SELECT" || w.upper == "WITH")
}

func (p *parser) nameList() []string {
	var out []string
	for !p.op(")") && p.bad == "" {
		name := p.ident()
		for p.op(".") {
			name = p.ident()
		}
		out = append(out, strings.ToLower(name))
		for p.tok().kind == tokHole {
			p.at++
		}
		if !p.op(",") && !p.isOp(")") {
			if p.isOp("(") { // an expression or prefix length of an index
				p.skipParens()
				continue
			}
			p.at++ // COLLATE x, ASC, operator classes
			if p.tok().kind == tokEOF {
				p.fail(")")
			}
		}
	}
	return out
}

func (p *parser) onConflict(s *Stmt) {
	switch {
	case p.words("ON", "CONFLICT"):
		c := &Conflict{}
		if p.isOp("(") {
			p.at++
			c.Cols = p.nameList()
			if p.word("WHERE") {
				p.expr(0)
			}
		} else if p.words("ON", "CONSTRAINT") {
			p.ident()
		}
		p.needWord("DO")
		if p.word("NOTHING") {
			c.Nothing = true
		} else {
			p.needWord("UPDATE")
			p.needWord("SET")
			c.Set = p.assigns()
			if p.word("WHERE") {
				c.Where = p.expr(0)
			}
		}
		s.OnConflict = c
	case p.words("ON", "DUPLICATE", "KEY", "UPDATE"):
		s.OnConflict = &Conflict{Set: p.assigns()}
	}
}

func (p *parser) assigns() []Assign {
	var out []Assign
	for p.bad == "" {
		if p.tok().kind == tokHole { // a list that is composed
			p.at++
			p.holes++
			if !p.isOp("=") {
				if !p.op(",") {
					return out
				}
				continue
			}
			p.at++
			out = append(out, Assign{Col: "?", Val: p.expr(0)})
		} else if p.op("(") {
			cols := p.nameList()
			p.needOp("=")
			v := p.expr(0)
			for i, c := range cols {
				a := Assign{Col: c, Val: &Expr{}}
				if v.Kind == List && i < len(v.Args) {
					a.Val = v.Args[i]
				} else if v.Kind == Sub {
					a.Val = v
				}
				out = append(out, a)
			}
		} else {
			col := p.ident()
			for p.op(".") {
				col = p.ident()
			}
			if p.op("[") {
				p.listTo("]")
			}
			if !p.op(":=") {
				p.needOp("=")
			}
			out = append(out, Assign{Col: strings.ToLower(col), Val: p.expr(0)})
		}
		if !p.op(",") {
			break
		}
	}
	return out
}

func (p *parser) updateStmt() *Stmt {
	s := &Stmt{Verb: Update}
	if p.word("OR") {
		p.ident()
	}
	p.anyWord("LOW_PRIORITY", "IGNORE")
	s.Table = p.table()
	s.Alias = p.alias()
	for p.joinWords() || p.op(",") { // MySQL
		p.fromItem(s)
		if p.word("ON") {
			s.On = append(s.On, p.expr(0))
		}
	}
	if p.tok().kind == tokHole && !p.isWord("SET") {
		p.at++
		p.holes++
		s.Incomplete = true
	}
	if !p.word("SET") {
		if s.Incomplete {
			p.where(s)
			p.tail(s)
			return s
		}
		p.fail("SET")
	}
	s.Set = p.assigns()
	if p.word("FROM") {
		var from Stmt
		p.from(&from)
		s.Joined = append(s.Joined, from.tables()...)
	}
	p.where(s)
	p.tail(s)
	return s
}

func (p *parser) deleteStmt() *Stmt {
	s := &Stmt{Verb: Delete}
	if !p.isWord("FROM") {
		p.alias() // MySQL: DELETE t FROM t JOIN ...
	}
	p.word("FROM")
	s.Table = p.table()
	s.Alias = p.alias()
	for p.joinWords() || p.op(",") {
		p.fromItem(s)
		if p.word("ON") {
			s.On = append(s.On, p.expr(0))
		}
	}
	if p.word("USING") {
		var from Stmt
		p.from(&from)
		s.Joined = append(s.Joined, from.tables()...)
	}
	p.where(s)
	p.tail(s)
	return s
}
