package oracle

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// learn finds the noise: what differs between runs of one order.
func (o *Oracle) learn() error {
	o.learned = false
	o.explained, o.raw = map[uint64]map[string][]*series{}, map[string]Verdict{}
	for _, s := range o.spots {
		s.reset()
	}
	for _, s := range o.orders {
		for _, r := range s.runs {
			r.view, r.forms = nil, map[uint64]string{}
			if err := o.sameShape(s.runs[0], r); err != nil {
				return err
			}
			o.gather(r)
		}
	}
	for _, s := range o.spots {
		if err := o.learnSpot(s); err != nil {
			return err
		}
	}
	o.learnSpaces()
	if err := o.learnArrays(); err != nil {
		return err
	}
	if err := o.verify(); err != nil {
		return err
	}
	o.learned = true
	return nil
}

// difference is what one of two runs has at a spot and the other has not.
type difference struct{ first, other []leaf }

func (o *Oracle) learnSpot(s *spot) error {
	if s.drop {
		return nil
	}
	var diffs []difference
	for _, ser := range o.orders {
		for _, r := range ser.runs[1:] {
			d := subtract(s.values[ser.runs[0]], s.values[r])
			if len(d.first)+len(d.other) == 0 {
				continue
			}
			if err := o.stable(s, ser, d); err != nil {
				return err
			}
			diffs = append(diffs, d)
		}
	}
	if s.typ == ID {
		return nil // renamed whatever differs
	}
	o.learnClock(s)
	for _, d := range diffs {
		o.learnTemplates(s, d)
	}
	// A text that fits two templates must be cut in the same way as one that
	// fits only the more general of them.
	slices.SortStableFunc(s.templates, func(a, b *template) int { return cmp.Compare(a.literals(), b.literals()) })
	if s.typ == Time && len(s.templates) > 0 {
		s.whole, s.templates = true, nil
	}
	return nil
}

// subtract takes what both have, as multisets, from each.
func subtract(a, b []leaf) difference {
	if slices.Equal(a, b) {
		return difference{}
	}
	count := map[leaf]int{}
	for _, v := range b {
		count[v]++
	}
	var d difference
	for _, v := range a {
		if count[v] > 0 {
			count[v]--
			continue
		}
		d.first = append(d.first, v)
	}
	for _, v := range b {
		if count[v] > 0 {
			count[v]--
			d.other = append(d.other, v)
		}
	}
	return d
}

// stable fails if what differs is no noise: a value that is there or not, an
// array's length, a yes or no.
func (o *Oracle) stable(s *spot, ser *series, d difference) error {
	fail := func(first, other string) error {
		do := "if it does not matter, name it under noise.json"
		switch {
		case s.column != "":
			do = "if it does not matter, name " + strconv.Quote(s.column) + " under observe.ignore"
		case !strings.Contains(s.name, " $"):
			do = "if it does not matter, leave it out of what is observed"
		}
		return &UnstableError{Order: ser.order, Name: o.orderName(ser.order), Where: s.name, First: first, Other: other, Do: do}
	}
	var balance [256]int
	for _, v := range d.first {
		balance[v.kind]++
	}
	for _, v := range d.other {
		balance[v.kind]--
	}
	for _, n := range balance {
		if n != 0 {
			return fail(describe(d.first), describe(d.other))
		}
	}
	for i, v := range d.first {
		flag := v.kind == kindBool || v.kind == kindText && s.column != "" && isFlag(v.text)
		if flag || v.kind == kindArray {
			return fail(describe(d.first[i:i+1]), describe(d.other))
		}
	}
	return nil
}

func isFlag(s string) bool { return s == "t" || s == "f" || s == "true" || s == "false" }

func describe(list []leaf) string {
	if len(list) == 0 {
		return "nothing"
	}
	v := list[0]
	switch v.kind {
	case kindNull:
		return "null"
	case kindObject:
		return "an object"
	case kindArray:
		return "an array of length " + v.text
	case kindText:
		return strconv.Quote(shorten(v.text))
	}
	return v.text
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return s
}

// learnClock finds out whether the moments at a spot are clock readings, and
// which of them are not: they are the same in both runs of each order.
func (o *Oracle) learnClock(s *spot) {
	seen := map[*run]map[string]bool{}
	for r, list := range s.values {
		for _, v := range list {
			for _, t := range o.moments(v) {
				if seen[r] == nil {
					seen[r] = map[string]bool{}
				}
				seen[r][t] = true
				s.shown[t] = true
			}
		}
	}
	if len(s.shown) == 0 || s.coarse {
		return
	}
	same, moved := map[string]bool{}, map[string]bool{}
	for _, ser := range o.orders {
		first := seen[ser.runs[0]]
		for _, r := range ser.runs[1:] {
			for t := range first {
				if seen[r][t] {
					same[t] = true
				} else {
					moved[t] = true
				}
			}
			for t := range seen[r] {
				if !first[t] {
					moved[t] = true
				}
			}
		}
	}
	for t := range moved {
		delete(same, t)
	}
	if o.ticking(s, same, seen) {
		s.clock, s.fixed, s.coarse = true, nil, true
		return
	}
	s.clock, s.fixed = len(moved) > 0, same
}

func (o *Oracle) moments(v leaf) []string {
	var list []string
	if v.kind == kindNumber {
		if _, ok := epoch(v.text, o.start); ok {
			list = append(list, v.text)
		}
		return list
	}
	if v.kind != kindText {
		return nil
	}
	for _, t := range tokens(v.text, o.start) {
		if t.moment {
			list = append(list, t.text)
		}
	}
	return list
}

// ticking: two moments that never occur together are no further apart than the
// serial runs took. A clock that counts seconds gives both runs of an order the
// same moment, and the next order another one.
func (o *Oracle) ticking(s *spot, same map[string]bool, seen map[*run]map[string]bool) bool {
	var list []string
	for t := range same {
		for _, set := range seen {
			if !set[t] { // what is in every run is together with everything
				list = append(list, t)
				break
			}
		}
	}
	for i, a := range list {
		for _, b := range list[i+1:] {
			if !o.near(a, b, o.last) {
				continue
			}
			together := false
			for _, set := range seen {
				together = together || set[a] && set[b]
			}
			if !together {
				return true
			}
		}
	}
	return false
}

// drift finds clocks too coarse to differ in any two serial runs: at a place
// that looked constant the outcome has a later moment, no further away than the
// time since. It then has to be learned again.
func (o *Oracle) drift(out *Outcome) (found []*spot) {
	r := &run{out: *out}
	o.gather(r)
	for _, s := range o.spots {
		list := s.values[r]
		delete(s.values, r)
		if s.typ == ID || s.drop || s.coarse || len(s.shown) == 0 {
			continue
		}
		if slices.ContainsFunc(list, func(v leaf) bool { return o.drifted(s, v) }) {
			s.coarse = true
			found = append(found, s)
		}
	}
	return found
}

// drifted looks only at moments that are not masked yet.
func (o *Oracle) drifted(s *spot, v leaf) bool {
	constant := s.shown
	if s.clock {
		constant = s.fixed
	}
	for _, t := range o.moments(v) {
		if s.shown[t] {
			continue
		}
		at, _ := moment(t, o.start)
		for other := range constant {
			if o.near(other, t, o.now()) {
				if before, _ := moment(other, o.start); before.Before(at) {
					return true
				}
			}
		}
	}
	return false
}

// near tells whether one clock can have shown both moments between the making
// of the oracle and until.
func (o *Oracle) near(a, b string, until time.Time) bool {
	ta, okA := moment(a, o.start)
	tb, okB := moment(b, o.start)
	if !okA || !okB {
		return false
	}
	grain := time.Second
	if strings.Count(a, ":") == 1 {
		grain = time.Minute
	}
	d := ta.Sub(tb).Abs()
	return d > 0 && d <= until.Sub(o.start)+grain
}

// learnTemplates learns from values of two runs where the noise in them is.
func (o *Oracle) learnTemplates(s *spot, d difference) {
	first, other := o.maskAll(s, d.first), o.maskAll(s, d.other)
	used := make([]bool, len(other))
	var rest [][]string
	for _, v := range first {
		k := slices.IndexFunc(other, func(w []string) bool { return slices.Equal(v, w) })
		for k >= 0 && used[k] {
			n := slices.IndexFunc(other[k+1:], func(w []string) bool { return slices.Equal(v, w) })
			if n < 0 {
				k = -1
				break
			}
			k += n + 1
		}
		if k < 0 {
			rest = append(rest, v)
			continue
		}
		used[k] = true
	}
	for _, v := range rest {
		best, most := -1, -1
		for k, w := range other {
			if n := alike(v, w); !used[k] && n > most {
				best, most = k, n
			}
		}
		if best < 0 {
			return
		}
		used[best] = true
		s.learnPair(v, other[best])
	}
}

func (s *spot) learnPair(a, b []string) {
	t := newTemplate(a, b)
	if len(t.parts) == 1 && t.parts[0].gap != nil {
		s.whole = true
		return
	}
	if !slices.ContainsFunc(s.templates, func(u *template) bool { return u.key == t.key }) {
		s.templates = append(s.templates, t)
	}
}

// verify fails if two runs of one order still differ once the noise is known.
func (o *Oracle) verify() error {
	for _, s := range o.orders {
		first := o.serialForm(s.runs[0], s.members)
		for _, r := range s.runs[1:] {
			if o.serialForm(r, s.members) == first {
				continue
			}
			e := &UnstableError{
				Order: s.order, Name: o.orderName(s.order), Where: "the links between rows",
				First: "the same rows and answers refer to each other in different ways",
				Do:    "name the columns of ids under noise.ids, or those that do not matter under observe.ignore",
			}
			if d := o.diff(o.serialView(s.runs[0]), o.serialView(r), s.members); len(d) > 0 {
				e.Where, e.First, e.Other = d[0].Label, strconv.Quote(shorten(d[0].Observed)), strconv.Quote(shorten(d[0].Serial))
				e.Do = "if it does not matter, name it under observe.ignore or noise"
			}
			return e
		}
	}
	return nil
}

func (o *Oracle) serialForm(r *run, mask uint64) string {
	s, ok := r.forms[mask]
	if !ok {
		s = o.form(&r.out, mask).canonical()
		r.forms[mask] = s
	}
	return s
}

func (o *Oracle) serialView(r *run) *view {
	if r.view == nil {
		r.view = o.view(&r.out)
	}
	return r.view
}

// maskAll gives texts and numbers as masked tokens; a number is one token.
func (o *Oracle) maskAll(s *spot, list []leaf) [][]string {
	var out [][]string
	for _, v := range list {
		switch v.kind {
		case kindText:
			out = append(out, s.mask(v.text, o.start))
		case kindNumber:
			out = append(out, s.maskNumber(v.text, o.start))
		}
	}
	return out
}

// maskNumber is mask for a number, which is one token.
func (s *spot) maskNumber(v string, now time.Time) []string {
	if s.clock && !s.fixed[v] {
		if _, ok := epoch(v, now); ok {
			return []string{masked}
		}
	}
	return []string{v}
}
