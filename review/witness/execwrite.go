package witness

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// write runs a write; the kinds of modes differ in what may exist before.
func (a *actor) write(s *effect.Step) verdict {
	st := a.run.st
	t := a.tx(s.Tx)
	if a.connection(t, s) {
		return waits
	}
	a.snapshot(t)
	table, key := a.key(s.On)
	if s.On.Kind == effect.FileKind {
		switch s.Mode {
		case effect.Truncate, effect.Temp, effect.Fill:
			return a.file(s, table, key)
		}
	}
	switch s.Mode {
	case effect.Insert, effect.Ignore, effect.Create, effect.Upsert:
		return a.insert(s, t, table, key)
	case effect.Delete, effect.Update:
		return a.update(s, t, table, key)
	}
	// Put and Append make the key if it is not there.
	st.materialise(table, key, true)
	for _, r := range st.rows[table] {
		if r.heldAgainst(t, true) != nil {
			return waits
		}
		if st.matches(a, r, r.see(t), key, s.Where) {
			return a.change(s, t, []*row{r})
		}
	}
	if len(s.Where) > 0 {
		return a.refused(s)
	}
	return a.create(s, t, table, key)
}

// update changes or deletes the rows that match; none matching is an error only
// where the store says so (conditional stores), not in SQL.
func (a *actor) update(s *effect.Step, t *tx, table string, key []keyTerm) verdict {
	st := a.run.st
	st.materialise(table, key, true)
	var hit []*row
	for _, r := range st.rows[table] {
		d := r.see(t)
		if !st.matches(a, r, d, key, nil) {
			continue
		}
		if h := r.heldAgainst(t, true); h != nil {
			return waits
		}
		if t != nil && t.snap != nil && t.version(r) != r.ver && r.pendTx != t {
			a.rollback(t)
			a.run.note(a, s, "refused: serialization failure")
			a.fail(s, "conflict")
			return moved
		}
		// Under READ COMMITTED the conditions are looked at again on what is
		// committed now.
		if r.pendTx != t {
			d = r.cur
		}
		if st.matches(a, r, d, key, s.Where) {
			hit = append(hit, r)
		}
	}
	if len(hit) == 0 {
		return a.refused(s)
	}
	return a.change(s, t, hit)
}

// refused is a write whose conditions did not hold.
func (a *actor) refused(s *effect.Step) verdict {
	if s.On.Kind != effect.TableKind && len(s.Where) > 0 {
		a.run.note(a, s, "refused: the condition does not hold")
		a.fail(s, "conflict")
		return moved
	}
	a.run.touch(a, s, tableOf(s.On, a.process), false, "0 rows")
	a.bind(s.Bind, &record{fields: map[string]term{"rows": number(0), "err": nilTerm, "ok": falseTerm, "found": falseTerm}})
	a.pc++
	return moved
}

// change applies the step's values to rows.
func (a *actor) change(s *effect.Step, t *tx, rows []*row) verdict {
	if v, stop := a.fenced(s, rows); stop {
		return v
	}
	for _, r := range rows {
		d := r.see(t).clone()
		if s.Mode == effect.Delete {
			d.exists = false
		} else {
			a.set(s, r, &d)
		}
		a.store(s, t, r, d)
	}
	return a.wrote(s, rows[0], t)
}

// fenced lets a store that checks fencing tokens refuse an old holder, and
// raises the alarm for an unfenced write under a lock that was lost.
func (a *actor) fenced(s *effect.Step, rows []*row) (verdict, bool) {
	if s.Fence != nil {
		n := a.eval(*s.Fence)
		for _, r := range rows {
			if len(n.parts) == 0 && int(n.c) < r.fence {
				a.run.note(a, s, "refused: an old fencing token")
				a.fail(s, "conflict")
				return moved, true
			}
			r.fence = max(r.fence, int(n.c))
		}
		return moved, false
	}
	for name := range a.lost {
		if len(s.Where) > 0 || s.On.Kind == effect.LockfileKind {
			continue
		}
		a.run.note(a, s, "written without holding %s any more", name)
		a.run.raise(LostLock, s, s.On, "a write under a lock that another holds")
		return moved, true
	}
	return moved, false
}

// set computes the new content.
func (a *actor) set(s *effect.Step, r *row, d *data) {
	old := d.clone()
	for _, as := range s.Set {
		if as.Col == "*" {
			a.setWhole(s, as, r, d, old)
			continue
		}
		if d.cols == nil {
			d.cols = map[string]term{}
		}
		d.cols[as.Col] = a.evalOn(as.Val, r, &old)
	}
	if s.Mode == effect.Append && len(s.Set) == 0 {
		v := apply("append", a.run.st.whole(r, old), a.unknown("item"))
		d.star, d.cols = &v, nil
	}
}

// setWhole stores a whole value: a local copy with its columns as they were
// read, or something computed.
func (a *actor) setWhole(s *effect.Step, as effect.Assign, r *row, d *data, old data) {
	if as.Val.Kind == effect.PathValue && s.Mode != effect.Append {
		if b, field := a.lookup(as.Val.Name); b != nil && b.rec != nil && field == "" && b.rec.agg == nil && (b.rec.row != nil || len(b.rec.data.cols) > 0) {
			copied := b.rec.data.clone()
			d.cols = copied.cols
			d.star = copied.star
			if b.rec.row != r && d.star == nil && b.rec.row != nil {
				v := a.run.st.whole(b.rec.row, data{exists: true})
				d.star = &v
			}
			return
		}
	}
	v := a.evalOn(as.Val, r, &old)
	if s.Mode == effect.Append {
		v = apply("append", a.run.st.whole(r, old), v)
	}
	d.star, d.cols = &v, nil
}

// store puts the new data into the row, committed or pending.
func (a *actor) store(s *effect.Step, t *tx, r *row, d data) {
	r.writers = append(r.writers, s)
	d.synced = d.synced && s.On.Kind != effect.FileKind
	if t == nil {
		r.cur = d
		r.ver++
		a.run.st.changes[r.table]++
		return
	}
	r.pend, r.pendTx = d, t
	r.locks[t] = true
}

// wrote ends a write that took effect.
func (a *actor) wrote(s *effect.Step, r *row, t *tx) verdict {
	fields := map[string]term{"rows": number(1), "ok": trueTerm, "found": trueTerm, "err": nilTerm}
	if r.isVersioned() {
		fields["version"] = number(int64(r.ver))
	}
	a.bind(s.Bind, &record{row: r, data: r.see(t).clone(), fields: fields})
	a.run.touched(a, s, r.table, true, func() string { return a.describeWrite(s, r, r.see(t)) })
	if f := a.run.fault; f != nil && f.kind == ambiguous && f.step == s && !f.used {
		f.used = true
		a.run.note(a, s, "done, but the answer is lost: an error")
		a.fail(s, "unknown")
		return moved
	}
	a.pc++
	return moved
}

// insert makes a row unless a unique index or an existing key is in the way.
func (a *actor) insert(s *effect.Step, t *tx, table string, key []keyTerm) verdict {
	st := a.run.st
	fresh := data{exists: true, cols: map[string]term{}}
	for _, k := range key {
		fresh.cols[k.col] = k.val
	}
	a.set(s, nil, &fresh)
	if len(key) > 0 && s.On.Kind != effect.TableKind {
		st.materialise(table, key, s.Mode == effect.Upsert)
	}
	for _, r := range st.rows[table] {
		d, theirs := r.see(t), false
		if r.pendTx != nil && r.pendTx != t {
			d, theirs = r.pend, true
		} else if r.pendTx == nil {
			d = r.cur
		}
		if !d.exists || !a.collides(s, r, d, fresh, key) {
			continue
		}
		if theirs || r.heldAgainst(t, true) != nil {
			return waits // for the other to commit or roll back
		}
		switch s.Mode {
		case effect.Upsert:
			return a.change(s, t, []*row{r})
		case effect.Ignore:
			return a.refused(s)
		case effect.Create:
			if s.Bind != "" && s.OnErr != effect.OnBind {
				return a.refused(s)
			}
		}
		a.run.note(a, s, "refused: it exists")
		if t != nil && t.validates() {
			a.rollback(t)
		}
		a.fail(s, "exists")
		return moved
	}
	return a.create(s, t, table, key)
}

// collides says whether a unique index, the primary key, or the key of a store
// makes two rows one.
func (a *actor) collides(s *effect.Step, r *row, d, fresh data, key []keyTerm) bool {
	st := a.run.st
	if s.On.Kind != effect.TableKind {
		for _, k := range key {
			if !st.w.sameKey(r.table, st.keyCell(r, d, k.col), k.val) {
				return false
			}
		}
		return true
	}
	sets := uniqueSets(st.schema, s.On.Name)
	if (s.Mode == effect.Upsert || s.Mode == effect.Ignore) && len(sets) == 0 && len(key) > 0 {
		sets = [][]string{nil}
		for _, k := range key {
			sets[0] = append(sets[0], k.col)
		}
	}
	return slices.ContainsFunc(sets, func(cols []string) bool {
		for _, c := range cols {
			v, ok := fresh.cols[c]
			if !ok || !st.known(r, d, c) {
				return false
			}
			if !st.w.equalKey(st.cell(r, d, c), v) {
				return false
			}
		}
		return len(cols) > 0
	})
}

// uniqueSets lists the column sets that the schema keeps unique.
func uniqueSets(schema *effect.Schema, table string) [][]string {
	if schema == nil {
		return nil
	}
	t := schema.Tables[strings.ToLower(table)]
	if t == nil {
		return nil
	}
	var sets [][]string
	if len(t.Primary) > 0 {
		sets = append(sets, t.Primary)
	}
	for _, u := range t.Unique {
		sets = append(sets, u.Cols)
	}
	return sets
}

// create makes the row itself.
func (a *actor) create(s *effect.Step, t *tx, table string, key []keyTerm) verdict {
	st := a.run.st
	if v, stop := a.fenced(s, nil); stop {
		return v
	}
	r := a.absent(table, key)
	if r == nil {
		r = &row{table: table, locks: map[*tx]bool{}, born: fmt.Sprintf("%s.row%d.%d", a.name, a.pc, a.rounds)}
		st.rows[table] = append(st.rows[table], r)
	}
	d := data{exists: true, cols: map[string]term{}}
	r.name(key)
	if !r.isVersioned() {
		d.cols = maps.Clone(r.keys)
	}
	a.set(s, r, &d)
	a.store(s, t, r, d)
	if s.On.Kind == effect.FileKind {
		a.handles[handleName(table, key)] = r
	}
	return a.wrote(s, r, t)
}

// name gives a row that was made in the run its key.
func (r *row) name(key []keyTerm) {
	if r.slot != nil || r.keys != nil {
		return
	}
	r.keys = map[string]term{}
	for _, k := range key {
		r.keys[k.col] = k.val
	}
}

// absent finds the row of a key that is known and not there: a file that is
// made again is the same name.
func (a *actor) absent(table string, key []keyTerm) *row {
	if strings.HasPrefix(table, string(effect.TableKind)+":") {
		return nil
	}
	for _, r := range a.run.st.rows[table] {
		if r.cur.exists || r.pendTx != nil {
			continue
		}
		same := true
		for _, k := range key {
			same = same && a.run.st.w.sameKey(table, a.run.st.keyCell(r, r.cur, k.col), k.val)
		}
		if same {
			return r
		}
	}
	return nil
}

func handleName(table string, key []keyTerm) string {
	for _, k := range key {
		table += "[" + k.val.String() + "]"
	}
	return table
}
