package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// cell is one compared value of an outcome.
type cell struct {
	label string
	table string // empty for an answer
	canon string // for comparing
	shown string // for people
	actor int    // of an answer
}

// view is an outcome cell by cell. Rows whose key is a constant have a cell for
// each column. Other rows have no name that is the same in two runs; they are
// compared as a whole, as a multiset.
type view struct {
	cells []cell
	at    map[string]int // by label
	loose map[string][]cell
	rows  map[string]int
	order []string // the tables
}

func (v *view) add(c cell) {
	v.at[c.label] = len(v.cells)
	v.cells = append(v.cells, c)
}

func (v *view) get(label string) (cell, bool) {
	i, ok := v.at[label]
	if !ok {
		return cell{}, false
	}
	return v.cells[i], true
}

func (o *Oracle) view(out *Outcome) *view {
	v := &view{at: map[string]int{}, loose: map[string][]cell{}, rows: map[string]int{}}
	for a, r := range out.Responses {
		if r == nil {
			continue
		}
		w := writer{o: o}
		w.answer(a, r)
		v.add(cell{label: o.name(a) + " answers", canon: string(w.text), shown: o.showAnswer(r), actor: a})
	}
	for i := range out.Tables {
		o.viewTable(v, &out.Tables[i])
	}
	return v
}

func (o *Oracle) showAnswer(r *Response) string {
	if r.Status != 0 && o.hints.IgnoreResponses {
		return r.word()
	}
	return r.String()
}

// exists is the label of a row with a constant key; its value says it is there.
func exists(table, key string) string { return table + "[" + key + "]" }

const (
	rowThere  = "there"
	rowAbsent = "no such row"
)

func (o *Oracle) viewTable(v *view, t *Table) {
	p := o.plan(t)
	v.rows[t.Name] = len(t.Rows)
	v.order = append(v.order, t.Name)
	for _, row := range t.Rows {
		key, stable := o.rowKey(t, p, row)
		label := exists(t.Name, key)
		if t.Value {
			label = t.Name
		}
		if _, again := v.at[label]; !stable || again {
			v.loose[t.Name] = append(v.loose[t.Name], o.looseRow(t, p, row))
			continue
		}
		v.add(cell{label: label, table: t.Name, canon: rowThere, shown: rowThere})
		for c := range row {
			if c >= len(p.spots) || p.spots[c].drop || slices.Contains(t.Key, c) {
				continue
			}
			w := writer{o: o}
			w.cell(p.spots[c], p.docs[c], row[c], p.spots[c].name)
			sep := "."
			if t.Value {
				sep = " "
			}
			v.add(cell{label: label + sep + t.Columns[c].Name, table: t.Name, canon: string(w.text), shown: showCell(row[c])})
		}
	}
	slices.SortFunc(v.loose[t.Name], func(a, b cell) int { return strings.Compare(a.canon, b.canon) })
}

// rowKey names a row by its primary key if that is the same in every run.
func (o *Oracle) rowKey(t *Table, p *plan, row []*string) (string, bool) {
	if t.Value {
		return "", len(t.Rows) == 1
	}
	if len(t.Key) == 0 {
		return "", false
	}
	parts := make([]string, 0, len(t.Key))
	for _, c := range t.Key {
		if c >= len(row) || c >= len(p.spots) || row[c] == nil || !o.isConstant(p.spots[c], *row[c]) {
			return "", false
		}
		parts = append(parts, t.Columns[c].Name+"="+*row[c])
	}
	return strings.Join(parts, " "), true
}

// isConstant tells whether a cell's value means the same in every run.
func (o *Oracle) isConstant(s *spot, value string) bool {
	if s.drop {
		return false
	}
	w := writer{o: o}
	w.value(s, kindText, value)
	return len(w.text) > 0 && w.text[0] == kindText && strings.HasSuffix(string(w.text), ":"+value)
}

// looseRow is a row as one cell: its columns that are no noise, for people.
func (o *Oracle) looseRow(t *Table, p *plan, row []*string) cell {
	w := writer{o: o}
	var shown []string
	for c := range row {
		if c >= len(p.spots) {
			continue
		}
		from := len(w.text)
		w.cell(p.spots[c], p.docs[c], row[c], p.spots[c].name)
		if part := w.text[from]; part == '@' || part == '?' || part == '#' {
			continue
		}
		shown = append(shown, t.Columns[c].Name+"="+showCell(row[c]))
	}
	text := strings.Join(shown, " ")
	if text == "" {
		text = "a row"
	}
	return cell{table: t.Name, canon: string(w.text), shown: text}
}

func showCell(c *string) string {
	if c == nil {
		return "NULL"
	}
	if *c == "" {
		return `""`
	}
	return *c
}

// Difference is one place where an outcome differs from a serial one.
type Difference struct {
	Label    string `json:"label"`
	Observed string `json:"observed"`
	Serial   string `json:"serial"`
	// Table is empty for an answer.
	Table string `json:"table,omitempty"`

	observed, serial string // for comparing
	loose            bool   // a row without a constant key
	actor            int    // of an answer
}

// diff compares the observed view with a serial one. Of the answers only those
// in mask are compared.
func (o *Oracle) diff(obs, ser *view, mask uint64) []Difference {
	var list []Difference
	for _, c := range obs.cells {
		if c.table == "" && mask&(1<<c.actor) == 0 {
			continue
		}
		s, ok := ser.get(c.label)
		switch {
		case ok && s.canon == c.canon:
		case ok:
			list = append(list, Difference{Label: c.label, Observed: c.shown, Serial: s.shown, Table: c.table, observed: c.canon, serial: s.canon, actor: c.actor})
		case c.canon == rowThere:
			list = append(list, Difference{Label: c.label, Observed: rowThere, Serial: rowAbsent, Table: c.table, observed: rowThere, serial: rowAbsent})
		}
	}
	for _, s := range ser.cells {
		if _, ok := obs.get(s.label); !ok && s.canon == rowThere {
			list = append(list, Difference{Label: s.label, Observed: rowAbsent, Serial: rowThere, Table: s.table, observed: rowAbsent, serial: rowThere})
		}
	}
	for _, t := range obs.order {
		list = append(list, looseDiff(t, obs.loose[t], ser.loose[t])...)
	}
	return list
}

// looseDiff pairs the rows that only one side has, so that a changed row is one
// difference and not two.
func looseDiff(table string, obs, ser []cell) []Difference {
	obs, ser = only(obs, ser), only(ser, obs)
	var list []Difference
	for i := range max(len(obs), len(ser)) {
		d := Difference{Label: fmt.Sprintf("a row of %s", table), Observed: rowAbsent, Serial: rowAbsent, Table: table, observed: rowAbsent, serial: rowAbsent, loose: true}
		if i < len(obs) {
			d.Observed, d.observed = obs[i].shown, obs[i].canon
		}
		if i < len(ser) {
			d.Serial, d.serial = ser[i].shown, ser[i].canon
		}
		list = append(list, d)
	}
	return list
}

// only is what a has and b has not, as multisets of sorted cells.
func only(a, b []cell) []cell {
	var list []cell
	for i, j := 0, 0; i < len(a); i++ {
		for j < len(b) && b[j].canon < a[i].canon {
			j++
		}
		if j < len(b) && b[j].canon == a[i].canon {
			j++
			continue
		}
		list = append(list, a[i])
	}
	return list
}
