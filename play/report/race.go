package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/oracle"
)

// spanKind says what an actor does over several rows.
type spanKind uint8

const (
	holds spanKind = iota // a lock
	waits                 // for a lock
	stops                 // between its snapshot and its effect
)

// span is a stretch of rows, both ends included.
type span struct {
	kind     spanKind
	actor    int
	from, to int
	objects  []string
}

// linkKind says how two rows of different actors depend on each other.
type linkKind uint8

const (
	// missed: the write at From became visible after the read at To, which
	// therefore did not see it.
	missed linkKind = iota
	// over: the write at To comes on top of the write at From.
	over
	// seen: the read at To saw the write at From.
	seen
	// waitsFor: the row From waits for what the row To has locked.
	waitsFor
)

// link is an arrow between two rows.
type link struct {
	kind     linkKind
	from, to int
	object   string
	// first and second are the actors in the order that the link demands of
	// every serial order: a reader that missed a write comes before the writer.
	first, second int
	cost          int
}

// analysis is what the footprints of a timeline show.
type analysis struct {
	spans []span
	links []link
	// why says in words what the links show; empty without links.
	why string
}

// effect is a write: where it is made and from where on others can see it.
// Under multi-version concurrency these are two rows, UPDATE and COMMIT.
type effect struct {
	actor, at, visible int
	access             explore.Access
}

// lock is a lock that an actor holds.
type lock struct {
	actor, at int
	access    explore.Access
}

// errorNote is the summary of a failed step, "ERROR 40P01: ...", alone or after
// what had happened before ("goes on: ERROR 40P01: ...").
var errorNote = regexp.MustCompile(`^(?:[a-z ]+[:,] )?ERROR\b`)

// lockingRead is a SELECT that locks: its lock is no write.
var lockingRead = regexp.MustCompile(`(?is)^\s*(select|with)\b.*\bfor\s+(update|share|no\s+key\s+update|key\s+share)\b`)

// analyse finds the locks held, the waits and the few dependencies that can
// not all be had in one serial order. Dependencies come from footprints, which
// may claim more than a statement did, so they explain a finding that the
// oracle has proved; they prove nothing by themselves.
func analyse(r *Report, f *Finding) analysis {
	t := newTimeline(f.Rows)
	a := analysis{spans: t.spans}
	switch f.Kind {
	case oracle.Deadlock:
		a.links = t.waits
	case oracle.PartialEffect:
		a.links = t.cycle()
	default:
		if a.links = t.staleWrite(); a.links == nil {
			a.links = t.cycle()
		}
	}
	a.why = t.words(r, a.links)
	return a
}

// timeline is a list of rows with their parsed footprints.
type timeline struct {
	rows []Row
	// touch are the accesses by the row at which they took effect: those of a
	// blocked step stand at the row where it goes on, which may repeat them.
	touch   [][]explore.Access
	spans   []span
	waits   []link
	effects []effect
}

func newTimeline(rows []Row) *timeline {
	t := &timeline{rows: rows, touch: make([][]explore.Access, len(rows))}
	for i, row := range rows {
		at := i
		switch row.Kind {
		case RowBlocked:
			at = t.next(i, RowWoke)
			t.addSpan(waits, i, at, nil)
		case RowPause:
			t.addSpan(stops, i, t.next(i, ""), nil)
		}
		if at < len(rows) && (at == i || rows[at].Touch == "") {
			t.touch[at] = append(t.touch[at], parseTouch(row.Touch)...)
		}
	}
	t.followLocks()
	t.findEffects()
	return t
}

// next is the next row of the actor of row i with this kind (any: ""), or the
// number of rows.
func (t *timeline) next(i int, kind string) int {
	for j := i + 1; j < len(t.rows); j++ {
		if t.rows[j].Actor == t.rows[i].Actor && (kind == "" || t.rows[j].Kind == kind) {
			return j
		}
	}
	return len(t.rows)
}

func (t *timeline) addSpan(kind spanKind, from, to int, objects []string) {
	if to = min(to, len(t.rows)-1); to > from {
		t.spans = append(t.spans, span{kind, t.rows[from].Actor, from, to, objects})
	}
}

// failed reports whether the step of row i ended with an error and so took and
// wrote nothing.
func (t *timeline) failed(i int) bool { return errorNote.MatchString(t.rows[i].Note) }

// followLocks finds which locks are held over which rows, and who waits for
// which of them.
func (t *timeline) followLocks() {
	var held []lock
	end := func(i int, released func(lock) bool) {
		held = slices.DeleteFunc(held, func(l lock) bool {
			if !released(l) {
				return false
			}
			t.addSpan(holds, l.at, i, []string{object(l.access)})
			return true
		})
	}
	for i, row := range t.rows {
		t.findWaits(i, held)
		for _, a := range t.touch[i] {
			if (a.Mode == explore.Lock || a.Mode == explore.Share) && !t.failed(i) {
				held = append(held, lock{row.Actor, i, a})
			}
		}
		for _, a := range t.touch[i] {
			if a.Mode == explore.Publish || a.Mode == explore.Unlock {
				end(i, func(l lock) bool { return l.actor == row.Actor && l.access.Overlaps(a) })
			}
		}
		if row.Kind == RowResponse {
			end(i, func(l lock) bool { return l.actor == row.Actor })
		}
	}
	end(len(t.rows)-1, func(lock) bool { return true })
	t.mergeLocks()
}

// findWaits notes for whom row i waits: a blocked step, or one that failed
// where another actor held the lock, as the victim of a deadlock does.
func (t *timeline) findWaits(i int, held []lock) {
	row := t.rows[i]
	if row.Kind != RowBlocked && (row.Kind == RowWoke || !t.failed(i)) {
		return
	}
	for _, a := range parseTouch(row.Touch) {
		for _, l := range held {
			if l.actor == row.Actor || !a.Conflicts(l.access) || a.Mode == explore.Unlock || a.Mode == explore.Publish {
				continue
			}
			t.waits = append(t.waits, link{kind: waitsFor, from: i, to: l.at, object: object(l.access), first: row.Actor, second: l.actor})
			return
		}
	}
}

// mergeLocks joins the lock spans of an actor that overlap, since the picture
// has one rail per actor.
func (t *timeline) mergeLocks() {
	slices.SortStableFunc(t.spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.actor, b.actor), cmp.Compare(a.from, b.from))
	})
	var merged []span
	for _, s := range t.spans {
		if n := len(merged) - 1; n >= 0 && s.kind == holds && merged[n].kind == holds &&
			merged[n].actor == s.actor && s.from <= merged[n].to {
			merged[n].to = max(merged[n].to, s.to)
			for _, o := range s.objects {
				if !slices.Contains(merged[n].objects, o) {
					merged[n].objects = append(merged[n].objects, o)
				}
			}
			continue
		}
		merged = append(merged, s)
	}
	t.spans = merged
}

// findEffects pairs each write with the row that makes it visible.
func (t *timeline) findEffects() {
	var pending []effect
	for i, row := range t.rows {
		if t.failed(i) {
			continue
		}
		for _, a := range t.touch[i] {
			switch a.Mode {
			case explore.Write:
				t.effects = append(t.effects, effect{row.Actor, i, i, a})
			case explore.Lock:
				pending = append(pending, effect{row.Actor, i, -1, a})
			}
		}
		for _, a := range t.touch[i] {
			switch a.Mode {
			case explore.Publish:
				pending = t.publish(i, a, pending)
			case explore.Unlock:
				pending = slices.DeleteFunc(pending, func(e effect) bool {
					return e.actor == row.Actor && e.access.Overlaps(a)
				})
			}
		}
	}
}

// publish makes the pending writes of an actor to a visible at row i. Where the
// footprints name no such write, the publishing row stands for it.
func (t *timeline) publish(i int, a explore.Access, pending []effect) []effect {
	actor, found := t.rows[i].Actor, false
	rest := slices.DeleteFunc(pending, func(e effect) bool {
		if e.actor != actor || !e.access.Overlaps(a) {
			return false
		}
		found = true
		if !lockingRead.MatchString(t.rows[e.at].Step) {
			e.visible = i
			t.effects = append(t.effects, e)
		}
		return true
	})
	if !found {
		t.effects = append(t.effects, effect{actor, i, i, a})
	}
	return rest
}

func object(a explore.Access) string {
	_, o, _ := strings.Cut(a.String(), " ")
	return o
}

// words says what the links show, by the numbers of the rows from 1.
func (t *timeline) words(r *Report, links []link) string {
	name := r.actorName
	if len(links) == 2 && links[0].kind == missed && links[1].kind == over && links[0].from == links[1].from {
		m, o := links[0], links[1]
		return fmt.Sprintf("%s reads %s at %d, %s changes it at %d, and %s writes at %d without having seen that.",
			name(m.first), m.object, m.to+1, name(m.second), m.from+1, name(o.second), o.to+1)
	}
	var parts []string
	for _, l := range links {
		switch l.kind {
		case missed:
			parts = append(parts, fmt.Sprintf("%s at %d does not see what %s writes to %s at %d",
				name(l.first), l.to+1, name(l.second), l.object, l.from+1))
		case over:
			parts = append(parts, fmt.Sprintf("%s writes %s at %d on top of what %s wrote at %d",
				name(l.second), l.object, l.to+1, name(l.first), l.from+1))
		case seen:
			parts = append(parts, fmt.Sprintf("%s at %d sees what %s wrote to %s at %d",
				name(l.second), l.to+1, name(l.first), l.object, l.from+1))
		case waitsFor:
			parts = append(parts, fmt.Sprintf("%s waits at %d for %s, which %s locked at %d",
				name(l.first), l.from+1, l.object, name(l.second), l.to+1))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, "; ") + "."
}
