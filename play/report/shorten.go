package report

import (
	"strings"
)

// shorten brings one step into n cells. White space is collapsed. Of a
// statement that is too long the parts go first that say least about a race:
// the select list of a SELECT and the column list of an INSERT; then the
// middle, since the table stands in front and the condition at the end. The
// whole statement is in the JSON form and in the tool tips of the picture.
func shorten(step string, n int) string {
	s := printable(step)
	if cellWidth(s) <= n {
		return s
	}
	if t := withoutList(s); cellWidth(t) <= n {
		return t
	} else if cellWidth(t) < cellWidth(s) {
		s = t
	}
	return middleOut(s, n)
}

// shortenLines is shorten into at most limit lines of n cells. Of two lines one
// is saved where only a list has to go for it; three are there to show more.
func shortenLines(step string, n, limit int) []string {
	s := printable(step)
	if cellWidth(s) <= n || limit <= 2 && cellWidth(withoutList(s)) <= n {
		return []string{shorten(s, n)}
	}
	for room := limit * n; ; room-- {
		if lines := wrap(shorten(s, room), n, 0); len(lines) <= limit || room <= n {
			return lines[:min(len(lines), limit)]
		}
	}
}

// withoutList replaces the select list of a SELECT or the column list of an
// INSERT by an ellipsis. Half a step has a mark before its statement, "… its
// effect: INSERT ...", which stays.
func withoutList(s string) string {
	if mark, rest, ok := strings.Cut(s, ": "); ok && strings.HasPrefix(mark, ellipsis) {
		return mark + ": " + withoutList(rest)
	}
	switch verb, _, _ := strings.Cut(s, " "); strings.ToUpper(verb) {
	case "SELECT":
		if from := topLevel(s, " FROM "); from > len(verb)+1 {
			return s[:len(verb)] + " " + ellipsis + s[from:]
		}
	case "INSERT":
		open := strings.IndexByte(s, '(')
		end := topLevel(s, ") VALUES")
		if open > 0 && end > open && !strings.Contains(s[open:end], "'") {
			return s[:open+1] + ellipsis + s[end:]
		}
	}
	return s
}

// topLevel finds word (upper case) in s outside of quotes and parentheses,
// without regard to case; a word that begins with ")" is found where it closes
// the outermost parenthesis. It returns -1 where there is none.
func topLevel(s, word string) int {
	depth := 0
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
			continue
		case c == '\'' || c == '"':
			quote = c
			continue
		case c == '(':
			depth++
		case c == ')':
			depth--
		}
		if depth == 0 && len(s)-i >= len(word) && strings.EqualFold(s[i:i+len(word)], word) {
			return i
		}
	}
	return -1
}

// middleOut leaves out the middle of s, between words: about two thirds of the
// n cells show the beginning, the rest the end. What has no words to break at
// (a request's path, one long literal) is cut at its end.
func middleOut(s string, n int) string {
	words := strings.Split(s, " ")
	room := n - 3 // the ellipsis and the spaces around it
	head, used := 0, 0
	for head < len(words) && used+cellWidth(words[head])+1 <= room*2/3+1 {
		used += cellWidth(words[head]) + 1
		head++
	}
	tail := len(words)
	for tail > head && used+cellWidth(words[tail-1]) <= room {
		tail--
		used += cellWidth(words[tail]) + 1
	}
	if head < 2 || tail == len(words) {
		return cut(s, n)
	}
	return cut(strings.Join(words[:head], " ")+" "+ellipsis+" "+strings.Join(words[tail:], " "), n)
}
