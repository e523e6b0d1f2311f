package witness

import (
	"fmt"
	"hash/fnv"
	"sort"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// term is a value in normal form: a sum of atoms with factors, plus a constant.
// A string, nil, an input, an opaque application is one atom with factor 1. The
// normal form is what makes b - x - y equal b - y - x, so that two withdrawals
// in either order are one outcome.
type term struct {
	parts []part // by atom key, factors not zero
	c     int64
}

type part struct {
	k int64
	a *atom
}

// atom is what can not be computed further.
type atom struct {
	key  string // canonical name; equal keys are equal values
	kind atomKind
	fn   string // of an application
	args []term
}

type atomKind uint8

const (
	constAtom   atomKind = iota // "text", nil, true, false, 1.5
	inputAtom                   // an input, an unknown value, the clock
	initialAtom                 // what a cell held at the start
	freshAtom                   // differs from everything else
	applyAtom
)

func number(n int64) term { return term{c: n} }

func single(a *atom) term { return term{parts: []part{{1, a}}} }

func constant(text string) term {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return number(n)
	}
	return single(&atom{key: text, kind: constAtom})
}

var (
	nilTerm   = constant("nil")
	trueTerm  = constant("true")
	falseTerm = constant("false")
)

func boolean(b bool) term {
	if b {
		return trueTerm
	}
	return falseTerm
}

func apply(fn string, args ...term) term {
	keys := make([]string, len(args))
	for i, a := range args {
		keys[i] = a.String()
	}
	key := fn + "(" + strings.Join(keys, ", ") + ")"
	if len(key) > maxKey {
		// A loop that wraps a value in itself doubles it each round.
		h := fnv.New64a()
		h.Write([]byte(key))
		return single(&atom{key: fmt.Sprintf("%s(#%x)", fn, h.Sum64()), kind: applyAtom, fn: fn})
	}
	return single(&atom{key: key, kind: applyAtom, fn: fn, args: args})
}

// maxKey is the length from which a term is known by its hash only.
const maxKey = 2000

// atom gives the only atom of the term, or nil.
func (t term) atom() *atom {
	if len(t.parts) == 1 && t.parts[0].k == 1 && t.c == 0 {
		return t.parts[0].a
	}
	return nil
}

func (t term) isConst() bool {
	if len(t.parts) == 0 {
		return true
	}
	a := t.atom()
	return a != nil && a.kind == constAtom
}

func (t term) String() string {
	if len(t.parts) == 0 {
		return strconv.FormatInt(t.c, 10)
	}
	var b strings.Builder
	for i, p := range t.parts {
		switch {
		case p.k < 0 && i == 0:
			b.WriteString("-")
		case p.k < 0:
			b.WriteString(" - ")
		case i > 0:
			b.WriteString(" + ")
		}
		if k := max(p.k, -p.k); k != 1 {
			b.WriteString(strconv.FormatInt(k, 10) + "*")
		}
		b.WriteString(p.a.key)
	}
	switch {
	case t.c > 0:
		b.WriteString(" + " + strconv.FormatInt(t.c, 10))
	case t.c < 0:
		b.WriteString(" - " + strconv.FormatInt(-t.c, 10))
	}
	return b.String()
}

// plus adds k times u.
func (t term) plus(k int64, u term) term {
	if len(u.parts) == 0 {
		return term{parts: t.parts, c: t.c + k*u.c}
	}
	sum := map[string]part{}
	for _, p := range t.parts {
		sum[p.a.key] = p
	}
	for _, p := range u.parts {
		q := sum[p.a.key]
		sum[p.a.key] = part{q.k + k*p.k, p.a}
	}
	out := term{c: t.c + k*u.c}
	for _, p := range sum {
		if p.k != 0 {
			out.parts = append(out.parts, p)
		}
	}
	// Positive parts first, so that a term reads like a computation.
	sort.Slice(out.parts, func(i, j int) bool {
		a, b := out.parts[i], out.parts[j]
		if a.k > 0 != (b.k > 0) {
			return a.k > 0
		}
		return a.a.key < b.a.key
	})
	return out
}

// world is one choice of everything that is open at the start: which rows
// exist, what their cells hold, how undetermined comparisons come out. It
// answers by need, remembers, and can be moved on to the next choice. All runs
// that are compared with each other happen in one world: a condition that nobody
// knows has the same truth in the interleaving and in the serial orders, so it
// can not by itself make them differ.
type world struct {
	answers map[string]bool
	asked   []question
	prefix  []bool // answers that are fixed by the enumeration
	bound   map[string]term
	slots   map[string][]*slot
	slotSeq map[string]int
}

type question struct {
	key        string
	first, now bool
}

// slot is a row that may exist at the start.
type slot struct {
	table  string
	index  int
	exists bool
	cols   map[string]term // what the world has fixed so far
}

func newWorld(prefix []bool) *world {
	return &world{answers: map[string]bool{}, prefix: prefix, bound: map[string]term{}, slots: map[string][]*slot{}, slotSeq: map[string]int{}}
}

// ask decides an open question; first is the answer that is tried first.
func (w *world) ask(key string, first bool) bool {
	if a, ok := w.answers[key]; ok {
		return a
	}
	a := first
	if n := len(w.asked); n < len(w.prefix) {
		a = w.prefix[n]
	}
	w.answers[key] = a
	w.asked = append(w.asked, question{key, first, a})
	return a
}

// next gives the prefix of the world after this one, or false after the last:
// the latest question that still has its first answer gets the other one.
func (w *world) next() ([]bool, bool) {
	for i := len(w.asked) - 1; i >= 0; i-- {
		if w.asked[i].now != w.asked[i].first {
			continue
		}
		prefix := make([]bool, i+1)
		for j := range i {
			prefix[j] = w.asked[j].now
		}
		prefix[i] = !w.asked[i].first
		return prefix, true
	}
	return nil, false
}

// resolve replaces atoms by what the world has bound them to.
func (w *world) resolve(t term) term {
	if !w.touches(t) {
		return t
	}
	out := number(t.c)
	for _, p := range t.parts {
		switch b, ok := w.bound[p.a.key]; {
		case ok:
			out = out.plus(p.k, w.resolve(b))
		case p.a.kind == applyAtom && len(p.a.args) > 0:
			args := make([]term, len(p.a.args))
			for i, a := range p.a.args {
				args[i] = w.resolve(a)
			}
			out = out.plus(p.k, apply(p.a.fn, args...))
		default:
			out = out.plus(p.k, single(p.a))
		}
	}
	return out
}

// touches says whether resolving would change the term: most terms are one atom
// that nothing is known of.
func (w *world) touches(t term) bool {
	for _, p := range t.parts {
		if _, ok := w.bound[p.a.key]; ok {
			return true
		}
		for _, a := range p.a.args {
			if w.touches(a) {
				return true
			}
		}
	}
	return false
}

// equal decides a == b. Where it is open the world is asked, and a yes binds the
// open side, so that the next comparison of it is decided.
func (w *world) equal(a, b term, first bool) bool {
	a, b = w.resolve(a), w.resolve(b)
	if x, y := a.atom(), b.atom(); x != nil && y != nil {
		if x.key == y.key {
			return true
		}
		if x.kind == constAtom && y.kind == constAtom {
			return false
		}
	}
	d := a.plus(-1, b)
	if len(d.parts) == 0 {
		return d.c == 0
	}
	x, y := a.atom(), b.atom()
	if a.isConst() && b.isConst() || x != nil && x.kind == freshAtom || y != nil && y.kind == freshAtom {
		return false
	}
	if len(d.parts) == 2 && (x == nil || y == nil) && mixed(d) {
		return false
	}
	ka, kb := a.String(), b.String()
	if ka > kb {
		ka, kb = kb, ka
	}
	if !w.ask(ka+" == "+kb, first) {
		return false
	}
	switch {
	case open(x) && !mentions(b, x.key):
		w.bound[x.key] = b
	case open(y) && !mentions(a, y.key):
		w.bound[y.key] = a
	}
	return true
}

// mixed says that a difference holds a text constant: a text never equals a sum.
func mixed(d term) bool {
	for _, p := range d.parts {
		if p.a.kind == constAtom {
			return true
		}
	}
	return false
}

func open(a *atom) bool { return a != nil && (a.kind == inputAtom || a.kind == initialAtom) }

func mentions(t term, key string) bool {
	for _, p := range t.parts {
		if p.a.key == key {
			return true
		}
		for _, a := range p.a.args {
			if mentions(a, key) {
				return true
			}
		}
	}
	return false
}

// less decides a < b.
func (w *world) less(a, b term, first bool) bool {
	d := w.resolve(a).plus(-1, w.resolve(b))
	if len(d.parts) == 0 {
		return d.c < 0
	}
	return w.ask(d.String()+" < 0", first)
}

// truth decides a term that stands as a condition.
func (w *world) truth(t term, first bool) bool {
	t = w.resolve(t)
	if a := t.atom(); a != nil {
		switch a.key {
		case "true":
			return true
		case "false", "nil":
			return false
		}
		if a.kind == freshAtom {
			return true
		}
	}
	if len(t.parts) == 0 {
		return t.c != 0
	}
	return w.ask(t.String(), first)
}

// compare decides a comparison of the representation.
func (w *world) compare(op string, a, b term, first bool) bool {
	switch op {
	case "==":
		return w.equal(a, b, first)
	case "!=":
		return !w.equal(a, b, !first)
	case "<":
		return w.less(a, b, first)
	case ">":
		return w.less(b, a, first)
	case "<=":
		return !w.less(b, a, !first)
	}
	return !w.less(a, b, !first)
}

// isCompare says whether a value is a comparison.
func isCompare(v effect.Value) bool {
	switch v.Name {
	case "==", "!=", "<", "<=", ">", ">=":
		return v.Kind == effect.ApplyValue && len(v.Args) == 2
	}
	return false
}
