package sql

import "strings"

// Hole is the character that stands for text known only at run time.
const Hole = "\x00"

type tokenKind uint8

const (
	tokEOF    tokenKind = iota
	tokWord             // identifier or keyword, not quoted
	tokQuoted           // quoted identifier, text without quotes
	tokString           // string literal, text without quotes
	tokNumber
	tokParam // $1 ? ?1 :name @name
	tokHole
	tokOp
)

type token struct {
	kind  tokenKind
	text  string
	upper string // of words
	at    int    // offset in the text
	end   int    // offset behind it
}

// lexer cuts SQL text into tokens. With escapes, a backslash in a '...' string
// quotes the next character (MySQL); it is tried only when the standard reading
// leaves a string open.
type lexer struct {
	src     string
	escapes bool
	bad     string // why the text can not be lexed
}

func lex(src string) ([]token, string) {
	l := &lexer{src: src}
	toks := l.all()
	if l.bad != "" && strings.Contains(src, `\`) {
		l = &lexer{src: src, escapes: true}
		toks = l.all()
	}
	return toks, l.bad
}

func (l *lexer) all() []token {
	var out []token
	for i := 0; i < len(l.src); {
		if n := l.space(i); n > 0 {
			i += n
			continue
		}
		t, n := l.one(i)
		t.at, t.end = i, i+n
		out = append(out, t)
		i += n
	}
	return append(out, token{kind: tokEOF, at: len(l.src), end: len(l.src)})
}

// space is the width of blanks and comments at i.
func (l *lexer) space(i int) int {
	s := l.src[i:]
	switch {
	case strings.IndexByte(" \t\r\n\f\v", s[0]) >= 0:
		return 1
	case strings.HasPrefix(s, "--"):
		return lineEnd(s)
	case s[0] == '#' && (len(s) == 1 || s[1] == ' ' || s[1] == '\n') && (i == 0 || l.src[i-1] == '\n'):
		return lineEnd(s) // MySQL's comment; PostgreSQL's operators # #> #>> have no blank at a line's start
	case strings.HasPrefix(s, "/*"):
		depth, j := 1, 2
		for j < len(s) && depth > 0 {
			switch {
			case strings.HasPrefix(s[j:], "/*"):
				depth++
				j += 2
			case strings.HasPrefix(s[j:], "*/"):
				depth--
				j += 2
			default:
				j++
			}
		}
		return j
	}
	return 0
}

func lineEnd(s string) int {
	if n := strings.IndexByte(s, '\n'); n >= 0 {
		return n + 1
	}
	return len(s)
}

func wordStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func wordPart(c byte) bool { return wordStart(c) || c == '$' || c >= '0' && c <= '9' }

func digit(c byte) bool { return c >= '0' && c <= '9' }

func (l *lexer) one(i int) (token, int) {
	s := l.src[i:]
	c := s[0]
	switch {
	case c == 0:
		return token{kind: tokHole, text: Hole}, 1
	case c == '\'':
		text, n := l.quoted(s, '\'')
		return token{kind: tokString, text: text}, n
	case c == '"' || c == '`':
		text, n := l.quoted(s, c)
		return token{kind: tokQuoted, text: text}, n
	case c == '[' && len(s) > 1 && wordStart(s[1]) && strings.IndexByte(s, ']') > 0 && (i == 0 || !wordPart(l.src[i-1]) && l.src[i-1] != ']'):
		n := strings.IndexByte(s, ']')
		return token{kind: tokQuoted, text: s[1:n]}, n + 1
	case c == '$':
		return l.dollar(s)
	case (c == 'e' || c == 'E' || c == 'b' || c == 'B' || c == 'x' || c == 'X' || c == 'n' || c == 'N') && len(s) > 1 && s[1] == '\'':
		was := l.escapes
		l.escapes = was || c == 'e' || c == 'E'
		text, n := l.quoted(s[1:], '\'')
		l.escapes = was
		return token{kind: tokString, text: text}, n + 1
	case wordStart(c):
		n := 1
		for n < len(s) && wordPart(s[n]) {
			n++
		}
		return token{kind: tokWord, text: s[:n], upper: strings.ToUpper(s[:n])}, n
	case digit(c) || c == '.' && len(s) > 1 && digit(s[1]):
		n := 1
		for n < len(s) && (wordPart(s[n]) || s[n] == '.' || (s[n] == '-' || s[n] == '+') && (s[n-1] == 'e' || s[n-1] == 'E')) {
			n++
		}
		return token{kind: tokNumber, text: s[:n]}, n
	case c == '?' || (c == ':' || c == '@') && len(s) > 1 && wordStart(s[1]) && s[1] < 0x80:
		return l.param(s)
	}
	for _, op := range []string{"<=>", "->>", "#>>", "||/", "!~*", "~~*", "::", ":=", "<=", ">=", "<>", "!=", "||", "->", "#>", "@>", "<@", "&&", "!~", "~*", "~~", "@@", "#-"} {
		if strings.HasPrefix(s, op) {
			return token{kind: tokOp, text: op}, len(op)
		}
	}
	return token{kind: tokOp, text: s[:1]}, 1
}

// quoted reads a literal whose quote is doubled to stand for itself.
func (l *lexer) quoted(s string, q byte) (string, int) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && l.escapes && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == q && i+1 < len(s) && s[i+1] == q:
			i++
			b.WriteByte(q)
		case s[i] == q:
			return b.String(), i + 1
		default:
			b.WriteByte(s[i])
		}
	}
	l.bad = "a quoted text has no end"
	return b.String(), len(s)
}

// dollar reads $1 or $tag$...$tag$.
func (l *lexer) dollar(s string) (token, int) {
	n := 1
	for n < len(s) && digit(s[n]) {
		n++
	}
	if n > 1 {
		return token{kind: tokParam, text: s[:n]}, n
	}
	for n < len(s) && wordPart(s[n]) && s[n] != '$' {
		n++
	}
	if n < len(s) && s[n] == '$' {
		tag := s[:n+1]
		if end := strings.Index(s[n+1:], tag); end >= 0 {
			return token{kind: tokString, text: s[n+1 : n+1+end]}, n + 1 + end + len(tag)
		}
	}
	if n > 1 {
		return token{kind: tokParam, text: s[:n]}, n
	}
	return token{kind: tokOp, text: "$"}, 1
}

// param reads ? ?1 :name @name. A question mark that PostgreSQL takes for an
// operator on JSON (a ? 'key', ?|, ?&) is told by what follows.
func (l *lexer) param(s string) (token, int) {
	if s[0] == '?' && len(s) > 1 && (s[1] == '|' || s[1] == '&') {
		return token{kind: tokOp, text: s[:2]}, 2
	}
	if s[0] == '?' && strings.HasPrefix(strings.TrimLeft(s[1:], " "), "'") {
		return token{kind: tokOp, text: "?"}, 1
	}
	n := 1
	for n < len(s) && (wordPart(s[n]) && s[0] != '?' || digit(s[n])) {
		n++
	}
	return token{kind: tokParam, text: s[:n]}, n
}
