package oracle

import (
	"strings"
	"time"
)

// nearNow is how far from the present a bare number may be as seconds,
// milliseconds, microseconds or nanoseconds since 1970 to be taken for a
// moment. It is wide enough for what expires in a year.
const nearNow = 400 * 24 * time.Hour

var months = [...]string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}

// scanner reads the fields of a moment off the front of a string.
type scanner struct {
	s  string
	at int
}

func (p *scanner) digits(low, high int) (int, bool) {
	n, v := 0, 0
	for p.at+n < len(p.s) && n < high && isDigit(p.s[p.at+n]) {
		v = v*10 + int(p.s[p.at+n]-'0')
		n++
	}
	if n < low {
		return 0, false
	}
	p.at += n
	return v, true
}

func (p *scanner) one(of string) bool {
	if p.at < len(p.s) && strings.IndexByte(of, p.s[p.at]) >= 0 {
		p.at++
		return true
	}
	return false
}

// clock reads 15:04, 15:04:05 or 15:04:05.123.
func (p *scanner) clock() (time.Duration, bool) {
	h, ok := p.digits(1, 2)
	if !ok || h > 24 || !p.one(":") {
		return 0, false
	}
	m, ok := p.digits(2, 2)
	if !ok || m > 59 {
		return 0, false
	}
	d := time.Duration(h)*time.Hour + time.Duration(m)*time.Minute
	mark := p.at
	if !p.one(":") {
		return d, true
	}
	sec, ok := p.digits(2, 2)
	if !ok || sec > 60 {
		p.at = mark
		return d, true
	}
	d += time.Duration(sec) * time.Second
	mark = p.at
	if !p.one(".,") {
		return d, true
	}
	from := p.at
	if _, ok := p.digits(1, 9); !ok {
		p.at = mark
		return d, true
	}
	unit := time.Second
	for _, c := range p.s[from:p.at] {
		unit /= 10
		d += time.Duration(c-'0') * unit
	}
	return d, true
}

// zone reads an optional Z, UTC, GMT, +02, +0200 or +02:00.
func (p *scanner) zone() time.Duration {
	mark := p.at
	p.one(" ")
	for _, name := range []string{"Z", "UTC", "GMT"} {
		if strings.HasPrefix(p.s[p.at:], name) {
			p.at += len(name)
			return 0
		}
	}
	sign := time.Duration(1)
	if p.at < len(p.s) && p.s[p.at] == '-' {
		sign = -1
	}
	if !p.one("+-") {
		p.at = mark
		return 0
	}
	h, ok := p.digits(2, 2)
	if !ok || h > 15 {
		p.at = mark
		return 0
	}
	end := p.at
	p.one(":")
	m, ok := p.digits(2, 2)
	if !ok {
		p.at, m = end, 0
	}
	return sign * (time.Duration(h)*time.Hour + time.Duration(m)*time.Minute)
}

// sqlDate reads 2006-01-02, alone or followed by a clock and a zone.
func (p *scanner) sqlDate() (time.Time, bool) {
	y, ok := p.digits(4, 4)
	if !ok || !p.one("-") {
		return time.Time{}, false
	}
	m, ok := p.digits(2, 2)
	if !ok || m < 1 || m > 12 || !p.one("-") {
		return time.Time{}, false
	}
	d, ok := p.digits(2, 2)
	if !ok || d < 1 || d > 31 {
		return time.Time{}, false
	}
	t := time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC)
	mark := p.at
	if p.one("T ") {
		if c, ok := p.clock(); ok {
			return t.Add(c - p.zone()), true
		}
		p.at = mark
	}
	return t, true
}

// httpDate reads 02 Jan 2006 15:04:05 GMT, with or without "Mon, " before it.
func (p *scanner) httpDate() (time.Time, bool) {
	if len(p.s) > 5 && p.s[3] == ',' && p.s[4] == ' ' {
		p.at = 5
	}
	d, ok := p.digits(1, 2)
	if !ok || d < 1 || d > 31 || !p.one(" -") || p.at+3 > len(p.s) {
		return time.Time{}, false
	}
	month := 0
	for i, name := range months {
		if p.s[p.at:p.at+3] == name {
			month = i + 1
		}
	}
	p.at += 3
	if month == 0 || !p.one(" -") {
		return time.Time{}, false
	}
	y, ok := p.digits(4, 4)
	if !ok || !p.one(" ") {
		return time.Time{}, false
	}
	c, ok := p.clock()
	if !ok {
		return time.Time{}, false
	}
	return time.Date(y, time.Month(month), d, 0, 0, 0, 0, time.UTC).Add(c - p.zone()), true
}

// readMoment reads a written moment off the front of s: a date, a date and a
// clock, or a clock alone (which is then on day 0). It returns the number of
// bytes read, 0 for none.
func readMoment(s string) (time.Time, int) {
	if len(s) < 5 {
		return time.Time{}, 0
	}
	if isDigit(s[0]) {
		p := scanner{s: s}
		if t, ok := p.sqlDate(); ok {
			return t, p.end()
		}
		p = scanner{s: s}
		if c, ok := p.clock(); ok && p.at >= 5 {
			return time.Time{}.Add(c), p.end()
		}
	}
	p := scanner{s: s}
	if t, ok := p.httpDate(); ok {
		return t, p.end()
	}
	return time.Time{}, 0
}

// end is the number of bytes read, 0 when a word goes on behind them: the first
// digits of a UUID are no date.
func (p *scanner) end() int {
	if p.at < len(p.s) && isWord(p.s[p.at]) {
		return 0
	}
	return p.at
}

// epoch reads a bare number as a time since 1970, in the unit its length tells,
// if it is near the present.
func epoch(s string, now time.Time) (time.Time, bool) {
	whole, frac, _ := strings.Cut(s, ".")
	var unit int64
	switch len(whole) {
	case 10:
		unit = int64(time.Second)
	case 13:
		unit = int64(time.Millisecond)
	case 16:
		unit = int64(time.Microsecond)
	case 19:
		unit = int64(time.Nanosecond)
	default:
		return time.Time{}, false
	}
	var n int64
	for i := range len(whole) {
		if !isDigit(whole[i]) {
			return time.Time{}, false
		}
		n = n*10 + int64(whole[i]-'0')
	}
	per := int64(time.Second) / unit
	t := time.Unix(n/per, n%per*unit)
	for i := range len(frac) {
		if !isDigit(frac[i]) {
			return time.Time{}, false
		}
		unit /= 10
		t = t.Add(time.Duration(int64(frac[i]-'0') * unit))
	}
	if d := t.Sub(now); d > nearNow || d < -nearNow {
		return time.Time{}, false
	}
	return t, true
}

// moment reads the whole of s as a moment.
func moment(s string, now time.Time) (time.Time, bool) {
	if t, ok := epoch(s, now); ok {
		return t, true
	}
	t, n := readMoment(s)
	return t, n > 0 && n == len(s)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isWord tells the bytes that words are made of. The hyphen keeps a UUID in one
// piece, bytes above ASCII keep letters in one.
func isWord(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '-' || c >= 0x80
}
