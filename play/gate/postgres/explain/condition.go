package explain

import "slices"

// equalities reads the conjuncts `column = constant` of a plan's condition, for
// one relation. Whatever it does not understand restricts nothing.
//
// Only constants whose text is the same whenever the values are equal count: not
// numeric (1.0 = 1.00), character(n) (trailing blanks) or citext (case).
func equalities(condition, alias string, into map[string]string) {
	conjuncts(tokens(condition), alias, into)
}

func conjuncts(toks []token, alias string, into map[string]string) {
	toks = unwrap(toks)
	parts := [][]token{}
	depth, start := 0, 0
	for i, t := range toks {
		switch {
		case t.is("(", "["):
			depth++
		case t.is(")", "]"):
			depth--
		case depth == 0 && t.is("or"):
			return
		case depth == 0 && t.is("and"):
			parts = append(parts, toks[start:i])
			start = i + 1
		}
	}
	if len(parts) > 0 {
		for _, p := range append(parts, toks[start:]) {
			conjuncts(p, alias, into)
		}
		return
	}
	equality(toks, alias, into)
}

// unwrap takes off parentheses around the whole.
func unwrap(toks []token) []token {
	for len(toks) >= 2 && toks[0].is("(") && closing(toks, 0) == len(toks)-1 {
		toks = toks[1 : len(toks)-1]
	}
	return toks
}

// closing is the index of the parenthesis that closes the one at i, or -1.
func closing(toks []token, i int) int {
	depth := 0
	for j := i; j < len(toks); j++ {
		switch {
		case toks[j].is("("):
			depth++
		case toks[j].is(")"):
			depth--
			if depth == 0 {
				return j
			}
		}
	}
	return -1
}

func equality(toks []token, alias string, into map[string]string) {
	at := slices.IndexFunc(toks, func(t token) bool { return t.is("=") })
	if at < 0 {
		return
	}
	left, right := toks[:at], toks[at+1:]
	column, ok := columnOf(left, alias)
	value, isConst := constant(right)
	if !ok || !isConst {
		column, ok = columnOf(right, alias)
		value, isConst = constant(left)
	}
	if ok && isConst {
		into[column] = value
	}
}

// columnOf reads alias.column, or a text-like column cast to text.
func columnOf(toks []token, alias string) (string, bool) {
	if len(toks) > 2 && toks[len(toks)-2].is("::") && toks[len(toks)-1].is("text") {
		toks = unwrap(toks[:len(toks)-2])
	}
	toks = unwrap(toks)
	switch {
	case len(toks) == 3 && name(toks[0]) == alias && toks[1].is(".") && name(toks[2]) != "":
		return name(toks[2]), true
	case len(toks) == 1 && name(toks[0]) != "":
		return name(toks[0]), true
	}
	return "", false
}

// name of an identifier; empty for anything else.
func name(t token) string {
	if t.kind == word || t.kind == ident {
		return t.text
	}
	return ""
}

// exact types: equal values have equal texts.
var exact = []string{"bigint", "integer", "smallint", "text", "uuid", "boolean", "date", "oid"}

func constant(toks []token) (string, bool) {
	toks = unwrap(toks)
	switch {
	case len(toks) == 1 && toks[0].kind == number && wholeNumber(toks[0].text):
		return toks[0].text, true
	case len(toks) == 1 && toks[0].is("true", "false"):
		return toks[0].text, true
	case len(toks) == 3 && toks[0].kind == text && toks[1].is("::") && toks[2].is(exact...):
		return unquote(toks[0].text), true
	case len(toks) == 4 && toks[0].kind == text && toks[1].is("::") && toks[2].is("character") && toks[3].is("varying"):
		return unquote(toks[0].text), true
	}
	return "", false
}

func wholeNumber(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// unquote keeps what is between the quotes of a constant. It is compared only
// with others, so escapes may stay.
func unquote(s string) string {
	if len(s) >= 2 && s[0] == '\'' {
		return s[1 : len(s)-1]
	}
	return s
}

// assigned reports whether an UPDATE (or ON CONFLICT DO UPDATE) may assign the
// column: its name stands as a target between some SET and the WHERE, FROM or
// RETURNING that ends its list. A name that only looks so costs a restriction
// and nothing else.
func assigned(toks []token, column string) bool {
	for i, t := range toks {
		if t.is("set") && inList(toks[i+1:], column) {
			return true
		}
	}
	return false
}

func inList(toks []token, column string) bool {
	depth := 0
	for i, t := range toks {
		switch {
		case t.is("("):
			depth++
		case t.is(")"):
			depth--
			if depth < 0 {
				return false
			}
		case depth == 0 && t.is("where", "from", "returning"):
			return false
		case name(t) == column && i+1 < len(toks) && toks[i+1].is("=", ",", ")", "[", "."):
			return true
		}
	}
	return false
}
