package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// gather notes every value of a run at its spot.
func (o *Oracle) gather(r *run) {
	for i := range r.out.Tables {
		t := &r.out.Tables[i]
		p := o.plan(t)
		for _, row := range t.Rows {
			for c, cell := range row {
				if c >= len(p.spots) || p.spots[c].drop {
					continue
				}
				o.gatherCell(r, p.spots[c], p.docs[c], cell)
			}
		}
	}
	for a, resp := range r.out.Responses {
		if resp == nil || o.hints.IgnoreResponses {
			continue
		}
		b := o.body(a, resp.Status)
		for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
			o.header(b, a, name).add(r, kindText, resp.Header[name])
		}
		if v, ok := bodyJSON(resp); ok {
			o.gatherJSON(r, b.root, b.text.name, true, v)
		} else {
			b.text.add(r, kindText, resp.Body)
		}
	}
}

func (o *Oracle) gatherCell(r *run, s *spot, doc *node, cell *string) {
	if cell == nil {
		s.add(r, kindNull, "")
		return
	}
	if doc != nil {
		if v, err := parseJSON(*cell); err == nil {
			o.gatherJSON(r, doc, s.name, false, v)
			return
		}
	}
	s.add(r, kindText, *cell)
}

// gatherJSON walks a value. hints tells whether the hints for bodies apply.
func (o *Oracle) gatherJSON(r *run, n *node, prefix string, hints bool, v any) {
	if n.drop {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		n.add(r, kindObject, "")
		for _, k := range slices.Sorted(maps.Keys(v)) {
			o.gatherJSON(r, o.child(n, prefix, k, hints), prefix, hints, v[k])
		}
	case []any:
		n.add(r, kindArray, strconv.Itoa(len(v)))
		for _, e := range v {
			o.gatherJSON(r, o.item(n, prefix, hints), prefix, hints, e)
		}
	case json.Number:
		n.add(r, kindNumber, decimal(v.String()))
	case string:
		n.add(r, kindText, v)
	case bool:
		n.add(r, kindBool, strconv.FormatBool(v))
	default:
		n.add(r, kindNull, "")
	}
}

func bodyJSON(r *Response) (any, bool) {
	if !isJSON(r.ContentType, r.Body) {
		return nil, false
	}
	v, err := parseJSON(r.Body)
	return v, err == nil
}

// sameShape fails if two runs of one order differ in what no renaming explains:
// tables, numbers of rows, statuses.
func (o *Oracle) sameShape(a, b *run) error {
	unstable := func(where, first, other, do string) error {
		return &UnstableError{Order: a.order, Name: o.orderName(a.order), Where: where, First: first, Other: other, Do: do}
	}
	if len(a.out.Tables) != len(b.out.Tables) {
		return unstable("the observed tables", strconv.Itoa(len(a.out.Tables)), strconv.Itoa(len(b.out.Tables)), "observe the same tables in each run")
	}
	byName := map[string]*Table{}
	for i := range b.out.Tables {
		byName[b.out.Tables[i].Name] = &b.out.Tables[i]
	}
	for i := range a.out.Tables {
		ta := &a.out.Tables[i]
		tb := byName[ta.Name]
		if tb == nil {
			return unstable("table "+ta.Name, "there", "missing", "observe the same tables in each run")
		}
		if len(ta.Rows) != len(tb.Rows) {
			return unstable("the number of rows in "+ta.Name, strconv.Itoa(len(ta.Rows)), strconv.Itoa(len(tb.Rows)),
				fmt.Sprintf("name %q under observe.ignore if it does not matter, or make the state reset restore what the request depends on", ta.Name))
		}
	}
	for i, ra := range a.out.Responses {
		if ra == nil {
			continue
		}
		rb := b.out.Responses[i]
		if o.hints.IgnoreResponses {
			if class(ra.Status) != class(rb.Status) {
				return unstable("the answer of "+o.name(i), answerName(ra), answerName(rb), "make the request give the same answer whenever it runs on the same state")
			}
			continue
		}
		if ra.Status != rb.Status {
			return unstable("the answer of "+o.name(i), answerName(ra), answerName(rb), "make the request give the same answer whenever it runs on the same state")
		}
	}
	return nil
}

// class of a status: 0 no answer, 1 accepted, 2 refused.
func class(status int) int {
	switch {
	case status == 0:
		return 0
	case status < 400:
		return 1
	}
	return 2
}

func answerName(r *Response) string {
	if r.Status == 0 {
		return "no answer"
	}
	return strconv.Itoa(r.Status)
}
