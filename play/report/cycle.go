package report

import (
	"github.com/holdfast-dev/holdfast/play/explore"
)

// staleWrite finds the shape of a lost update and of a duplicate effect: one
// actor reads, another changes what was read, the first writes all the same.
// Of several it takes the closest together. It returns the link from the
// change to the read that missed it, and from the change to the later write.
func (t *timeline) staleWrite() []link {
	var best []link
	for _, m := range t.missedReads() {
		for _, e := range t.effects {
			if e.at != m.from || e.actor != m.second {
				continue
			}
			for _, f := range t.effects {
				if f.actor != m.first || f.at < m.to || f.visible <= e.visible || !f.access.Overlaps(e.access) {
					continue
				}
				cost := m.cost + f.at - m.to
				if best == nil || cost < best[0].cost {
					m.cost = cost
					best = []link{m, {kind: over, from: e.at, to: f.at, object: object(f.access), first: e.actor, second: f.actor}}
				}
			}
		}
	}
	return best
}

// cycle finds the shortest, then closest chain of dependencies that leads from
// an actor back to itself and so fits into no serial order. One of its links
// at least is a read that missed a write.
func (t *timeline) cycle() []link {
	byPair := map[[2]int]link{}
	actors := 0
	for _, l := range append(append(t.missedReads(), t.seenReads()...), t.overwrites()...) {
		pair := [2]int{l.first, l.second}
		if old, ok := byPair[pair]; !ok || l.cost < old.cost {
			byPair[pair] = l
		}
		actors = max(actors, l.first+1, l.second+1)
	}
	var best []link
	for a := range actors {
		for b := range actors {
			best = cheaper(best, chain(byPair, a, b))
			for c := range actors {
				best = cheaper(best, chain(byPair, a, b, c))
			}
		}
	}
	return best
}

// chain is the links from each actor to the next and from the last to the
// first; nil where one is missing or none is a missed write.
func chain(byPair map[[2]int]link, actors ...int) []link {
	links := make([]link, 0, len(actors))
	stale := false
	for i, a := range actors {
		l, ok := byPair[[2]int{a, actors[(i+1)%len(actors)]}]
		if !ok {
			return nil
		}
		stale = stale || l.kind == missed
		links = append(links, l)
	}
	if !stale {
		return nil
	}
	return links
}

func cheaper(a, b []link) []link {
	cost := func(links []link) int {
		n := 1000 * len(links)
		for _, l := range links {
			n += l.cost
		}
		return n
	}
	if a == nil || b != nil && cost(b) < cost(a) {
		return b
	}
	return a
}

// reads calls fn for each plain read. extra is the cost of a read that is part
// of a writing statement: such a statement reads again after it has its lock,
// so a pure read explains a race better.
func (t *timeline) reads(fn func(row int, a explore.Access, extra int)) {
	for i := range t.rows {
		extra := 0
		for _, a := range t.touch[i] {
			if a.Mode != explore.Read {
				extra = 100
			}
		}
		for _, a := range t.touch[i] {
			if a.Mode == explore.Read {
				fn(i, a, extra)
			}
		}
	}
}

// missedReads are all pairs of a read and a write of another actor that became
// visible after it.
func (t *timeline) missedReads() []link {
	var links []link
	t.reads(func(i int, a explore.Access, extra int) {
		for _, e := range t.effects {
			if e.actor != t.rows[i].Actor && e.visible > i && e.access.Overlaps(a) {
				links = append(links, link{kind: missed, from: e.at, to: i, object: object(e.access),
					first: t.rows[i].Actor, second: e.actor, cost: extra + abs(e.at-i)})
			}
		}
	})
	return links
}

// seenReads are all pairs of a visible write and a later read of another actor.
func (t *timeline) seenReads() []link {
	var links []link
	t.reads(func(i int, a explore.Access, extra int) {
		for _, e := range t.effects {
			if e.actor != t.rows[i].Actor && e.visible < i && e.access.Overlaps(a) {
				links = append(links, link{kind: seen, from: e.at, to: i, object: object(e.access),
					first: e.actor, second: t.rows[i].Actor, cost: 10 + extra + i - e.at})
			}
		}
	})
	return links
}

// overwrites are all pairs of writes of two actors to one object.
func (t *timeline) overwrites() []link {
	var links []link
	for _, e := range t.effects {
		for _, f := range t.effects {
			if e.actor != f.actor && e.visible < f.visible && e.access.Overlaps(f.access) {
				links = append(links, link{kind: over, from: e.at, to: f.at, object: object(f.access),
					first: e.actor, second: f.actor, cost: 20 + f.at - e.at})
			}
		}
	}
	return links
}

func abs(n int) int { return max(n, -n) }
