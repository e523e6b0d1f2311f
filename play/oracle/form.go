package oracle

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// record is a row, an answer, or an element of an array without order: its
// values with "#" for each identity, and which these are.
type record struct {
	text []byte
	ids  []int32
}

// form is an outcome as records; only the names of identities are still free.
type form struct {
	records []record
	ids     []idKey
	byID    map[idKey]int32
}

func (f *form) id(k idKey) int32 {
	if n, ok := f.byID[k]; ok {
		return n
	}
	if f.byID == nil {
		f.byID = map[idKey]int32{}
	}
	n := int32(len(f.ids))
	f.ids = append(f.ids, k)
	f.byID[k] = n
	return n
}

// writer writes values as parts of a record. Without a form it leaves the
// identities out: the text is then for comparing single cells.
type writer struct {
	o *Oracle
	f *form
	record
}

func (w *writer) literal(kind byte, s string) {
	w.text = append(w.text, kind)
	w.text = strconv.AppendInt(w.text, int64(len(s)), 10)
	w.text = append(w.text, ':')
	w.text = append(w.text, s...)
}

func (w *writer) id(space int, v string) {
	if entropic(v) {
		space = globalSpace
	}
	if space == noSpace {
		w.text = append(w.text, '?')
		return
	}
	k := idKey{space, v}
	if w.o.constants[k] {
		w.literal(kindText, v)
		return
	}
	w.text = append(w.text, '#')
	if w.f != nil {
		w.ids = append(w.ids, w.f.id(k))
	}
}

// value writes one text or number.
func (w *writer) value(s *spot, kind byte, v string) {
	switch {
	case s.drop:
		w.text = append(w.text, '?')
	case !s.noisy():
		w.literal(kind, v)
	case s.typ == ID:
		w.id(s.space, v)
	case kind == kindNumber:
		w.tokens(s, s.maskNumber(v, w.o.start), kind)
	default:
		w.tokens(s, s.mask(v, w.o.start), kind)
	}
}

func (w *writer) tokens(s *spot, text []string, kind byte) {
	switch {
	case len(text) == 1 && text[0] == masked:
		w.text = append(w.text, '@')
	case s.whole && s.typ == Time:
		w.text = append(w.text, '@')
	case s.whole:
		w.id(s.space, join(text))
	case len(s.templates) == 0:
		w.literal(kind, join(text))
	default:
		var run []string
		for _, p := range cut(s.templates, text) {
			if p.gap == nil {
				run = append(run, p.text)
				continue
			}
			if len(run) > 0 {
				w.literal(kind, join(run))
				run = run[:0]
			}
			if p.text == masked {
				w.text = append(w.text, '@')
			} else {
				w.id(p.gap.space, p.text)
			}
		}
		if len(run) > 0 {
			w.literal(kind, join(run))
		}
	}
}

func (w *writer) cell(s *spot, doc *node, cell *string, name string) {
	switch {
	case s.drop:
		w.text = append(w.text, '?')
	case cell == nil:
		w.text = append(w.text, kindNull)
	case doc != nil:
		if v, err := parseJSON(*cell); err == nil {
			w.json(doc, name, false, v)
			return
		}
		w.value(s, kindText, *cell)
	default:
		w.value(s, kindText, *cell)
	}
	w.text = append(w.text, '|')
}

func (w *writer) json(n *node, prefix string, hints bool, v any) {
	if n.drop {
		w.text = append(w.text, '?')
		return
	}
	switch v := v.(type) {
	case map[string]any:
		w.text = append(w.text, '{')
		for _, k := range slices.Sorted(maps.Keys(v)) {
			w.literal('k', k)
			w.json(w.o.child(n, prefix, k, hints), prefix, hints, v[k])
		}
		w.text = append(w.text, '}')
	case []any:
		w.array(n, prefix, hints, v)
	case json.Number:
		w.value(n.spot, kindNumber, decimal(v.String()))
	case string:
		w.value(n.spot, kindText, v)
	case bool:
		w.text = strconv.AppendBool(append(w.text, kindBool), v)
	default:
		w.text = append(w.text, kindNull)
	}
}

// array writes the elements in their order. If the array has none, each is a
// record of its own, and an identity made up for this array ties them to it.
func (w *writer) array(n *node, prefix string, hints bool, list []any) {
	w.text = append(w.text, '[')
	e := w.o.item(n, prefix, hints)
	if !n.unordered {
		for _, v := range list {
			w.json(e, prefix, hints, v)
			w.text = append(w.text, ',')
		}
		w.text = append(w.text, ']')
		return
	}
	if w.f == nil {
		parts := make([]string, len(list))
		for i, v := range list {
			inner := writer{o: w.o}
			inner.json(e, prefix, hints, v)
			parts[i] = string(inner.text)
		}
		slices.Sort(parts)
		for _, p := range parts {
			w.text = append(append(w.text, p...), ',')
		}
		w.text = append(w.text, ']')
		return
	}
	tie := w.f.id(idKey{noSpace, strconv.Itoa(len(w.f.ids))})
	w.text = append(w.text, '#')
	w.ids = append(w.ids, tie)
	for _, v := range list {
		inner := writer{o: w.o, f: w.f}
		inner.text = append(inner.text, "element#"...)
		inner.ids = append(inner.ids, tie)
		inner.json(e, prefix, hints, v)
		w.f.records = append(w.f.records, inner.record)
	}
	w.text = append(w.text, ']')
}

// answer writes an answer: its status, the compared headers and the body.
func (w *writer) answer(a int, r *Response) {
	w.text = append(w.text, "answer"...)
	w.text = strconv.AppendInt(w.text, int64(a), 10)
	if w.o.hints.IgnoreResponses {
		w.text = append(w.text, ' ', byte('0'+class(r.Status)))
		return
	}
	w.text = append(w.text, ' ')
	w.text = strconv.AppendInt(w.text, int64(r.Status), 10)
	w.text = append(w.text, '|')
	b := w.o.body(a, r.Status)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		w.literal('k', name)
		w.value(w.o.header(b, a, name), kindText, r.Header[name])
		w.text = append(w.text, '|')
	}
	if v, ok := bodyJSON(r); ok {
		w.json(b.root, b.text.name, true, v)
	} else {
		w.value(b.text, kindText, r.Body)
	}
}

// form gives the tables and the answers of the actors in mask.
func (o *Oracle) form(out *Outcome, mask uint64) *form {
	f := &form{}
	for i := range out.Tables {
		t := &out.Tables[i]
		p := o.plan(t)
		f.records = append(f.records, record{text: []byte("table " + t.Name)})
		for _, row := range t.Rows {
			w := writer{o: o, f: f}
			w.text = make([]byte, 0, 16*len(row)+len(t.Name))
			w.text = append(append(w.text, t.Name...), '|')
			for c, cell := range row {
				if c < len(p.spots) {
					w.cell(p.spots[c], p.docs[c], cell, p.spots[c].name)
				}
			}
			f.records = append(f.records, w.record)
		}
	}
	for a, r := range out.Responses {
		if r != nil && mask&(1<<a) != 0 {
			w := writer{o: o, f: f}
			w.answer(a, r)
			f.records = append(f.records, w.record)
		}
	}
	return f
}

// arrays gives the elements of every array, without identities.
func (o *Oracle) arrays(out *Outcome) map[*node][][]string {
	found := map[*node][][]string{}
	var walk func(n *node, prefix string, hints bool, v any)
	walk = func(n *node, prefix string, hints bool, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				walk(o.child(n, prefix, k, hints), prefix, hints, e)
			}
		case []any:
			list := make([]string, len(v))
			for i, e := range v {
				w := writer{o: o}
				w.json(o.item(n, prefix, hints), prefix, hints, e)
				list[i] = string(w.text)
				walk(o.item(n, prefix, hints), prefix, hints, e)
			}
			found[n] = append(found[n], list)
		}
	}
	for i := range out.Tables {
		p := o.plan(&out.Tables[i])
		for _, row := range out.Tables[i].Rows {
			for c, cell := range row {
				if c < len(p.docs) && p.docs[c] != nil && cell != nil {
					if v, err := parseJSON(*cell); err == nil {
						walk(p.docs[c], p.spots[c].name, false, v)
					}
				}
			}
		}
	}
	for a, r := range out.Responses {
		if r == nil || o.hints.IgnoreResponses {
			continue
		}
		if v, ok := bodyJSON(r); ok {
			b := o.body(a, r.Status)
			walk(b.root, b.text.name, true, v)
		}
	}
	return found
}
