package oracle

import (
	"slices"
	"strconv"
	"strings"
)

// idKey is one identity: equal values mean the same thing in one name space.
type idKey struct {
	space int
	value string
}

// learnSpaces groups the places of identities into name spaces. Columns belong
// together if a foreign key or a name (order_id, orders.id) says so. A place
// without a declaration follows the one space that has all its values in every
// serial run; if several have, nothing can be told and it follows none.
//
// Equal values alone are no reason: with orders and payments both at number 5
// in every serial run, two interleaved requests could make order 5 and payment
// 6, and order 6 and payment 5, and nothing would be wrong.
func (o *Oracle) learnSpaces() {
	o.constants = map[idKey]bool{}
	parent := map[*spot]*spot{}
	var find func(s *spot) *spot
	find = func(s *spot) *spot {
		if parent[s] == s {
			return s
		}
		parent[s] = find(parent[s])
		return parent[s]
	}
	for _, s := range o.spots {
		if s.column != "" && !s.drop && (s.typ == ID || o.countsUp(s)) {
			parent[s] = s
		}
	}
	for _, s := range o.spots {
		if parent[s] == nil {
			continue
		}
		if target := o.target(s); target != nil && parent[target] != nil {
			parent[find(s)] = find(target)
		}
	}
	next := firstSpace
	var spaces []*spot // by space, from firstSpace on: the columns' root
	for _, s := range o.spots {
		if parent[s] == nil {
			continue
		}
		root := find(s)
		if root.space == noSpace {
			root.space = next
			spaces = append(spaces, root)
			next++
		}
		s.space = root.space
	}
	o.follow(len(spaces))
	o.learnConstants()
}

// countsUp tells whether a noisy column without a declared type holds
// identities: numbers of which no two are the same in any serial run.
func (o *Oracle) countsUp(s *spot) bool {
	if !s.whole || s.clock {
		return false
	}
	several := false
	for _, list := range s.values {
		seen := map[string]bool{}
		for _, v := range list {
			if v.kind == kindNull {
				continue
			}
			if _, err := strconv.ParseInt(v.text, 10, 64); err != nil || seen[v.text] {
				return false
			}
			seen[v.text] = true
		}
		several = several || len(seen) > 1
	}
	return several
}

// target is the column that s refers to, by declaration or by name.
func (o *Oracle) target(s *spot) *spot {
	if s.ref != "" {
		for _, name := range []string{s.ref, unschema(s.ref)} {
			if t := o.columns[name]; t != nil {
				return t
			}
		}
		for _, t := range o.spots {
			if t.column != "" && unschema(t.column) == unschema(s.ref) {
				return t
			}
		}
		return nil
	}
	dot := strings.LastIndexByte(s.column, '.')
	table, column := s.column[:dot], s.column[dot+1:]
	base, ok := strings.CutSuffix(column, "_id")
	if !ok || base == "" {
		return nil
	}
	schema := ""
	if i := strings.LastIndexByte(table, '.'); i >= 0 {
		schema = table[:i+1]
	}
	names := []string{base, base + "s", base + "es"}
	if stem, ok := strings.CutSuffix(base, "y"); ok {
		names = append(names, stem+"ies")
	}
	for _, name := range names {
		if t := o.columns[schema+name+".id"]; t != nil && t != s {
			return t
		}
	}
	return nil
}

// follow finds the spaces of the noisy places that have none of their own.
func (o *Oracle) follow(spaces int) {
	inSpace := map[*run][]map[string]bool{}
	for _, s := range o.spots {
		if s.space < firstSpace {
			continue
		}
		for r, list := range s.values {
			if inSpace[r] == nil {
				inSpace[r] = make([]map[string]bool, spaces)
			}
			k := s.space - firstSpace
			if inSpace[r][k] == nil {
				inSpace[r][k] = map[string]bool{}
			}
			for _, v := range list {
				inSpace[r][k][v.text] = true
			}
		}
	}
	follows := func(seen []seenAt) int {
		var left []int
		for k := range spaces {
			left = append(left, k)
		}
		for _, v := range seen {
			sets := inSpace[v.run]
			left = slices.DeleteFunc(left, func(k int) bool { return sets == nil || !sets[k][v.value] })
		}
		if len(left) == 1 && len(seen) > 0 {
			return left[0] + firstSpace
		}
		return noSpace
	}
	for _, s := range o.spots {
		switch {
		case s.drop || s.space != noSpace:
		case s.whole:
			s.space = follows(o.wholeValues(s))
		default:
			o.followGaps(s, follows)
		}
	}
}

// wholeValues are the values of a spot that is noise as a whole, without
// clock readings.
func (o *Oracle) wholeValues(s *spot) []seenAt {
	var seen []seenAt
	for _, ser := range o.orders {
		for _, r := range ser.runs {
			for _, v := range s.values[r] {
				if v.kind != kindText && v.kind != kindNumber {
					continue
				}
				if m := o.maskAll(s, []leaf{v}); join(m[0]) != masked {
					seen = append(seen, seenAt{r, v.text})
				}
			}
		}
	}
	return seen
}

func (o *Oracle) followGaps(s *spot, follows func([]seenAt) int) {
	if len(s.templates) == 0 {
		return
	}
	for _, ser := range o.orders {
		for _, r := range ser.runs {
			for _, v := range s.values[r] {
				if v.kind != kindText {
					continue
				}
				for _, p := range cut(s.templates, s.mask(v.text, o.start)) {
					if p.gap != nil && !p.gap.many && p.text != masked {
						p.gap.seen = append(p.gap.seen, seenAt{r, p.text})
					}
				}
			}
		}
	}
	for _, t := range s.templates {
		for _, p := range t.parts {
			if p.gap != nil {
				p.gap.space = follows(p.gap.seen)
				p.gap.seen = nil
			}
		}
	}
}

// learnConstants finds the identities that were there before the requests.
func (o *Oracle) learnConstants() {
	count := map[idKey]int{}
	runs := o.byKey[""].runs
	for _, r := range runs {
		f := o.form(&r.out, 0)
		for _, id := range f.ids {
			count[id]++
		}
	}
	constants := map[idKey]bool{}
	for id, n := range count {
		if n == len(runs) {
			constants[id] = true
		}
	}
	o.constants = constants
}

// entropic tells values that are equal only if they are the same thing: at
// least 16 characters without a blank, as UUIDs and random tokens have. That it
// mixes letters and digits is not asked for: now and then a random token has no
// digit, and it must be treated as its neighbours are.
func entropic(s string) bool {
	if len(s) < 16 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !isDigit(c) && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && strings.IndexByte("-_+/=.:", c) < 0 {
			return false
		}
	}
	return true
}

// learnArrays finds the arrays whose elements have no order: two runs of one
// serial order gave the same elements in different order.
func (o *Oracle) learnArrays() error {
	for range 4 { // the depth of nested arrays that is looked at
		changed := false
		for _, ser := range o.orders {
			first := o.arrays(&ser.runs[0].out)
			for _, r := range ser.runs[1:] {
				other := o.arrays(&r.out)
				for n, lists := range first {
					if !n.unordered && shuffled(lists, other[n]) {
						n.unordered, changed = true, true
					}
				}
			}
		}
		if !changed {
			return nil
		}
	}
	return nil
}

// shuffled tells whether the lists are the same as multisets of multisets but
// not as multisets of lists.
func shuffled(a, b [][]string) bool {
	flat := func(lists [][]string, inner bool) []string {
		out := make([]string, len(lists))
		for i, l := range lists {
			if inner {
				l = slices.Sorted(slices.Values(l))
			}
			out[i] = strings.Join(l, "\x00,")
		}
		slices.Sort(out)
		return out
	}
	return !slices.Equal(flat(a, false), flat(b, false)) && slices.Equal(flat(a, true), flat(b, true))
}
