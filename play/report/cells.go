package report

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// ellipsis stands for what was left out; it is one cell wide.
const ellipsis = "…"

// runeWidth is the number of terminal cells of r: 0 for what is drawn onto the
// rune before it, 2 for East Asian wide runes and most emoji, else 1. Runes of
// ambiguous width count as 1, as terminals outside East Asian locales do.
func runeWidth(r rune) int {
	switch {
	case r < 0x20 || r == 0x7f:
		return 0
	case r < 0x300:
		return 1
	case r >= 0x1160 && r <= 0x11ff: // Hangul vowels and finals join the syllable
		return 0
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cellWidth is the number of terminal cells of s.
func cellWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// bidi are the controls that change the order of what is printed around them:
// with them a response body could make a report say something else than it does.
func bidi(r rune) bool {
	return r == 0x61c || r >= 0x200e && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// printable replaces what must reach neither a terminal nor an XML document:
// each run of white space becomes one space, other control characters, invalid
// UTF-8, non-characters and direction controls become U+FFFD. Statements and
// answers are the application's; an escape sequence in one would otherwise
// move the cursor of whoever reads the report.
func printable(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	space := false
	for _, r := range s {
		if unicode.IsSpace(r) {
			space = true
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(safeRune(r))
	}
	return b.String()
}

// printableLines is printable for text of several lines, which keeps its line
// ends and its indentation.
func printableLines(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return safeRune(r)
	}, s)
}

func safeRune(r rune) rune {
	if unicode.IsControl(r) || bidi(r) || r == utf8.RuneError || r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef {
		return utf8.RuneError
	}
	return r
}

// prefixLen is the length in bytes of the longest prefix of s that fits into n
// cells. A combining rune stays with its base.
func prefixLen(s string, n int) int {
	used := 0
	for i, r := range s {
		w := runeWidth(r)
		if used+w > n {
			return i
		}
		used += w
	}
	return len(s)
}

// cut shortens s to n cells, with an ellipsis at its end where it was longer.
func cut(s string, n int) string {
	if cellWidth(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	return strings.TrimRight(s[:prefixLen(s, n-1)], " ") + ellipsis
}

// pad fills s with spaces to n cells.
func pad(s string, n int) string {
	if w := cellWidth(s); w < n {
		return s + strings.Repeat(" ", n-w)
	}
	return s
}

// wrap breaks s into lines of at most n cells, between words where it can, and
// into at most limit lines (0: any number); the last one then ends in an
// ellipsis. It returns at least one line.
func wrap(s string, n, limit int) []string {
	n = max(n, 2) // a wide rune must fit, or the loop would not advance
	var lines []string
	for cellWidth(s) > n {
		if limit > 0 && len(lines) == limit-1 {
			return append(lines, cut(s, n))
		}
		end := breakAt(s, n)
		lines = append(lines, strings.TrimRight(s[:end], " "))
		s = strings.TrimLeft(s[end:], " ")
	}
	if s != "" || len(lines) == 0 {
		lines = append(lines, s)
	}
	return lines
}

// breakAt is where the first line of s ends: after the last space or comma
// that fits, else after other punctuation, as long as this leaves no more than
// half of the line empty or the rest fits into one line.
func breakAt(s string, n int) int {
	end := prefixLen(s, n)
	if end < len(s) && s[end] == ' ' {
		return end
	}
	for _, marks := range []string{" ,", ".:;&/("} {
		if i := strings.LastIndexAny(s[:end], marks); i >= 0 && (cellWidth(s[:i+1]) > n/2 || cellWidth(s[i+1:]) <= n) {
			return i + 1
		}
	}
	return end
}

// hang wraps text with first before its first line and spaces of the same
// width before the others.
func hang(first, text string, n, limit int) []string {
	lines := wrap(text, n-cellWidth(first), limit)
	for i := range lines {
		lines[i] = first + lines[i]
		first = strings.Repeat(" ", cellWidth(first))
	}
	return lines
}
