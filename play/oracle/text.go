package oracle

import (
	"strings"
	"time"
)

// masked stands for a masked moment. A text can not hold it: both the database
// and HTTP text forbid the zero byte.
const masked = "\x00@"

// token is a word, a moment, or one byte of anything else.
type token struct {
	text   string
	moment bool
}

// tokens cuts a text into tokens; together they are the text. now decides which
// bare numbers are moments.
func tokens(s string, now time.Time) []token {
	list := make([]token, 0, len(s)/3+1)
	for i := 0; i < len(s); {
		if _, n := readMoment(s[i:]); n > 0 {
			list = append(list, token{s[i : i+n], true})
			i += n
			continue
		}
		j := i
		for j < len(s) && isWord(s[j]) {
			j++
		}
		if j == i {
			j++
		}
		_, is := epoch(s[i:j], now)
		list = append(list, token{s[i:j], is})
		i = j
	}
	return list
}

// slot is a gap in a template.
type slot struct {
	// many: the gap takes any number of tokens, up to the next literal one.
	many bool
	// space is the name space of what stands in the gap, 0 for none.
	space int
	// where the values of the gap were seen, by serial run; only for learning.
	seen []seenAt
}

type seenAt struct {
	run   *run
	value string
}

// part of a template: a literal token or a gap.
type part struct {
	literal string
	gap     *slot
}

// template is a text with gaps, learned from two runs of one serial order.
type template struct {
	parts []part
	key   string
}

// piece is one part of a text after templates were applied.
type piece struct {
	text string
	gap  *slot // nil for literal text
}

// match cuts text by the template. n is the number of parts that fit from the
// front; the text fits if all did and rest is empty.
func (t *template) match(text []string) (pieces []piece, n int, rest []string) {
	for i, p := range t.parts {
		if p.gap == nil {
			if len(text) == 0 || text[0] != p.literal {
				return pieces, i, text
			}
			pieces = append(pieces, piece{text: p.literal})
			text = text[1:]
			continue
		}
		take := 1
		if p.gap.many {
			take = len(text)
			if i+1 < len(t.parts) {
				take = index(text, t.parts[i+1].literal)
			}
		}
		if take < 0 || take > len(text) {
			return pieces, i, text
		}
		pieces = append(pieces, piece{text: join(text[:take]), gap: p.gap})
		text = text[take:]
	}
	return pieces, len(t.parts), text
}

// matchEnd is match from the back, over the parts behind the first `from`.
func (t *template) matchEnd(text []string, from int) (rest []string, pieces []piece) {
	for i := len(t.parts) - 1; i >= from && len(text) > 0; i-- {
		p := t.parts[i]
		if p.gap != nil && p.gap.many || p.gap == nil && text[len(text)-1] != p.literal {
			break
		}
		pieces = append(pieces, piece{text: text[len(text)-1], gap: p.gap})
		text = text[:len(text)-1]
	}
	for i, j := 0, len(pieces)-1; i < j; i, j = i+1, j-1 {
		pieces[i], pieces[j] = pieces[j], pieces[i]
	}
	return text, pieces
}

// literals ranks templates: those that take gaps of any length come first, then
// those with less in common between their texts.
func (t *template) literals() int {
	n := 0
	for _, p := range t.parts {
		switch {
		case p.gap == nil:
			n++
		case p.gap.many:
			n -= 1 << 30
		}
	}
	return n
}

// cut applies the first template that fits the whole text. Where none fits, the
// text is one that no serial run gave; it is then cut by the template that fits
// best from the front and the back, so that noise in it does not make each
// occurrence of one finding look like a new one.
func cut(templates []*template, text []string) []piece {
	var best *template
	var front []piece
	var rest []string
	fit := 0
	for _, t := range templates {
		pieces, n, left := t.match(text)
		if n == len(t.parts) && len(left) == 0 {
			return pieces
		}
		if best == nil || n > fit {
			best, front, rest, fit = t, pieces, left, n
		}
	}
	if best == nil {
		return []piece{{text: join(text)}}
	}
	middle, back := best.matchEnd(rest, fit)
	out := append(front, piece{text: join(middle)})
	return append(out, back...)
}

// maxAlign bounds the table of the alignment of two texts, in cells.
const maxAlign = 4 << 20

// newTemplate finds what two texts have in common; the rest are gaps.
func newTemplate(a, b []string) *template {
	t := &template{}
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	m := 0
	for m < len(a)-n && m < len(b)-n && a[len(a)-1-m] == b[len(b)-1-m] {
		m++
	}
	t.literal(a[:n])
	t.align(a[n:len(a)-m], b[n:len(b)-m])
	t.literal(a[len(a)-m:])
	t.widen()
	for _, p := range t.parts {
		switch {
		case p.gap == nil:
			t.key += p.literal
		case p.gap.many:
			t.key += "\x00*"
		default:
			t.key += "\x00?"
		}
	}
	return t
}

func (t *template) literal(text []string) {
	for _, s := range text {
		t.parts = append(t.parts, part{literal: s})
	}
}

// gaps adds the gap between the common tokens a and b have on either side.
func (t *template) gaps(a, b []string) {
	if len(a) == 0 && len(b) == 0 {
		return
	}
	if len(a) != len(b) {
		if n := len(t.parts); n == 0 || t.parts[n-1].gap == nil || !t.parts[n-1].gap.many {
			t.parts = append(t.parts, part{gap: &slot{many: true}})
		}
		return
	}
	for i := range a {
		if a[i] == b[i] {
			t.parts = append(t.parts, part{literal: a[i]})
			continue
		}
		// The next value of a base64 generator can hold what ends a token.
		t.parts = append(t.parts, part{gap: &slot{many: random(a[i]) || random(b[i])}})
	}
}

// random tells words of both cases and some length, as base64 has.
func random(s string) bool {
	return entropic(s) && strings.ToLower(s) != s && strings.ToUpper(s) != s
}

// align adds the longest common subsequence of a and b, with gaps between. Two
// texts too long to align are one gap.
func (t *template) align(a, b []string) {
	if len(a) == len(b) || (len(a)+1)*(len(b)+1) > maxAlign {
		t.gaps(a, b)
		return
	}
	w := len(b) + 1
	best := make([]int32, (len(a)+1)*w)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				best[i*w+j] = best[(i+1)*w+j+1] + 1
			} else {
				best[i*w+j] = max(best[(i+1)*w+j], best[i*w+j+1])
			}
		}
	}
	fromA, fromB := 0, 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			t.gaps(a[fromA:i], b[fromB:j])
			t.literal(a[i : i+1])
			i, j = i+1, j+1
			fromA, fromB = i, j
		case best[(i+1)*w+j] >= best[i*w+j+1]:
			i++
		default:
			j++
		}
	}
	t.gaps(a[fromA:], b[fromB:])
}

// strong tells the bytes that separate values in texts, mark-up and addresses.
func strong(s string) bool {
	return len(s) == 1 && index(separators, s) >= 0
}

var separators = []string{" ", "\t", "\r", "\n", "\"", "'", "`", "<", ">", ",", ":", ";", "&", "?", "(", ")", "[", "]", "{", "}"}

// widen makes one gap of each stretch between separators from its first gap on
// that has several gaps and no word between them: two random base64 values can
// have a "+" in the same place by chance, and the next one need not have it there.
func (t *template) widen() {
	var out []part
	for i := 0; i < len(t.parts); {
		p := t.parts[i]
		if p.gap == nil {
			out = append(out, p)
			i++
			continue
		}
		many, last, next := p.gap.many, i, i+1
		for ; next < len(t.parts); next++ {
			q := t.parts[next]
			if q.gap == nil && (strong(q.literal) || len(q.literal) > 1) {
				break
			}
			if q.gap != nil {
				many, last = true, next
			}
		}
		if many {
			out = append(out, part{gap: &slot{many: true}})
			i = next
			continue
		}
		out = append(out, t.parts[i:last+1]...)
		i = last + 1
	}
	t.parts = out
}

// alike counts the tokens that a and b share at their ends.
func alike(a, b []string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	m := 0
	for m < len(a)-n && m < len(b)-n && a[len(a)-1-m] == b[len(b)-1-m] {
		m++
	}
	return n + m
}

func index(list []string, s string) int {
	for i, v := range list {
		if v == s {
			return i
		}
	}
	return -1
}

func join(list []string) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return list[0]
	}
	n := 0
	for _, s := range list {
		n += len(s)
	}
	b := make([]byte, 0, n)
	for _, s := range list {
		b = append(b, s...)
	}
	return string(b)
}
