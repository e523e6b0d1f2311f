package explain

import "strings"

// kind of a token.
type kind uint8

const (
	word   kind = iota // unquoted identifier or keyword, in lower case
	ident              // quoted identifier, without its quotes
	text               // string constant, with its quotes
	number             // numeric constant
	symbol             // operator, parenthesis, comma, semicolon, $1
)

type token struct {
	kind kind
	text string
}

func (t token) is(words ...string) bool {
	if t.kind != word && t.kind != symbol {
		return false
	}
	for _, w := range words {
		if t.text == w {
			return true
		}
	}
	return false
}

// tokens splits SQL as PostgreSQL's scanner does, with standard_conforming_strings
// on. Comments and blanks are left out. Text that ends inside a quote or comment
// gives what there is.
func tokens(sql string) []token {
	var out []token
	for i := 0; i < len(sql); {
		c := sql[i]
		switch {
		case c <= ' ':
			i++
		case strings.HasPrefix(sql[i:], "--"):
			i = lineEnd(sql, i)
		case strings.HasPrefix(sql[i:], "/*"):
			i = commentEnd(sql, i)
		case c == '\'':
			j := quoteEnd(sql, i, '\'', false)
			out, i = append(out, token{text, sql[i:j]}), j
		case (c == 'e' || c == 'E') && i+1 < len(sql) && sql[i+1] == '\'':
			j := quoteEnd(sql, i+1, '\'', true)
			out, i = append(out, token{text, sql[i:j]}), j
		case c == '"':
			j := quoteEnd(sql, i, '"', false)
			name := strings.TrimSuffix(sql[i+1:j], `"`)
			out, i = append(out, token{ident, strings.ReplaceAll(name, `""`, `"`)}), j
		case c == '$':
			j := dollarEnd(sql, i)
			k := symbol
			if j > i+1 && sql[j-1] == '$' {
				k = text
			}
			out, i = append(out, token{k, sql[i:j]}), j
		case c >= '0' && c <= '9' || c == '.' && i+1 < len(sql) && sql[i+1] >= '0' && sql[i+1] <= '9':
			j := i + 1
			for j < len(sql) && (wordByte(sql[j]) || sql[j] == '.') {
				j++
			}
			out, i = append(out, token{number, sql[i:j]}), j
		case wordByte(c):
			j := i + 1
			for j < len(sql) && wordByte(sql[j]) {
				j++
			}
			out, i = append(out, token{word, strings.ToLower(sql[i:j])}), j
		case strings.HasPrefix(sql[i:], "::"):
			out, i = append(out, token{symbol, "::"}), i+2
		case strings.IndexByte("()[],;.:", c) >= 0:
			out, i = append(out, token{symbol, sql[i : i+1]}), i+1
		default:
			j := operatorEnd(sql, i)
			out, i = append(out, token{symbol, sql[i:j]}), j
		}
	}
	return out
}

func wordByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80 || c == '$'
}

// operatorEnd is the end of a run of operator characters, which a comment ends.
func operatorEnd(sql string, i int) int {
	j := i + 1
	for j < len(sql) && strings.IndexByte("+-*/<>=~!@#%^&|`?", sql[j]) >= 0 &&
		!strings.HasPrefix(sql[j:], "--") && !strings.HasPrefix(sql[j:], "/*") {
		j++
	}
	return j
}

func lineEnd(sql string, i int) int {
	if n := strings.IndexByte(sql[i:], '\n'); n >= 0 {
		return i + n + 1
	}
	return len(sql)
}

// commentEnd follows nested comments.
func commentEnd(sql string, i int) int {
	depth := 0
	for i < len(sql) {
		switch {
		case strings.HasPrefix(sql[i:], "/*"):
			depth, i = depth+1, i+2
		case strings.HasPrefix(sql[i:], "*/"):
			depth, i = depth-1, i+2
			if depth == 0 {
				return i
			}
		default:
			i++
		}
	}
	return len(sql)
}

// quoteEnd is the end of a quoted text that begins at i; a doubled quote is part
// of it, and with escapes a backslash protects the next byte.
func quoteEnd(sql string, i int, quote byte, escapes bool) int {
	for j := i + 1; j < len(sql); j++ {
		switch {
		case escapes && sql[j] == '\\':
			j++
		case sql[j] == quote:
			if j+1 < len(sql) && sql[j+1] == quote {
				j++
				continue
			}
			return j + 1
		}
	}
	return len(sql)
}

// dollarEnd is the end of $1 or of $tag$text$tag$.
func dollarEnd(sql string, i int) int {
	j := i + 1
	for j < len(sql) && wordByte(sql[j]) && sql[j] != '$' {
		j++
	}
	if j >= len(sql) || sql[j] != '$' || j > i+1 && sql[i+1] >= '0' && sql[i+1] <= '9' {
		return j
	}
	tag := sql[i : j+1]
	if n := strings.Index(sql[j+1:], tag); n >= 0 {
		return j + 1 + n + len(tag)
	}
	return len(sql)
}

// split cuts a text into its statements; empty ones are left out. Each comes
// with its own tokens and text.
func split(sql string) []piece {
	toks := tokens(sql)
	semicolons := 0
	for _, t := range toks {
		if t.is(";") {
			semicolons++
		}
	}
	if semicolons == 0 || semicolons == 1 && toks[len(toks)-1].is(";") {
		if semicolons == 1 {
			toks = toks[:len(toks)-1]
		}
		if len(toks) == 0 {
			return nil
		}
		return []piece{{sql: sql, toks: toks}}
	}
	var out []piece
	start := 0
	for i, t := range append(toks, token{symbol, ";"}) {
		if !t.is(";") {
			continue
		}
		if i > start {
			out = append(out, piece{sql: join(toks[start:i]), toks: toks[start:i]})
		}
		start = i + 1
	}
	return out
}

// piece is one statement of a text.
type piece struct {
	sql  string
	toks []token
}

// join writes tokens as SQL again.
func join(toks []token) string {
	var b strings.Builder
	for i, t := range toks {
		if i > 0 && !t.is(".", "::") && !toks[i-1].is(".", "::") {
			b.WriteByte(' ')
		}
		if t.kind == ident {
			b.WriteString(`"` + strings.ReplaceAll(t.text, `"`, `""`) + `"`)
			continue
		}
		b.WriteString(t.text)
	}
	return b.String()
}

// Shape is a statement's text without its constants: the same in every run, also
// where the application puts made-up ids, hashes or times into it.
func Shape(sql string) string {
	toks := tokens(sql)
	for i, t := range toks {
		if t.kind == text || t.kind == number {
			toks[i] = token{symbol, "?"}
		}
	}
	return join(toks)
}
