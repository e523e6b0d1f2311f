package witness

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// file runs the writes that work on an open file: emptying it, filling it, and
// making a temporary one.
func (a *actor) file(s *effect.Step, table string, key []keyTerm) verdict {
	st := a.run.st
	switch s.Mode {
	case effect.Temp:
		if len(key) == 0 {
			key = []keyTerm{{"path", single(&atom{key: fmt.Sprintf("%s.temp%d.%d", a.name, a.pc, a.rounds), kind: freshAtom})}}
		}
		r := &row{table: table, locks: map[*tx]bool{}, born: "temp", cur: data{exists: true, torn: true}}
		r.name(key)
		st.rows[table] = append(st.rows[table], r)
		a.handles[handleName(table, key)] = r
		a.bind(s.Bind, &record{row: r, data: r.cur.clone(), fields: map[string]term{"err": nilTerm, "ok": trueTerm, "path": key[0].val}})
		a.run.touch(a, s, table, true, "made, empty")
		a.pc++
		return moved
	case effect.Truncate:
		r := a.open(table, key)
		if v, stop := a.fenced(s, []*row{r}); stop {
			return v
		}
		empty := constant(`""`)
		r.cur = data{exists: true, star: &empty, torn: true, named: r.cur.named}
		r.ver++
		a.bind(s.Bind, &record{row: r, data: r.cur.clone(), fields: map[string]term{"err": nilTerm, "ok": trueTerm}})
		a.run.touch(a, s, table, true, "emptied")
		a.pc++
		return moved
	}
	return a.fill(s, table, key)
}

// fill writes the content of an open file.
func (a *actor) fill(s *effect.Step, table string, key []keyTerm) verdict {
	r := a.opened(table, key)
	if r == nil {
		a.pc++
		return moved
	}
	if v, stop := a.fenced(s, []*row{r}); stop {
		return v
	}
	d := r.cur.clone()
	a.setFile(s, r, &d)
	d.torn, d.synced = false, false
	r.cur = d
	r.ver++
	a.bind(s.Bind, &record{row: r, data: d.clone(), fields: map[string]term{"err": nilTerm, "ok": trueTerm}})
	a.run.touched(a, s, table, true, func() string { return a.describeWrite(s, r, d) })
	a.pc++
	return moved
}

// setFile puts the content.
func (a *actor) setFile(s *effect.Step, r *row, d *data) {
	a.set(s, r, d)
	if len(s.Set) == 0 {
		v := a.unknown("content")
		d.star = &v
	}
}

// open gives the file of a path, made if it is not there.
func (a *actor) open(table string, key []keyTerm) *row {
	st := a.run.st
	st.materialise(table, key, true)
	var r *row
	for _, x := range st.rows[table] {
		if st.matches(a, x, x.cur, key, nil) {
			r = x
		}
	}
	if r == nil {
		r = a.absent(table, key)
	}
	if r == nil {
		r = &row{table: table, locks: map[*tx]bool{}, born: fmt.Sprintf("%s.file%d", a.name, a.pc)}
		r.name(key)
		st.rows[table] = append(st.rows[table], r)
	}
	a.handles[handleName(table, key)] = r
	return r
}

// opened is the file that the actor has open under a path, or the one that has
// the path now.
func (a *actor) opened(table string, key []keyTerm) *row {
	if r := a.handles[handleName(table, key)]; r != nil {
		return r
	}
	a.run.st.materialise(table, key, true)
	return a.named(table, key)
}

// rename moves a file onto another name. Who has the file open keeps it: what
// is written later goes to the new name.
func (a *actor) rename(s *effect.Step) verdict {
	st := a.run.st
	fromTable, fromKey := a.key(s.On)
	toTable, toKey := a.key(s.To)
	st.materialise(fromTable, fromKey, true)
	st.materialise(toTable, toKey, true)
	from := a.named(fromTable, fromKey)
	if from == nil {
		a.run.note(a, s, "refused: the file to rename is gone")
		a.fail(s, "notfound")
		return moved
	}
	to := a.named(toTable, toKey)
	if to != nil && s.Excl {
		a.run.note(a, s, "refused: the target exists")
		a.fail(s, "exists")
		return moved
	}
	if v, stop := a.fenced(s, nil); stop {
		return v
	}
	if from.cur.torn {
		a.run.note(a, s, "publishes an empty or cut file")
		a.run.raise(Torn, s, s.To, "an empty or cut file is published")
		return moved
	}
	if to == nil {
		if to = a.absent(toTable, toKey); to == nil {
			to = &row{table: toTable, locks: map[*tx]bool{}, born: fmt.Sprintf("%s.renamed%d", a.name, a.pc)}
			to.name(toKey)
			st.rows[toTable] = append(st.rows[toTable], to)
		}
	}
	content := st.whole(from, data{exists: true, star: from.cur.star})
	to.cur = data{exists: true, star: &content, synced: from.cur.synced}
	to.ver++
	from.cur = data{}
	for _, other := range a.run.actors {
		for name, h := range other.handles {
			if h == from {
				other.handles[name] = to
			}
		}
	}
	a.run.touch(a, s, toTable, true, "replaced")
	if s.Bind != "" {
		a.bind(s.Bind, &record{fields: map[string]term{"err": nilTerm, "ok": trueTerm}})
	}
	a.pc++
	return moved
}

// named is the file that has the path now, or nil.
func (a *actor) named(table string, key []keyTerm) *row {
	for _, r := range a.run.st.rows[table] {
		if a.run.st.matches(a, r, r.cur, key, nil) {
			return r
		}
	}
	return nil
}
