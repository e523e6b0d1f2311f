package oracle

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// maxLeaves bounds how many ways of telling apart identities with equal
// neighbourhoods are tried for the smallest form. Two equal orders with equal
// items are two ways, three are six, four are 24; rows that differ in nothing
// else count once.
const maxLeaves = 64

// labeller brings a form into its canonical text.
type labeller struct {
	f      *form
	base   []uint64 // hash of each record's text
	leaves int
	best   string
}

// canonical is equal for two forms if and only if one can be renamed into the
// other (see the limits in the package comment for large symmetries).
//
// It refines colours: an identity's colour is made of the colours of the records
// it occurs in and where, a record's of its text and its identities' colours,
// until no more identities can be told apart. Where some remain equal, one is
// chosen and marked, and refinement goes on. The colours decide only the order
// of records and so the names; the text holds everything, so a clash of hashes
// can not make different outcomes equal.
func (f *form) canonical() string {
	l := labeller{f: f, base: make([]uint64, len(f.records))}
	for i := range f.records {
		l.base[i] = hash(f.records[i].text)
	}
	colours := make([]uint64, len(f.ids))
	for i, id := range f.ids {
		colours[i] = mix(0x9e3779b97f4a7c15, uint64(id.space))
	}
	l.search(colours)
	return l.best
}

func (l *labeller) search(colours []uint64) {
	l.refine(colours)
	class := l.tied(colours)
	if class == nil {
		l.leaves++
		if s := l.write(colours); l.leaves == 1 || s < l.best {
			l.best = s
		}
		return
	}
	for i, id := range class {
		if l.leaves >= maxLeaves || i > 0 && l.twins(class[0], id) {
			return
		}
		marked := slices.Clone(colours)
		marked[id] = mix(marked[id], 1)
		l.search(marked)
	}
}

func (l *labeller) refine(colours []uint64) {
	n := distinct(colours)
	next := make([]uint64, len(colours))
	for n < len(colours) {
		clear(next)
		for i := range l.f.records {
			r := &l.f.records[i]
			if len(r.ids) == 0 {
				continue
			}
			h := l.base[i]
			for _, id := range r.ids {
				// Where the record has the identity first tells the row (1, 1)
				// from (1, 2) while 1 and 2 still have one colour.
				h = mix(mix(h, colours[id]), uint64(slices.Index(r.ids, id)))
			}
			for at, id := range r.ids {
				next[id] += mix(h, uint64(at))
			}
		}
		for i := range colours {
			colours[i] = mix(colours[i], next[i])
		}
		m := distinct(colours)
		if m == n {
			return
		}
		n = m
	}
}

func distinct(colours []uint64) int {
	if len(colours) < 2 {
		return len(colours)
	}
	sorted := slices.Sorted(slices.Values(colours))
	return len(slices.Compact(sorted))
}

// tied is the class of equal colours with the smallest colour, nil if none.
func (l *labeller) tied(colours []uint64) []int32 {
	order := make([]int32, len(colours))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(colours[a], colours[b]) })
	for i := 1; i < len(order); i++ {
		if colours[order[i]] == colours[order[i-1]] {
			j := i + 1
			for j < len(order) && colours[order[j]] == colours[order[i]] {
				j++
			}
			return order[i-1 : j]
		}
	}
	return nil
}

// twins: a and b each occur once, in records that are otherwise equal. It then
// does not matter which is marked. All of a class are alike in this.
func (l *labeller) twins(a, b int32) bool {
	ra, rb := l.only(a), l.only(b)
	if ra == nil || rb == nil || !bytes.Equal(ra.text, rb.text) {
		return false
	}
	for i := range ra.ids {
		if ra.ids[i] != rb.ids[i] && (ra.ids[i] != a || rb.ids[i] != b) {
			return false
		}
	}
	return true
}

// only is the record in which an identity occurs, nil if it occurs again.
func (l *labeller) only(id int32) *record {
	var found *record
	for i := range l.f.records {
		for _, x := range l.f.records[i].ids {
			if x != id {
				continue
			}
			if found != nil {
				return nil
			}
			found = &l.f.records[i]
		}
	}
	return found
}

// write names the identities by their first appearance in the sorted records.
func (l *labeller) write(colours []uint64) string {
	order := make([]int, len(l.f.records))
	size := 0
	for i := range order {
		order[i] = i
		size += len(l.f.records[i].text) + 4*len(l.f.records[i].ids) + 1
	}
	slices.SortFunc(order, func(a, b int) int {
		ra, rb := &l.f.records[a], &l.f.records[b]
		if c := bytes.Compare(ra.text, rb.text); c != 0 {
			return c
		}
		for i := range min(len(ra.ids), len(rb.ids)) {
			if c := cmp.Compare(colours[ra.ids[i]], colours[rb.ids[i]]); c != 0 {
				return c
			}
		}
		return 0
	})
	names := make([]int, len(colours))
	next := 0
	var b strings.Builder
	b.Grow(size)
	for _, i := range order {
		r := &l.f.records[i]
		b.Write(r.text)
		for _, id := range r.ids {
			if names[id] == 0 {
				next++
				names[id] = next
			}
			b.WriteByte('#')
			b.WriteString(strconv.Itoa(names[id]))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// hash is FNV-1a; the same in every process, so that keys of findings are too.
func hash(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// mix combines two words so that the order matters.
func mix(a, b uint64) uint64 {
	x := a*0x9ddfea08eb382d69 ^ (b + 0x9e3779b97f4a7c15)
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 29
	x *= 0x9e3779b97f4a7c15
	return x ^ x>>32
}
