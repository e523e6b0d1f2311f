package effect

import (
	"fmt"
	"strconv"
	"strings"
)

// scanner reads tokens of the text form. tok is the current one; "" is the end
// and "\n" the end of a line.
type scanner struct {
	src  string
	at   int
	line int
	tok  string
}

func newScanner(src string) *scanner {
	s := &scanner{src: src, line: 1}
	s.next()
	return s
}

func isWord(c byte) bool {
	return c == '_' || c == '.' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// next moves to the next token.
func (s *scanner) next() {
	if s.tok == "\n" {
		s.line++
	}
	for s.at < len(s.src) && (s.src[s.at] == ' ' || s.src[s.at] == '\t' || s.src[s.at] == '\r') {
		s.at++
	}
	if s.at < len(s.src) && s.src[s.at] == '#' {
		for s.at < len(s.src) && s.src[s.at] != '\n' {
			s.at++
		}
	}
	start := s.at
	if s.at == len(s.src) {
		s.tok = ""
		return
	}
	s.at += s.width(s.src[start:])
	s.tok = s.src[start:s.at]
}

// width is the length of the token at the start of rest.
func (s *scanner) width(rest string) int {
	switch {
	case rest[0] == '"':
		if q, err := strconv.QuotedPrefix(rest); err == nil {
			return len(q)
		}
		return len(rest)
	case rest[0] == '@':
		return len(rest) - len(strings.TrimLeftFunc(rest, func(r rune) bool { return !strings.ContainsRune(" \t\r\n)", r) }))
	case isWord(rest[0]):
		n := 1
		for n < len(rest) && isWord(rest[n]) {
			n++
		}
		return n
	}
	for _, op := range []string{":=", "->", "==", "!=", "<=", ">=", "&&", "||"} {
		if strings.HasPrefix(rest, op) {
			return 2
		}
	}
	return 1
}

// take moves on if the current token is tok.
func (s *scanner) take(tok string) bool {
	if s.tok != tok {
		return false
	}
	s.next()
	return true
}

func (s *scanner) need(tok string) error {
	if !s.take(tok) {
		return s.wrong(strconv.Quote(tok))
	}
	return nil
}

func (s *scanner) wrong(want string) error {
	got := strconv.Quote(s.tok)
	if s.tok == "" {
		got = "the end"
	}
	return fmt.Errorf("line %d: want %s, got %s", s.line, want, got)
}

// name reads a word or a quoted string.
func (s *scanner) name() (string, error) {
	t := s.tok
	if t != "" && t[0] == '"' {
		u, err := strconv.Unquote(t)
		if err != nil {
			return "", s.wrong("a string")
		}
		s.next()
		return u, nil
	}
	if t == "" || !isWord(t[0]) {
		return "", s.wrong("a name")
	}
	s.next()
	return t, nil
}

// expr parses an expression whose operators bind tighter than min.
func (s *scanner) expr(min int) (Value, error) {
	left, err := s.operand()
	for err == nil {
		op := s.tok
		p := precedence(op)
		if p == 0 || p <= min {
			break
		}
		s.next()
		var right Value
		right, err = s.expr(p)
		left = Apply(op, left, right)
	}
	return left, err
}

func (s *scanner) operand() (Value, error) {
	t := s.tok
	switch {
	case t == "?":
		s.next()
		return Unknown(), nil
	case t == "!":
		s.next()
		v, err := s.operand()
		return Apply("!", v), err
	case t == "(":
		s.next()
		v, err := s.expr(0)
		if err == nil {
			err = s.need(")")
		}
		return v, err
	case t == "-":
		s.next()
		n := s.tok
		if n == "" || n[0] < '0' || n[0] > '9' {
			return Value{}, s.wrong("a number")
		}
		s.next()
		return Lit("-" + n), nil
	case t == "" || t[0] != '"' && !isWord(t[0]):
		return Value{}, s.wrong("a value")
	}
	s.next()
	if t[0] == '"' || t[0] >= '0' && t[0] <= '9' || t == "true" || t == "false" || t == "nil" {
		return Lit(t), nil
	}
	if !s.take("(") {
		return Value{Kind: PathValue, Name: t}, nil
	}
	args, err := s.values()
	return Value{Kind: ApplyValue, Name: t, Args: args}, err
}

// values reads expressions up to a closing parenthesis.
func (s *scanner) values() ([]Value, error) {
	var vs []Value
	for s.tok != ")" {
		v, err := s.expr(0)
		if err != nil {
			return nil, err
		}
		vs = append(vs, v)
		if !s.take(",") {
			break
		}
	}
	return vs, s.need(")")
}

// pos reads a place if there is one.
func (s *scanner) pos() (Pos, error) {
	if s.tok == "" || s.tok[0] != '@' {
		return Pos{}, nil
	}
	p, err := parsePos(s.tok[1:])
	if err != nil {
		return p, fmt.Errorf("line %d: %w", s.line, err)
	}
	s.next()
	return p, nil
}

func parsePos(t string) (Pos, error) {
	parts := strings.Split(t, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return Pos{}, fmt.Errorf("place %q: want FILE:LINE or FILE:LINE:COL", t)
	}
	p := Pos{File: parts[0]}
	var err error
	if p.Line, err = strconv.Atoi(parts[1]); err == nil && len(parts) == 3 {
		p.Col, err = strconv.Atoi(parts[2])
	}
	return p, err
}
