package explain

// Tokens are the texts of the tokens of sql; a semicolon is one only where it
// separates.
func Tokens(sql string) []string {
	var out []string
	for _, t := range tokens(sql) {
		s := t.text
		if s == ";" && t.kind != symbol {
			s = "quoted;"
		}
		out = append(out, s)
	}
	return out
}

// Split gives the number of tokens of each statement.
func Split(sql string) []int {
	var out []int
	for _, p := range split(sql) {
		out = append(out, len(p.toks))
	}
	return out
}
