package sql

import (
	"strconv"
	"strings"
)

// precedence of the operators between two operands; 0 is none.
func (p *parser) precedence() (string, int, int) {
	t := p.tok()
	switch t.kind {
	case tokWord:
		next := p.peek(1)
		switch t.upper {
		case "OR":
			return "or", 1, 1
		case "XOR":
			return "or", 1, 1
		case "AND":
			return "and", 2, 1
		case "IS":
			if next.upper == "NOT" {
				return "is not", 4, 2
			}
			return "is", 4, 1
		case "NOT":
			switch next.upper {
			case "IN", "LIKE", "ILIKE", "BETWEEN", "SIMILAR", "REGEXP":
				return "not " + strings.ToLower(next.upper), 5, 2
			}
		case "IN", "LIKE", "ILIKE", "BETWEEN", "SIMILAR", "REGEXP", "RLIKE", "GLOB", "MATCH":
			return strings.ToLower(t.upper), 5, 1
		case "COLLATE":
			return "collate", 9, 1
		case "AT":
			if next.upper == "TIME" {
				return "at time zone", 9, 3
			}
		case "DIV", "MOD":
			return strings.ToLower(t.upper), 8, 1
		}
	case tokOp:
		switch t.text {
		case "=", "<", ">", "<=", ">=", "<>", "!=", "<=>":
			op := t.text
			if op == "!=" {
				op = "<>"
			}
			return op, 4, 1
		case "+", "-":
			return t.text, 7, 1
		case "*", "/", "%":
			return t.text, 8, 1
		case "^":
			return t.text, 9, 1
		case "||", "->", "->>", "#>", "#>>", "@>", "<@", "&&", "~", "~*", "!~", "!~*", "~~", "~~*", "@@", "?", "?|", "?&", "#-", "|", "&", "#":
			return t.text, 6, 1
		}
	}
	return "", 0, 0
}

// expr reads an expression of operators that bind tighter than min.
func (p *parser) expr(min int) *Expr {
	left := p.operand()
	for p.bad == "" {
		op, prec, width := p.precedence()
		if prec == 0 || prec <= min {
			break
		}
		p.at += width
		switch op {
		case "between", "not between":
			low := p.expr(5)
			p.word("AND")
			left = &Expr{Kind: Op, Name: op, Args: []*Expr{left, low, p.expr(5)}}
			continue
		case "is", "is not":
			if p.word("DISTINCT") {
				p.word("FROM")
				name := "<>"
				if op == "is not" {
					name = "="
				}
				left = &Expr{Kind: Op, Name: name, Args: []*Expr{left, p.expr(4)}}
				continue
			}
		}
		right := p.expr(prec)
		left = &Expr{Kind: Op, Name: op, Args: []*Expr{left, right}}
		if p.word("ESCAPE") {
			p.operand()
		}
	}
	return left
}

func (p *parser) operand() *Expr {
	p.nest()
	defer p.up()
	if p.bad != "" {
		return &Expr{}
	}
	e := p.primary()
	for p.bad == "" {
		switch {
		case p.op("::"):
			p.typeName()
		case p.op("["):
			idx := &Expr{Kind: Unknown}
			if !p.isOp("]") {
				idx = p.expr(0)
				if p.op(":") {
					p.expr(0)
				}
			}
			p.needOp("]")
			e = &Expr{Kind: Call, Name: "index", Args: []*Expr{e, idx}}
		case p.tok().kind == tokHole && p.at > 0 && p.toks[p.at-1].end == p.tok().at:
			// text glued to an operand: the operand itself is not known
			p.at++
			e = &Expr{Kind: HoleExpr}
			p.holes++
		default:
			return e
		}
	}
	return e
}

func (p *parser) primary() *Expr {
	t := p.tok()
	switch t.kind {
	case tokHole:
		p.at++
		p.holes++
		if p.isOp("(") { // a function whose name is composed
			p.at++
			return &Expr{Kind: HoleExpr, Args: p.exprList()}
		}
		return &Expr{Kind: HoleExpr}
	case tokParam:
		p.at++
		name := t.text
		if name == "?" {
			p.params++
			name = "?" + strconv.Itoa(p.params)
		}
		return &Expr{Kind: Param, Name: name}
	case tokString:
		p.at++
		return &Expr{Kind: Const, Name: strconv.Quote(t.text)}
	case tokNumber:
		p.at++
		return &Expr{Kind: Const, Name: t.text}
	case tokOp:
		return p.primaryOp(t)
	case tokWord:
		if e := p.keywordOperand(t); e != nil {
			return e
		}
		return p.name()
	case tokQuoted:
		return p.name()
	}
	p.fail("an expression")
	return &Expr{}
}

func (p *parser) primaryOp(t token) *Expr {
	switch t.text {
	case "(":
		p.at++
		if p.startsQuery() && !p.isOp("(") {
			s := p.query()
			p.needOp(")")
			return &Expr{Kind: Sub, Stmt: s}
		}
		args := p.exprList()
		if len(args) == 1 {
			return args[0]
		}
		return &Expr{Kind: List, Args: args}
	case "-", "+", "~", "@", "!":
		p.at++
		e := p.expr(8)
		if t.text == "-" && e.Kind == Const {
			return &Expr{Kind: Const, Name: "-" + e.Name}
		}
		return &Expr{Kind: Op, Name: t.text, Args: []*Expr{e}}
	case "*":
		p.at++
		return &Expr{Kind: Star}
	}
	p.fail("an expression")
	return &Expr{}
}

// keywordOperand reads the operands that begin with a keyword; nil is none.
func (p *parser) keywordOperand(t token) *Expr {
	switch t.upper {
	case "NOT":
		p.at++
		return &Expr{Kind: Op, Name: "not", Args: []*Expr{p.expr(3)}}
	case "EXISTS":
		if p.peek(1).text != "(" {
			return nil
		}
		p.at++
		return &Expr{Kind: Call, Name: "exists", Args: []*Expr{p.operand()}}
	case "CASE":
		p.at++
		return p.caseExpr()
	case "NULL":
		p.at++
		return &Expr{Kind: Const, Name: "nil"}
	case "TRUE", "FALSE":
		p.at++
		return &Expr{Kind: Const, Name: strings.ToLower(t.upper)}
	case "DEFAULT":
		p.at++
		return &Expr{Kind: Unknown, Name: "default"}
	case "INTERVAL":
		if n := p.peek(1); n.kind == tokString || n.kind == tokParam || n.kind == tokNumber {
			p.at++
			e := p.primary()
			p.anyWord("DAY", "HOUR", "MINUTE", "SECOND", "MONTH", "YEAR", "WEEK")
			return &Expr{Kind: Call, Name: "interval", Args: []*Expr{e}}
		}
	case "DATE", "TIMESTAMP", "TIME", "TIMESTAMPTZ":
		if p.peek(1).kind == tokString {
			p.at++
			return p.primary()
		}
	case "DISTINCT", "ALL", "BINARY", "PRIOR", "ROW", "ARRAY", "ANY", "SOME":
		next := p.peek(1)
		switch {
		case t.upper == "ARRAY" && next.text == "[":
			p.at += 2
			args := p.listTo("]")
			return &Expr{Kind: List, Args: args}
		case next.text == "(" && (t.upper == "ANY" || t.upper == "ALL" || t.upper == "SOME" || t.upper == "ROW" || t.upper == "ARRAY"):
			p.at++
			return &Expr{Kind: Call, Name: strings.ToLower(t.upper), Args: []*Expr{p.operand()}}
		case t.upper == "DISTINCT" || t.upper == "BINARY":
			p.at++
			return p.operand()
		}
	case "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIMESTAMP":
		p.at++
		if p.op("(") {
			p.listTo(")")
		}
		return &Expr{Kind: Call, Name: "now"}
	case "CAST", "TRY_CAST":
		if p.peek(1).text == "(" {
			p.at += 2
			e := p.expr(0)
			p.word("AS")
			p.typeName()
			p.needOp(")")
			return e
		}
	case "EXTRACT", "SUBSTRING", "TRIM", "OVERLAY", "POSITION":
		if p.peek(1).text == "(" {
			p.at++
			p.skipParens()
			return &Expr{Kind: Unknown}
		}
	}
	return nil
}

func (p *parser) caseExpr() *Expr {
	e := &Expr{Kind: Call, Name: "case"}
	if !p.isWord("WHEN") {
		e.Args = append(e.Args, p.expr(0))
	}
	for p.word("WHEN") && p.bad == "" {
		e.Args = append(e.Args, p.expr(0))
		p.needWord("THEN")
		e.Args = append(e.Args, p.expr(0))
	}
	if p.word("ELSE") {
		e.Args = append(e.Args, p.expr(0))
	}
	p.needWord("END")
	return e
}

// name reads a column, qualified or not, or a function call.
func (p *parser) name() *Expr {
	parts := []string{p.ident()}
	for p.isOp(".") {
		p.at++
		switch t := p.tok(); {
		case t.kind == tokHole:
			p.at++
			p.holes++
			return &Expr{Kind: HoleExpr}
		case p.op("*"):
			return &Expr{Kind: Star, Table: strings.ToLower(parts[len(parts)-1])}
		default:
			parts = append(parts, p.ident())
		}
	}
	last := strings.ToLower(parts[len(parts)-1])
	if p.isOp("(") {
		return p.callExpr(last)
	}
	e := &Expr{Kind: Col, Name: last}
	if len(parts) > 1 {
		e.Table = strings.ToLower(parts[len(parts)-2])
	}
	return e
}

func (p *parser) callExpr(name string) *Expr {
	p.needOp("(")
	e := &Expr{Kind: Call, Name: name}
	if p.startsQuery() && !p.isOp("(") {
		e.Args = []*Expr{{Kind: Sub, Stmt: p.query()}}
		p.needOp(")")
	} else {
		e.Args = p.exprList()
	}
	if p.word("WITHIN") {
		p.word("GROUP")
		p.skipParens()
	}
	if p.isWord("FILTER") && p.peek(1).text == "(" {
		p.at++
		p.skipParens()
	}
	if p.word("OVER") {
		if !p.isOp("(") {
			p.at++
		} else {
			p.skipParens()
		}
	}
	return e
}

// exprList reads expressions up to the closing parenthesis, which it takes.
func (p *parser) exprList() []*Expr { return p.listTo(")") }

func (p *parser) listTo(end string) []*Expr {
	var out []*Expr
	for !p.op(end) && p.bad == "" {
		out = append(out, p.expr(0))
		if p.word("AS") { // f(x AS y)
			p.typeName()
		}
		if p.word("ORDER") {
			p.skipTo(end)
		}
		if p.word("SEPARATOR") {
			p.expr(0)
		}
		if !p.op(",") && !p.isOp(end) {
			p.fail(strconv.Quote(end))
		}
	}
	return out
}

// typeName passes over a type.
func (p *parser) typeName() {
	p.ident()
	for p.op(".") {
		p.ident()
	}
	p.anyWord("PRECISION", "VARYING", "UNSIGNED", "SIGNED")
	if p.isOp("(") {
		p.skipParens()
	}
	if p.anyWord("WITH", "WITHOUT") {
		p.word("TIME")
		p.word("ZONE")
	}
	for p.isOp("[") && (p.peek(1).text == "]") {
		p.at += 2
	}
}
