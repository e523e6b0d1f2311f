package oracle

import (
	"cmp"
	"slices"
)

// unexplained finds out of what kind an outcome is that no serial order has.
func (t *trial) unexplained() Verdict {
	t.candidates()
	best := t.near[0]
	v := Verdict{Nearest: best.order, Diff: best.diff}
	v.Kind, v.Sentence = t.classify()
	if len(v.Diff) == 0 {
		v.Diff = []Difference{{Label: "links between rows and answers", Observed: "different", Serial: "as in " + t.o.orderName(best.order)}}
	}
	v.Key = digest(string(v.Kind), t.keyForm())
	for _, name := range t.out.Violated {
		t.note("the invariant %s does not hold", name)
	}
	v.Notes = t.notes
	return v
}

// candidates compares the outcome with each serial order of a possible set.
func (t *trial) candidates() {
	obs := t.seen()
	t.sets(func(members uint64) bool {
		for _, s := range t.o.orders {
			if s.members != members {
				continue
			}
			ser := t.o.serialView(s.runs[0])
			t.near = append(t.near, candidate{s, ser, t.o.diff(obs, ser, members&^t.silent)})
		}
		return true
	})
	slices.SortStableFunc(t.near, func(a, b candidate) int { return cmp.Compare(len(a.diff), len(b.diff)) })
}

func (t *trial) classify() (Kind, string) {
	if t.out.Stuck {
		return Deadlock, t.stuckSentence()
	}
	if victims := t.deadlocked(); victims != 0 {
		return Deadlock, t.deadlockSentence(victims)
	}
	surplus := t.surplus()
	if len(surplus) == 0 {
		if s := t.lostUpdate(); s != "" {
			return LostUpdate, s
		}
	} else if s := t.duplicate(surplus); s != "" {
		return DuplicateEffect, s
	}
	if s := t.partial(); s != "" {
		return PartialEffect, s
	}
	if errors := t.serverErrors(); errors != 0 {
		return ServerError, t.serverErrorSentence(errors)
	}
	return WriteSkew, t.skewSentence()
}

// state are the differences outside the answers.
func state(diff []Difference) []Difference {
	var list []Difference
	for _, d := range diff {
		if d.Table != "" {
			list = append(list, d)
		}
	}
	return list
}

// has tells whether a serial order ends with what the outcome has at d.
func has(d Difference, obs, v *view) bool {
	switch {
	case !d.loose:
		c, ok := v.get(d.Label)
		return ok && c.canon == d.observed || !ok && d.observed == rowAbsent
	case d.observed == rowAbsent:
		return v.rows[d.Table] == obs.rows[d.Table]
	}
	return slices.ContainsFunc(v.loose[d.Table], func(c cell) bool { return c.canon == d.observed })
}

// writes tells whether an actor that runs alone changes what d is about.
func (t *trial) writes(a int, d Difference) bool {
	before := t.o.serialView(t.o.byKey[""].runs[0])
	after := t.o.serialView(t.o.byKey[orderKey([]int{a})].runs[0])
	if !d.loose {
		x, okX := before.get(d.Label)
		y, okY := after.get(d.Label)
		return okX != okY || x.canon != y.canon
	}
	return !slices.EqualFunc(before.loose[d.Table], after.loose[d.Table], func(x, y cell) bool { return x.canon == y.canon })
}

// without are the serial orders of subsets of the acknowledged actors that lack a.
func (t *trial) without(a int) []*series {
	var list []*series
	for _, s := range t.o.orders {
		if s.members&^(t.acked&^(1<<a)) == 0 {
			list = append(list, s)
		}
	}
	return list
}

// victims are the actors whose change may be what is missing at d: each was
// accepted, changes this place when it runs alone, and some order without it
// ends with what is observed. The second condition keeps write skew apart: of
// two doctors who both go off call, each one's own change is there, and what
// differs is a place that only its own request writes.
func (t *trial) victims(d Difference) (m uint64) {
	for a := range t.o.actors {
		if t.acked&(1<<a) == 0 || t.response(a).Status >= 400 || !t.writes(a, d) {
			continue
		}
		for _, s := range t.without(a) {
			if has(d, t.seen(), t.o.serialView(s.runs[0])) {
				m |= 1 << a
				break
			}
		}
	}
	return m
}

// lostUpdate gives the sentence if what differs is explained by changes of
// acknowledged requests that are not there.
func (t *trial) lostUpdate() string {
	diff := state(t.near[0].diff)
	if len(diff) == 0 {
		return t.refusedTwin()
	}
	every, some := ^uint64(0), uint64(0)
	for _, d := range diff {
		m := t.victims(d)
		if m == 0 {
			return ""
		}
		every &= m
		some |= m
	}
	if every == 0 {
		every = some
	}
	return t.lostSentence(every, t.pick(diff))
}

// refusedTwin is a lost update without a differing cell: two requests take the
// last money, both are accepted, and the balance is that after one of them; each
// serial order refuses the second.
func (t *trial) refusedTwin() string {
	for _, c := range t.near {
		if len(state(c.diff)) > 0 || t.form(0) != t.o.serialForm(c.runs[0], 0) {
			continue
		}
		for _, a := range t.refused(c.series) {
			if t.sameState(a) {
				return t.twinSentence(a, c)
			}
		}
	}
	return ""
}

// sameState tells whether the outcome's state is that of an order without a,
// although a changes something when it runs alone.
func (t *trial) sameState(a int) bool {
	alone, none := t.o.byKey[orderKey([]int{a})], t.o.byKey[""]
	if t.o.serialForm(alone.runs[0], 0) == t.o.serialForm(none.runs[0], 0) {
		return false
	}
	return slices.ContainsFunc(t.without(a), func(s *series) bool { return t.o.serialForm(s.runs[0], 0) == t.form(0) })
}

// refused are the actors that the serial order refuses and the outcome accepts.
func (t *trial) refused(s *series) []int {
	var list []int
	for _, a := range s.order {
		if st := t.response(a).Status; st > 0 && st < 400 && s.runs[0].out.Responses[a].Status >= 400 {
			list = append(list, a)
		}
	}
	return list
}

// pick chooses the difference that the sentence tells of: one that no serial
// order has, a named cell rather than a row.
func (t *trial) pick(diff []Difference) Difference {
	rank := func(d Difference) int {
		n := 0
		if d.loose {
			n += 2
		}
		if d.observed == rowThere || d.observed == rowAbsent || d.serial == rowAbsent {
			n++
		}
		for _, c := range t.near {
			if has(d, t.seen(), c.view) {
				return n + 4
			}
		}
		return n
	}
	return slices.MinFunc(diff, func(a, b Difference) int { return cmp.Compare(rank(a), rank(b)) })
}

// extra is a table with more rows than any serial order leaves.
type extra struct {
	table      string
	rows, most int
}

func (t *trial) surplus() []extra {
	var list []extra
	for _, table := range t.seen().order {
		most := 0
		for _, c := range t.near {
			most = max(most, c.view.rows[table])
		}
		if n := t.seen().rows[table]; n > most {
			list = append(list, extra{table, n, most})
		}
	}
	return list
}

// duplicate gives the sentence if the surplus rows are an effect made twice.
// Where other cells differ as well, it must be a copy of another row or a
// request that serial orders refuse; else it is some other anomaly.
func (t *trial) duplicate(surplus []extra) string {
	e := surplus[0]
	refused := t.refused(t.near[0].series)
	copied := t.copied(e.table)
	others := false
	for _, d := range state(t.near[0].diff) {
		others = others || !d.loose && d.serial != rowAbsent
	}
	if others && copied == "" && len(refused) == 0 {
		return ""
	}
	return t.duplicateSentence(e, copied, refused)
}

// copied shows a row that the table has twice but for noise, empty if none.
func (t *trial) copied(table string) string {
	rows := t.seen().loose[table]
	for i := 1; i < len(rows); i++ {
		if rows[i].canon == rows[i-1].canon {
			return rows[i].shown
		}
	}
	return ""
}

// partial gives the sentence if the state differs from that of the acknowledged
// requests where a failed one writes.
func (t *trial) partial() string {
	for _, c := range t.near {
		if c.members != t.acked {
			continue
		}
		diff := state(c.diff)
		for a := range t.o.actors {
			if (t.conflict|t.silent)&(1<<a) == 0 {
				continue
			}
			for _, d := range diff {
				if t.writes(a, d) {
					return t.partialSentence(a, d)
				}
			}
		}
		return "" // the nearest order of the acknowledged ones decides
	}
	return ""
}
