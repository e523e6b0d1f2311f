package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// enumerate joins words: "A", "A and B", "A, B and C".
func enumerate(words []string, last string) string {
	switch n := len(words); n {
	case 0:
		return ""
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " " + last + " " + words[n-1]
	}
}

func (t *trial) names(mask uint64, last string) string {
	var names []string
	for a := range t.o.actors {
		if mask&(1<<a) != 0 {
			names = append(names, t.o.name(a))
		}
	}
	return enumerate(names, last)
}

// answered is "A and B were both answered 200", "A was answered 200".
func (t *trial) answered(actors ...int) string {
	var names, statuses []string
	for _, a := range actors {
		names = append(names, t.o.name(a))
		statuses = append(statuses, t.response(a).word())
	}
	was := "was answered "
	if len(actors) > 0 && t.response(actors[0]).Program {
		was = "ended with "
	}
	if len(actors) == 1 {
		return names[0] + " " + was + statuses[0]
	}
	if len(slices.Compact(slices.Clone(statuses))) == 1 {
		both := "both"
		if len(actors) > 2 {
			both = "all"
		}
		if was == "ended with " {
			return fmt.Sprintf("%s %s ended with %s", enumerate(names, "and"), both, statuses[0])
		}
		return fmt.Sprintf("%s were %s answered %s", enumerate(names, "and"), both, statuses[0])
	}
	for i := range names {
		names[i] += " " + was + statuses[i]
	}
	return enumerate(names, "and")
}

func actorsOf(mask uint64) []int {
	var list []int
	for a := 0; mask>>a != 0; a++ {
		if mask&(1<<a) != 0 {
			list = append(list, a)
		}
	}
	return list
}

// serialValues are the distinct values that the candidates have at d, for people.
func (t *trial) serialValues(d Difference) []string {
	var values []string
	for _, c := range t.near {
		shown := rowAbsent
		if d.loose {
			shown = d.Serial
		} else if s, ok := c.view.get(d.Label); ok {
			shown = s.shown
		}
		if !slices.Contains(values, shown) {
			values = append(values, shown)
		}
	}
	slices.Sort(values)
	return values
}

// against is "90 where every serial order ends with 80".
func (t *trial) against(d Difference) string {
	values := t.serialValues(d)
	for i := range values {
		values[i] = shorten(values[i])
	}
	obs := shorten(d.Observed)
	if len(values) == 1 {
		return fmt.Sprintf("%s where every serial order ends with %s", obs, values[0])
	}
	return fmt.Sprintf("%s where the serial orders end with %s", obs, enumerate(values, "or"))
}

func (t *trial) lostSentence(victims uint64, d Difference) string {
	if len(actorsOf(victims)) == 1 {
		return fmt.Sprintf("%s, but its change of %s is not in the final state: %s", t.answered(actorsOf(victims)...), d.Label, t.against(d))
	}
	return fmt.Sprintf("%s, but the change of %s by one of %s is not in the final state: %s", t.answered(actorsOf(victims)...), d.Label, t.names(victims, "and"), t.against(d))
}

func (t *trial) twinSentence(a int, c candidate) string {
	who := uint64(0)
	for _, x := range actorsOf(t.acked) {
		if t.response(x).Status < 400 {
			who |= 1 << x
		}
	}
	effect := ""
	if len(t.changed(a)) > 0 {
		effect = " (" + strings.Join(t.changed(a), ", ") + ")"
	}
	status := c.runs[0].out.Responses[a].word()
	return fmt.Sprintf("%s, but the change by one of them is not in the final state%s: the serial orders refuse one of them with %s", t.answered(actorsOf(who)...), effect, status)
}

// changed shows the cells that a changes when it runs alone, as they are now.
func (t *trial) changed(a int) []string {
	var list []string
	for _, c := range t.seen().cells {
		d := Difference{Label: c.label, Table: c.table, observed: c.canon}
		if c.table != "" && c.canon != rowThere && t.writes(a, d) && len(list) < 3 {
			list = append(list, c.label+" is "+shorten(c.shown))
		}
	}
	return list
}

func (t *trial) duplicateSentence(e extra, copied string, refused []int) string {
	least := e.most
	for _, c := range t.near {
		least = min(least, c.view.rows[e.table])
	}
	bound := fmt.Sprintf("every serial order leaves %d", e.most)
	if least != e.most {
		bound = fmt.Sprintf("no serial order leaves more than %d", e.most)
	}
	s := fmt.Sprintf("%s has %d rows where %s", e.table, e.rows, bound)
	if copied != "" {
		s += fmt.Sprintf(": %s is there more than once", shorten(copied))
	}
	if len(refused) > 0 {
		status := t.near[0].runs[0].out.Responses[refused[0]].word()
		s += fmt.Sprintf("; %s, and the serial orders refuse one of them with %s", t.answered(actorsOf(t.acked)...), status)
	}
	return s
}

func (t *trial) partialSentence(a int, d Difference) string {
	r := t.response(a)
	answer := t.o.name(a) + " got no answer"
	if r.Status != 0 {
		answer = t.answered(a)
	}
	without := d.Serial
	part := "a part of its changes is"
	for _, c := range t.near {
		if c.members&(1<<a) != 0 && len(state(c.diff)) == 0 {
			part = "its changes are"
		}
	}
	if d.loose && d.Serial == rowAbsent {
		return fmt.Sprintf("%s, but %s in the final state: %s has a row %s that is not there without %s", answer, part, d.Table, shorten(d.Observed), t.o.name(a))
	}
	return fmt.Sprintf("%s, but %s in the final state: %s is %s, and without %s it is %s", answer, part, d.Label, shorten(d.Observed), t.o.name(a), shorten(without))
}

func (t *trial) stuckSentence() string {
	var open []string
	for a := range t.o.actors {
		if t.response(a).Status == 0 {
			open = append(open, t.o.name(a))
		}
	}
	if len(open) == 0 {
		return "no progress: the run did not end although every request was answered"
	}
	return fmt.Sprintf("no progress: %s got no answer, and nothing that could still run would give one", enumerate(open, "and"))
}

func (t *trial) deadlockSentence(victims uint64) string {
	waited := t.names(victims, "and") + " and others"
	if t.o.actors == 2 {
		waited = enumerate([]string{t.o.name(0), t.o.name(1)}, "and")
	}
	return fmt.Sprintf("deadlock: %s waited for each other, the database gave one up (40P01), and %s", waited, t.answered(actorsOf(victims)...))
}

func (t *trial) serverErrorSentence(errors uint64) string {
	a := actorsOf(errors)[0]
	if r := t.response(a); r.Broken {
		return fmt.Sprintf("the application broke off the request of %s without an answer (%s), which no serial order does", t.o.name(a), r.Err)
	}
	s := t.answered(actorsOf(errors)...) + ", a server error that no serial order gives"
	if codes := t.response(a).Codes; len(codes) > 0 {
		codes = slices.Compact(codes)
		who := "the database"
		if codes[0][0] == 'E' { // an error of the system, and not an SQLSTATE
			who = "a file operation"
		}
		s += " (" + who + " answered " + strings.Join(codes, ", ") + ")"
	}
	return s
}

// skewSentence tells of an outcome that fits no named kind.
func (t *trial) skewSentence() string {
	best := t.near[0]
	diff := state(best.diff)
	everyone := t.names(t.everyone(), "and")
	if len(best.diff) == 0 {
		return fmt.Sprintf("the values are those of %s, but rows or answers refer to each other in a way that no serial order of %s gives", t.o.orderName(best.order), everyone)
	}
	if c, ok := t.stateExplained(); ok {
		return fmt.Sprintf("the final state is that of %s, but no serial order of %s gives these answers together: %s", t.o.orderName(c.order), everyone, t.spell(c.diff))
	}
	if len(diff) == 0 {
		return fmt.Sprintf("no serial order of %s has this: %s", everyone, t.spell(best.diff))
	}
	return fmt.Sprintf("no serial order of %s ends like this: compared with %s, %s", everyone, t.o.orderName(best.order), t.spell(best.diff))
}

// stateExplained gives the nearest order with the outcome's state.
func (t *trial) stateExplained() (candidate, bool) {
	for _, c := range t.near {
		if len(c.diff) > 0 && t.o.serialForm(c.runs[0], 0) == t.form(0) {
			return c, true
		}
	}
	return candidate{}, false
}

// spell writes up to four differences.
func (t *trial) spell(diff []Difference) string {
	var parts []string
	for _, d := range diff {
		if len(parts) == 4 {
			parts = append(parts, fmt.Sprintf("and %d more", len(diff)-4))
			break
		}
		label := d.Label
		if d.Table != "" {
			label += " is"
		}
		parts = append(parts, fmt.Sprintf("%s %s instead of %s", label, shorten(d.Observed), shorten(d.Serial)))
	}
	return strings.Join(parts, ", ")
}
