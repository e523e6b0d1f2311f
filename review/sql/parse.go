package sql

import (
	"fmt"
	"strings"
)

// ParseError says where a statement stopped making sense.
type ParseError struct {
	Text string // the statement
	At   int    // offset in the text
	Want string
}

func (e *ParseError) Error() string {
	near := e.Text[min(e.At, len(e.Text)):]
	if len(near) > 24 {
		near = near[:24]
	}
	return fmt.Sprintf("SQL not understood at offset %d, near %q: want %s", e.At, near, e.Want)
}

type parser struct {
	src    string
	toks   []token
	at     int
	params int
	holes  int
	depth  int // of nesting; bounded, for texts that are not meant to be read
	bad    string
	badAt  int
}

const maxNesting = 200

// Parse reads all statements of the text. Statements before the one that is not
// understood are returned together with the error.
func Parse(text string) ([]*Stmt, error) {
	toks, bad := lex(text)
	p := &parser{src: text, toks: toks}
	if bad != "" {
		return nil, &ParseError{Text: text, At: len(text), Want: bad}
	}
	var out []*Stmt
	for {
		for p.op(";") {
		}
		if p.tok().kind == tokEOF {
			return out, nil
		}
		start := p.tok().at
		s := p.statement()
		if p.bad == "" && p.tok().kind != tokEOF && !p.isOp(";") {
			p.fail("the end of the statement")
		}
		if p.bad != "" {
			return out, &ParseError{Text: text, At: p.badAt, Want: p.bad}
		}
		s.Text = strings.TrimSpace(text[start:p.tok().at])
		out = append(out, s)
	}
}

// IsSQL says whether the text begins like a statement; it is a quick look that
// keeps other strings away from Parse.
func IsSQL(text string) bool {
	toks, _ := lex(text)
	for len(toks) > 0 && toks[0].text == "(" {
		toks = toks[1:]
	}
	if len(toks) < 2 || toks[0].kind != tokWord {
		return false
	}
	switch toks[0].upper {
	case "SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "REPLACE", "MERGE", "BEGIN", "START", "COMMIT", "ROLLBACK", "LOCK", "CREATE", "ALTER", "DROP", "TRUNCATE":
		return toks[1].kind != tokOp || toks[1].text == "*" || toks[1].text == "(" || toks[1].text == ";"
	}
	return false
}

// tok is the current token; past the end it stays the end.
func (p *parser) tok() token {
	if p.at >= len(p.toks) {
		p.at = len(p.toks) - 1
	}
	return p.toks[p.at]
}

func (p *parser) peek(n int) token {
	if p.at+n >= len(p.toks) {
		return p.toks[len(p.toks)-1]
	}
	return p.toks[p.at+n]
}

// nest goes one level deeper; up comes back.
func (p *parser) nest() {
	if p.depth++; p.depth > maxNesting {
		p.fail("less nesting")
	}
}

func (p *parser) up() { p.depth-- }

func (p *parser) fail(want string) {
	if p.bad == "" {
		p.bad, p.badAt = want, p.tok().at
	}
}

func (p *parser) isWord(w string) bool { t := p.tok(); return t.kind == tokWord && t.upper == w }

func (p *parser) word(w string) bool {
	if !p.isWord(w) {
		return false
	}
	p.at++
	return true
}

// words takes a sequence of words, all or none.
func (p *parser) words(ws ...string) bool {
	for i, w := range ws {
		if t := p.peek(i); t.kind != tokWord || t.upper != w {
			return false
		}
	}
	p.at += len(ws)
	return true
}

func (p *parser) anyWord(ws ...string) bool {
	for _, w := range ws {
		if p.word(w) {
			return true
		}
	}
	return false
}

func (p *parser) needWord(w string) {
	if !p.word(w) {
		p.fail(w)
	}
}

func (p *parser) isOp(o string) bool { t := p.tok(); return t.kind == tokOp && t.text == o }

func (p *parser) op(o string) bool {
	if !p.isOp(o) {
		return false
	}
	p.at++
	return true
}

func (p *parser) needOp(o string) {
	if !p.op(o) {
		p.fail(o)
	}
}

// ident reads a name.
func (p *parser) ident() string {
	t := p.tok()
	switch t.kind {
	case tokWord, tokQuoted:
		p.at++
		return t.text
	case tokHole:
		p.at++
		p.holes++
		return "?"
	}
	p.fail("a name")
	return ""
}

// skipParens passes over a balanced pair of parentheses.
func (p *parser) skipParens() {
	p.needOp("(")
	for depth := 1; depth > 0 && p.bad == ""; p.at++ {
		switch t := p.tok(); {
		case t.kind == tokEOF:
			p.fail(")")
			return
		case t.kind == tokParam && t.text == "?":
			p.params++
		case t.kind == tokOp && t.text == "(":
			depth++
		case t.kind == tokOp && t.text == ")":
			depth--
		}
	}
}

// skipTo passes over tokens up to the operator or the end of the statement, on
// this level of parentheses.
func (p *parser) skipTo(end string) {
	for depth := 0; p.bad == ""; p.at++ {
		t := p.tok()
		switch {
		case t.kind == tokEOF, depth == 0 && t.kind == tokOp && (t.text == end || t.text == ";" || t.text == ")"):
			return
		case t.kind == tokParam && t.text == "?":
			p.params++
		case t.kind == tokHole:
			p.holes++
		case t.kind == tokOp && t.text == "(":
			depth++
		case t.kind == tokOp && t.text == ")":
			depth--
		}
	}
}

// startsQuery says whether a statement begins here.
func (p *parser) startsQuery() bool {
	for i := 0; ; i++ {
		t := p.peek(i)
		if t.kind == tokOp && t.text == "(" {
			continue
		}
		switch t.upper {
		case "SELECT", "WITH", "VALUES", "INSERT", "UPDATE", "DELETE":
			return t.kind == tokWord
		}
		return false
	}
}
