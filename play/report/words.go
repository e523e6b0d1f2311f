package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/play/explore"
)

// nothingFound is the verdict of a report without findings. It claims no more
// than what was done.
const nothingFound = "No schedule explored gave an outcome outside the serial orders."

// verdict is the first thing a reader wants to know.
func (r *Report) verdict() string {
	switch n := len(r.Findings); {
	case n == 1:
		return "1 outcome that no serial order explains."
	case n > 1:
		return fmt.Sprintf("%d outcomes that no serial order explains.", n)
	case r.schedules() == 0:
		return "No schedule was completed, so this run says nothing about the scenario."
	}
	return nothingFound
}

// schedules is the number of complete runs of all passes.
func (r *Report) schedules() int {
	n := 0
	for _, p := range r.Passes {
		n += p.Schedules
	}
	return n
}

// actorName is the name of actor i, or its letter where it has none.
func (r *Report) actorName(i int) string {
	if name := printable(r.Actors[i].Name); name != "" {
		return name
	}
	return explore.Schedule{i}.String()
}

// check refuses a report whose timelines or schedules name actors that it does
// not have, for which no form has a column.
func (r *Report) check() error {
	bad := func(i int, what string, n, actor int) error {
		return fmt.Errorf("print the report of %s: %s %d of finding %d names actor %d and there are %d; this is a mistake in what made the report",
			r.Scenario, what, n+1, i+1, actor, len(r.Actors))
	}
	for i := range r.Findings {
		for n, row := range r.Findings[i].Rows {
			if row.Actor < 0 || row.Actor >= len(r.Actors) {
				return bad(i, "row", n, row.Actor)
			}
		}
		for n, a := range r.Findings[i].Schedule {
			if a < 0 || a >= len(r.Actors) {
				return bad(i, "choice", n, a)
			}
		}
	}
	return nil
}

func (r *Report) scheduleWords(f *Finding) string {
	var names []string
	for i, a := range f.Schedule {
		if ft := f.Fault; ft != nil && i == ft.After {
			names = append(names, "["+ft.words(r)+"]")
		}
		names = append(names, r.actorName(a))
	}
	if ft := f.Fault; ft != nil && ft.After >= len(f.Schedule) {
		names = append(names, "["+ft.words(r)+"]")
	}
	return strings.Join(names, " ")
}

// words say what is done, in a line of a schedule.
func (ft *Fault) words(r *Report) string {
	name := r.actorName(ft.Actor)
	step := ""
	if ft.Undelivered {
		step = " after one more step"
	}
	switch ft.Kind {
	case "pause":
		return name + " is paused"
	case "crash":
		return name + " is killed" + step
	case "power-loss":
		return "the power fails"
	case "retry":
		if ft.After >= 1 && step == "" {
			return "no answer reaches " + name + ", which asks again"
		}
		return name + " is killed" + step + ", and asked again"
	}
	return ft.Kind
}

// heading is the kind of a finding for people, and where the race is.
func (f *Finding) heading() string {
	kind := printable(string(f.Kind))
	if f.Inside {
		return kind + ", inside one statement"
	}
	return kind
}

func (r *Report) timesWords(f *Finding) string {
	return fmt.Sprintf("%d of %s", f.Times, count(r.schedules(), "schedule"))
}

func (f *Finding) confirmedWords() string {
	if f.Replays == 0 {
		return "not replayed"
	}
	return fmt.Sprintf("confirmed by %d of %s", f.Confirmed, count(f.Replays, "replay"))
}

// sure reports whether every replay gave the finding again.
func (f *Finding) sure() bool { return f.Replays > 0 && f.Confirmed == f.Replays }

// replayCommand is the command that plays the finding again; empty where the
// schedule was not saved.
func (f *Finding) replayCommand() string {
	if f.File == "" {
		return ""
	}
	return "holdfast replay " + shellWord(f.File)
}

// shellWord quotes s for a POSIX shell where that is needed.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/+:@%,=", r)
	}
	if !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// counts says how many runs a pass made, and how fast.
func (p *Pass) counts() string {
	s := count(p.Schedules, "schedule")
	if p.Redundant > 0 {
		s += fmt.Sprintf(", %d redundant", p.Redundant)
	}
	if p.Inconclusive > 0 {
		s += fmt.Sprintf(", %d inconclusive", p.Inconclusive)
	}
	if p.Took > 0 {
		s += fmt.Sprintf(", %s", duration(p.Took))
	}
	return s
}

// coverage says what of the pass's space was run.
func (p *Pass) coverage() string {
	switch {
	case p.Complete && p.Inconclusive == 0:
		return "complete: every distinct order was run"
	case p.Complete:
		return fmt.Sprintf("every distinct order was tried, %d without a result", p.Inconclusive)
	case p.LeftOut != "":
		return "left out: " + printable(p.LeftOut)
	}
	return "not complete"
}

// reasonWords lists why runs were inconclusive, most frequent first.
func (p *Pass) reasonWords() []string {
	keys := slices.Sorted(maps.Keys(p.Reasons))
	slices.SortStableFunc(keys, func(a, b string) int { return p.Reasons[b] - p.Reasons[a] })
	words := make([]string, len(keys))
	for i, k := range keys {
		words[i] = fmt.Sprintf("%d × %s", p.Reasons[k], printable(k))
	}
	return words
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// duration is d in the unit and with the digits that a person needs.
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}

// cell is the value of o under label, with i as the place where it usually is.
func (o *Outcome) cell(i int, label string) (Cell, bool) {
	if i < len(o.Cells) && o.Cells[i].Label == label {
		return o.Cells[i], true
	}
	for _, c := range o.Cells {
		if c.Label == label {
			return c, true
		}
	}
	return Cell{}, false
}
