package witness

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// data is what a row (or file, object, key) holds.
type data struct {
	exists bool
	star   *term           // whole content where it was replaced; nil is that of the start
	cols   map[string]term // columns over star or the start
	torn   bool            // emptied, its content not written yet
	synced bool            // content is durable
	named  bool            // its name is durable
}

func (d data) clone() data {
	d.cols = maps.Clone(d.cols)
	return d
}

// row is one row of one table; files, blobs and the rest are rows too.
type row struct {
	table   string
	slot    *slot // nil for a row that was made in the run
	cur     data  // committed
	pend    data  // written by pendTx and not committed
	pendTx  *tx
	ver     int             // counts committed writes
	fence   int             // highest fencing token seen
	locks   map[*tx]bool    // row locks: true is exclusive
	keys    map[string]term // of a row that is no table row and was made in the run
	born    string          // for a row made in the run: who made it, where
	writers []*effect.Step
}

// see is the row's data as the transaction (nil: none) sees it.
func (r *row) see(t *tx) data {
	switch {
	case t != nil && r.pendTx == t:
		return r.pend
	case t != nil && t.snap != nil:
		if d, ok := t.snap[r]; ok {
			return d.data
		}
		return r.start()
	}
	return r.cur
}

// heldAgainst says whether another transaction's lock stands in the way.
func (r *row) heldAgainst(t *tx, exclusive bool) *tx {
	for h, x := range r.locks {
		if h != t && (x || exclusive) {
			return h
		}
	}
	return nil
}

type seen struct {
	data
	ver int
}

// tx is an open transaction.
type tx struct {
	name   string
	actor  *actor
	iso    string
	snap   map[*row]seen  // of a snapshot; nil reads what is committed
	reads  map[*row]int   // versions read, where commit validates them
	scans  map[string]int // table changes seen
	closed bool
	begun  *effect.Step
}

func (t *tx) validates() bool { return t != nil && (t.iso == "serializable" || t.iso == "optimistic") }

// version is the version of a row that the transaction (nil: none) sees.
func (t *tx) version(r *row) int {
	if t != nil && t.snap != nil {
		return t.snap[r].ver // 0 for a row of the start that was not asked for yet
	}
	return r.ver
}

// start is what a snapshot holds of a row that the world came to speak of only
// after it was taken.
func (r *row) start() data {
	if r.slot == nil {
		return data{}
	}
	return data{exists: r.slot.exists, synced: true, named: true}
}

// lock is a lock that is not a row's.
type lock struct {
	holders map[*actor]holding
	tokens  int
}

type holding struct {
	shared bool
	token  int
	step   *effect.Step
}

// state is the shared state of one run.
type state struct {
	w       *world
	rows    map[string][]*row
	changes map[string]int
	locks   map[string]*lock
	sends   []string
	schema  *effect.Schema
	txs     []*tx
}

func newState(w *world, schema *effect.Schema) *state {
	return &state{w: w, rows: map[string][]*row{}, changes: map[string]int{}, locks: map[string]*lock{}, schema: schema}
}

// cell is a column's value.
func (s *state) cell(r *row, d data, col string) term {
	if v, ok := d.cols[col]; ok {
		return v
	}
	if d.star != nil {
		if col == "*" {
			return *d.star
		}
		return apply("field", *d.star, constant(fmt.Sprintf("%q", col)))
	}
	switch {
	case r == nil:
		return nilTerm
	case r.slot == nil: // a default or a number from a sequence
		return single(&atom{key: r.born + "." + col, kind: freshAtom})
	}
	return s.w.initial(r.slot, col)
}

// keyCell is a key's value. The key of a file, blob or object is no part of its
// content, and stays when that is replaced.
func (s *state) keyCell(r *row, d data, col string) term {
	if r.isVersioned() {
		if v, ok := r.keys[col]; ok {
			return v
		}
		if r.slot != nil {
			return s.w.initial(r.slot, col)
		}
	}
	return s.cell(r, d, col)
}

// known says whether anything has been said of a column: a row of the start
// collides with a new one only where it was asked for before.
func (s *state) known(r *row, d data, col string) bool {
	if _, ok := d.cols[col]; ok || r.slot == nil {
		return true
	}
	_, ok := r.slot.cols[col]
	return ok
}

// initial is what a cell held at the start.
func (w *world) initial(sl *slot, col string) term {
	if v, ok := sl.cols[col]; ok {
		return v
	}
	name := plain(sl.table)
	if sl.index > 0 {
		name = fmt.Sprintf("%s#%d", name, sl.index+1)
	}
	if col == "*" {
		return single(&atom{key: name, kind: initialAtom})
	}
	return single(&atom{key: name + "." + col, kind: initialAtom})
}

// plain is the name of a resource for people. It has no process: memory starts
// the same in all of them.
func plain(table string) string {
	kind, name, _ := strings.Cut(table, ":")
	name, _, _ = strings.Cut(name, "@")
	if name == "*" {
		return kind
	}
	return name
}

// whole is the row as one value.
func (s *state) whole(r *row, d data) term {
	if !d.exists {
		return nilTerm
	}
	base := s.cell(r, data{exists: true, star: d.star}, "*")
	if v, ok := d.cols["*"]; ok {
		base = v
	}
	names := slices.Sorted(maps.Keys(d.cols))
	args := []term{base}
	for _, c := range names {
		if c != "*" {
			args = append(args, apply(c, s.w.resolve(d.cols[c])))
		}
	}
	if len(args) == 1 {
		return base
	}
	return apply("with", args...)
}

// materialise makes the rows of the start that a key may mean, so that the
// world decides once whether they exist.
func (s *state) materialise(table string, key []keyTerm, likely bool) {
	w := s.w
	for _, sl := range w.slots[table] {
		if w.fits(sl, key) {
			s.rowOf(sl)
			return
		}
	}
	if len(w.slots[table]) >= 3 {
		return
	}
	sl := &slot{table: table, index: len(w.slots[table]), cols: map[string]term{}}
	name := make([]string, len(key))
	for i, k := range key {
		name[i] = k.col + " = " + k.val.String()
		if k.val.atom() == nil || k.val.atom().kind != freshAtom {
			sl.cols[k.col] = k.val
			continue
		}
		return // nothing at the start has a fresh key
	}
	sl.exists = w.ask("exists "+plain(table)+"["+strings.Join(name, ", ")+"]", likely)
	w.slots[table] = append(w.slots[table], sl)
	s.rowOf(sl)
}

// rowOf is the row of a slot in this run.
func (s *state) rowOf(sl *slot) *row {
	for _, r := range s.rows[sl.table] {
		if r.slot == sl {
			return r
		}
	}
	r := &row{table: sl.table, slot: sl, locks: map[*tx]bool{}}
	r.cur = r.start()
	s.rows[sl.table] = append(s.rows[sl.table], r)
	return r
}

type keyTerm struct {
	col string
	val term
}

// fits says whether the slot can be what the key means, and fixes its open
// cells if so: two actors that could meet on a row do meet on it.
func (w *world) fits(sl *slot, key []keyTerm) bool {
	for _, k := range key {
		if have, ok := sl.cols[k.col]; ok && !w.sameKey(sl.table, have, k.val) {
			return false
		}
	}
	for _, k := range key {
		if _, ok := sl.cols[k.col]; !ok {
			if a := k.val.atom(); a != nil && a.kind == freshAtom {
				return false
			}
			init := w.initial(sl, k.col)
			if mentions(k.val, init.parts[0].a.key) {
				continue
			}
			sl.cols[k.col] = k.val
			w.bound[init.parts[0].a.key] = k.val
		}
	}
	return true
}

// equalKey is equality of keys: two inputs of one actor are different unless the
// world says otherwise, anything else that may be equal is.
func (w *world) equalKey(a, b term) bool {
	x, y := w.resolve(a).atom(), w.resolve(b).atom()
	first := true
	if x != nil && y != nil && x.kind == inputAtom && y.kind == inputAtom {
		first = false
	}
	return w.equal(a, b, first)
}

// sameKey is equality of keys in a table or store. Paths, blob keys and names of
// locks are the same only when they are written the same: two expressions that
// could give one path are no evidence that they do, while two expressions for a
// row's id often are one (the id of the request, the id of a parent).
func (w *world) sameKey(table string, a, b term) bool {
	if strings.HasPrefix(table, string(effect.TableKind)+":") || strings.HasPrefix(table, string(effect.ObjectKind)+":") {
		return w.equalKey(a, b)
	}
	return w.resolve(a).String() == w.resolve(b).String()
}

// matches decides the conditions of a statement on a row.
func (s *state) matches(a *actor, r *row, d data, key []keyTerm, where []effect.Cond) bool {
	if !d.exists {
		return false
	}
	for _, k := range key {
		if !s.w.sameKey(r.table, s.keyCell(r, d, k.col), k.val) {
			return false
		}
	}
	for _, c := range where {
		val := a.evalOn(c.Val, r, &d)
		if c.Col == "version" && r.isVersioned() {
			if t := val.String(); t == `""` || t == "nil" {
				continue // stores take an empty version for no condition
			}
			if !s.w.equal(number(int64(r.ver)), val, true) {
				return false
			}
			continue
		}
		if !s.w.compare(c.Op, s.cell(r, d, c.Col), val, true) {
			return false
		}
	}
	return true
}

// isVersioned says whether "version" is the store's own (ETag, generation,
// resourceVersion) and not a column.
func (r *row) isVersioned() bool {
	return !strings.HasPrefix(r.table, string(effect.TableKind)+":")
}

// render lists what the run left behind: one line per row that differs from the
// start, and the effects outside.
func (s *state) render() map[string]string {
	out := map[string]string{}
	for table, rows := range s.rows {
		var lines []string
		for _, r := range rows {
			d := r.cur
			if r.slot != nil && d.exists == r.slot.exists && d.star == nil && len(d.cols) == 0 && !d.torn {
				continue
			}
			line := s.renderRow(r, d)
			if line != "" {
				lines = append(lines, line)
			}
		}
		sort.Strings(lines)
		if len(lines) > 0 {
			out[table] = strings.Join(lines, "; ")
		}
	}
	if len(s.sends) > 0 {
		sends := slices.Clone(s.sends)
		sort.Strings(sends)
		out["sent"] = strings.Join(sends, "; ")
	}
	return out
}

func (s *state) renderRow(r *row, d data) string {
	if !d.exists {
		if r.slot == nil || !r.slot.exists {
			return ""
		}
		return "deleted"
	}
	if d.torn {
		return "empty or cut"
	}
	var parts []string
	if d.star != nil {
		if _, ok := d.cols["*"]; !ok {
			parts = append(parts, s.w.resolve(*d.star).String())
		}
	}
	for _, c := range slices.Sorted(maps.Keys(d.cols)) {
		v := s.w.resolve(d.cols[c])
		if r.slot != nil && d.star == nil && v.String() == s.w.resolve(s.w.initial(r.slot, c)).String() {
			continue // written back unchanged
		}
		if c == "*" {
			parts = append(parts, v.String())
		} else {
			parts = append(parts, c+" = "+v.String())
		}
	}
	if r.slot == nil || !r.slot.exists {
		return "new {" + strings.Join(parts, ", ") + "}"
	}
	return strings.Join(parts, ", ")
}
