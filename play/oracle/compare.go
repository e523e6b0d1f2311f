package oracle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Shown is an outcome prepared for people.
type Shown struct {
	// Order names the serial orders that end like this; empty for the observed.
	Order string
	Cells []ShownCell
}

// ShownCell is one value. The cells of all outcomes of one comparison have the
// same labels in the same order.
type ShownCell struct {
	Label string
	Value string
	// Wrong marks an observed value that no serial outcome has.
	Wrong bool
}

// Compare sets the observed outcome beside the distinct serial outcomes of all
// actors; where the nearest explanation leaves actors out, its outcome comes
// first. Only what differs somewhere among them is shown. [Oracle.Ready] must
// have returned nil before.
func (o *Oracle) Compare(out Outcome) (observed Shown, serial []Shown) {
	v := o.Judge(out)
	if !o.learned {
		return Shown{}, nil
	}
	obs := o.view(&out)
	groups := o.distinct(v)
	views := []*view{obs}
	for _, g := range groups {
		views = append(views, o.serialView(g[0].runs[0]))
	}
	columns := o.columnsOf(views)
	// An answer that says "conflict, try again" is not wrong because no serial
	// order needs it.
	excused := map[string]bool{}
	for a, r := range out.Responses {
		if r != nil && conflicted(r) {
			excused[o.name(a)+" answers"] = true
		}
	}
	for _, g := range groups {
		names := make([]string, len(g))
		for i, s := range g {
			names[i] = o.orderName(s.order)
		}
		order := enumerate(names, "or")
		if len(g) > 2 && len(g[0].order) == o.actors && len(groups) == 1 {
			order = "any order"
		}
		serial = append(serial, Shown{Order: order})
	}
	for _, c := range columns {
		wrong := !excused[c.label] && !slices.Contains(c.canon[1:], c.canon[0])
		observed.Cells = append(observed.Cells, ShownCell{Label: c.label, Value: c.shown[0], Wrong: wrong})
		for i := range serial {
			serial[i].Cells = append(serial[i].Cells, ShownCell{Label: c.label, Value: c.shown[i+1]})
		}
	}
	return observed, serial
}

// distinct groups the full serial orders by their form, with the order that the
// verdict names before them if that is not a full one.
func (o *Oracle) distinct(v Verdict) [][]*series {
	var groups [][]*series
	order := v.Nearest
	if v.OK {
		order = v.Order
	}
	if len(order) < o.actors {
		if s := o.byKey[orderKey(order)]; s != nil {
			groups = append(groups, []*series{s})
		}
	}
	at := map[string]int{}
	for _, s := range o.orders {
		if len(s.order) < o.actors {
			continue
		}
		f := o.serialForm(s.runs[0], s.members)
		i, ok := at[f]
		if !ok {
			i = len(groups)
			at[f] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], s)
	}
	return groups
}

// compared is one label with its values in each of the compared views.
type compared struct {
	label        string
	canon, shown []string
}

// columnsOf finds the labels whose values differ: answers first, then the
// tables in their order.
func (o *Oracle) columnsOf(views []*view) []compared {
	var all []compared
	for a := range o.actors {
		all = append(all, values(views, o.name(a)+" answers", "not asked"))
	}
	for _, table := range views[0].order {
		rows := compared{label: "rows in " + table}
		for _, v := range views {
			n := strconv.Itoa(v.rows[table])
			rows.canon, rows.shown = append(rows.canon, n), append(rows.shown, n)
		}
		all = append(all, rows)
		for _, label := range labels(views, table) {
			all = append(all, values(views, label, rowAbsent))
		}
		all = append(all, looseRows(views, table)...)
	}
	return slices.DeleteFunc(all, func(c compared) bool {
		return !slices.ContainsFunc(c.canon, func(s string) bool { return s != c.canon[0] })
	})
}

// labels are the named cells of a table in any of the views.
func labels(views []*view, table string) []string {
	var list []string
	seen := map[string]bool{}
	for _, v := range views {
		for _, c := range v.cells {
			if c.table == table && !seen[c.label] {
				seen[c.label] = true
				list = append(list, c.label)
			}
		}
	}
	return list
}

func values(views []*view, label, missing string) compared {
	c := compared{label: label}
	for _, v := range views {
		x, ok := v.get(label)
		if !ok {
			x = cell{canon: missing, shown: missing}
		}
		c.canon, c.shown = append(c.canon, x.canon), append(c.shown, x.shown)
	}
	return c
}

// looseRows shows the rows without a constant key that not all views have.
func looseRows(views []*view, table string) []compared {
	common := views[0].loose[table]
	for _, v := range views[1:] {
		common = both(common, v.loose[table])
	}
	most := 0
	rest := make([][]cell, len(views))
	for i, v := range views {
		rest[i] = only(v.loose[table], common)
		most = max(most, len(rest[i]))
	}
	var list []compared
	for k := range most {
		c := compared{label: fmt.Sprintf("row in %s", table)}
		if most > 1 {
			c.label = fmt.Sprintf("row %d in %s", k+1, table)
		}
		for _, r := range rest {
			x := cell{canon: rowAbsent, shown: rowAbsent}
			if k < len(r) {
				x = r[k]
			}
			c.canon, c.shown = append(c.canon, x.canon), append(c.shown, strings.TrimSpace(x.shown))
		}
		list = append(list, c)
	}
	return list
}

// both is what two multisets of sorted cells have in common.
func both(a, b []cell) []cell {
	var list []cell
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch c := strings.Compare(a[i].canon, b[j].canon); {
		case c < 0:
			i++
		case c > 0:
			j++
		default:
			list = append(list, a[i])
			i, j = i+1, j+1
		}
	}
	return list
}
