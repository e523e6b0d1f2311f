package oracle

import (
	"fmt"
	"strings"
	"time"
)

// The name spaces of identities. Each group of columns that refer to each other
// has its own, from firstSpace on.
const (
	noSpace     = 0
	globalSpace = 1 // long random values, equal only if they are the same thing
	firstSpace  = 2
)

// The kinds of leaves. The first three are JSON's as well as a table's.
const (
	kindText   = 't'
	kindNull   = 'z'
	kindBool   = 'b'
	kindNumber = 'n'
	kindObject = 'o' // present, without its fields
	kindArray  = 'a' // its length
)

// leaf is one value at one spot.
type leaf struct {
	kind byte
	text string
}

// spot is a place that all runs have: a column, a path in the JSON of a body or
// a column, a header of an actor's answers, a text body of them.
type spot struct {
	name   string
	column string // "table.column" for a whole column, else empty
	typ    Type
	ref    string
	drop   bool
	// coarse is set when a clock too coarse to differ between two serial runs
	// was caught at this spot; it outlives learning again.
	coarse bool

	// What was learned. A spot without noise has only values.
	clock     bool
	fixed     map[string]bool // moments that are no clock readings
	whole     bool            // the whole value is noise
	space     int             // of the whole value
	templates []*template
	values    map[*run][]leaf
	shown     map[string]bool // the moments that were seen in serial runs
}

func (s *spot) reset() {
	s.clock, s.fixed = s.coarse, nil
	s.whole, s.space, s.templates = s.typ == ID, noSpace, nil
	s.values, s.shown = map[*run][]leaf{}, map[string]bool{}
}

// noisy: the spot's values can not be compared as they are.
func (s *spot) noisy() bool {
	return s.drop || s.clock || s.whole || len(s.templates) > 0
}

func (s *spot) add(r *run, kind byte, text string) {
	s.values[r] = append(s.values[r], leaf{kind, text})
}

// mask cuts a value into tokens with the clock readings masked.
func (s *spot) mask(v string, now time.Time) []string {
	list := tokens(v, now)
	out := make([]string, len(list))
	for i, t := range list {
		out[i] = t.text
		if t.moment && s.clock && !s.fixed[t.text] {
			out[i] = masked
		}
	}
	return out
}

// node is a spot in a tree of JSON values; all elements of an array share one.
type node struct {
	*spot
	path      string
	fields    map[string]*node
	element   *node
	unordered bool // two equal serial runs gave the elements in different order
}

// body is where one actor's answers with one status are compared. A path that
// is noise in "201 created" may be a plain value in "422 refused".
type body struct {
	root    *node
	text    *spot
	headers map[string]*spot
}

type bodyKey struct{ actor, status int }

// plan is where one table's columns are compared.
type plan struct {
	columns []Column
	spots   []*spot
	docs    []*node // for JSON columns
}

func (o *Oracle) newSpot(name string) *spot {
	s := &spot{name: name}
	s.reset()
	o.spots = append(o.spots, s)
	return s
}

func (o *Oracle) newNode(name, path string, hints bool) *node {
	n := &node{spot: o.newSpot(name + " " + path), path: path}
	n.drop = hints && o.noiseJSON[path]
	return n
}

func (o *Oracle) child(n *node, prefix, field string, hints bool) *node {
	c := n.fields[field]
	if c == nil {
		if n.fields == nil {
			n.fields = map[string]*node{}
		}
		c = o.newNode(prefix, n.path+"."+field, hints)
		n.fields[field] = c
	}
	return c
}

func (o *Oracle) item(n *node, prefix string, hints bool) *node {
	if n.element == nil {
		n.element = o.newNode(prefix, n.path+"[*]", hints)
	}
	return n.element
}

func (o *Oracle) body(actor, status int) *body {
	k := bodyKey{actor, status}
	b := o.bodies[k]
	if b == nil {
		name := fmt.Sprintf("the body of %s's answer %d", o.name(actor), status)
		b = &body{root: o.newNode(name, "$", true), text: o.newSpot(name), headers: map[string]*spot{}}
		o.bodies[k] = b
	}
	return b
}

func (o *Oracle) header(b *body, actor int, name string) *spot {
	s := b.headers[name]
	if s == nil {
		s = o.newSpot(fmt.Sprintf("the header %s of %s's answers", name, o.name(actor)))
		b.headers[name] = s
	}
	return s
}

// plan finds the spots of a table's columns.
func (o *Oracle) plan(t *Table) *plan {
	p := o.plans[t.Name]
	if p != nil && sameColumns(p.columns, t.Columns) {
		return p
	}
	p = &plan{columns: t.Columns, spots: make([]*spot, len(t.Columns)), docs: make([]*node, len(t.Columns))}
	for i, c := range t.Columns {
		name := t.Name + "." + c.Name
		s := o.columns[name]
		if s == nil {
			s = o.newSpot(name)
			s.column, s.typ, s.ref = name, c.Type, c.References
			o.hint(s)
			s.reset()
			o.columns[name] = s
		}
		p.spots[i] = s
		if c.Type == JSON && !s.drop {
			if o.docs[name] == nil {
				o.docs[name] = o.newNode(name, "$", false)
			}
			p.docs[i] = o.docs[name]
		}
	}
	o.plans[t.Name] = p
	return p
}

func sameColumns(a, b []Column) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Type != b[i].Type {
			return false
		}
	}
	return true
}

// hint applies what the scenario says of a column.
func (o *Oracle) hint(s *spot) {
	is := func(list []string) bool {
		for _, name := range list {
			if name == s.column || unschema(name) == unschema(s.column) && (name == unschema(name) || s.column == unschema(s.column)) {
				return true
			}
		}
		return false
	}
	s.drop = is(o.hints.NoiseColumns)
	if is(o.hints.IDColumns) {
		s.typ = ID
	}
	if is(o.hints.TimeColumns) {
		s.typ, s.coarse = Time, true
	}
}

// unschema leaves the schema out of "schema.table.column".
func unschema(column string) string {
	if i := strings.IndexByte(column, '.'); i >= 0 && strings.Count(column, ".") > 1 {
		return column[i+1:]
	}
	return column
}

// generalise turns array indexes of a JSON path into [*].
func generalise(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		b.WriteByte(path[i])
		if path[i] != '[' {
			continue
		}
		j := i + 1
		for j < len(path) && isDigit(path[j]) {
			j++
		}
		if j > i+1 && j < len(path) && path[j] == ']' {
			b.WriteByte('*')
			i = j - 1
		}
	}
	return b.String()
}
