package witness

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// Guard is what keeps a write from racing, as far as it can be named.
type Guard struct {
	Text string // "SELECT ... FOR UPDATE", "single writer - n/a", ...
	// Conflict is what happens to the one who comes second: waits, is refused,
	// nothing.
	Conflict string
	Pos      effect.Pos
}

// GuardOf names the guard of a write of entry i. A write for which the search
// found nothing and no guard can be named is one whose order does not matter.
func (p *Problem) GuardOf(i int, s *effect.Step) Guard {
	if m := p.Meet(i, i); !m.OK && p.alone(i, s) {
		return Guard{Text: m.Why, Conflict: "none", Pos: p.Entries[i].Pos}
	}
	g := &guards{p: p, write: s, tx: map[string]*effect.Step{}}
	g.walk(p.Entries[i].Body)
	return g.choose()
}

// alone says that no other entry which may run beside entry i touches what the
// write is on.
func (p *Problem) alone(i int, s *effect.Step) bool {
	if s.On == nil {
		return true
	}
	name := string(s.On.Kind) + ":" + s.On.Name
	for j := range p.Entries {
		if _, ok := p.prints[j].touch[name]; ok && j != i && p.Meet(i, j).OK {
			return false
		}
	}
	return true
}

// guards collects what stands before a write, in source order.
type guards struct {
	p     *Problem
	write *effect.Step
	tx    map[string]*effect.Step // open transactions
	held  []*effect.Step          // locks
	row   *effect.Step            // a locking read of the same resource, in its transaction
	read  *effect.Step            // a plain read of it
	done  bool
}

func (g *guards) walk(b effect.Block) {
	b.Walk(func(s *effect.Step) bool {
		if s == g.write {
			g.done = true
			return false
		}
		switch s.Op {
		case effect.Begin:
			g.tx[s.Bind] = s
		case effect.Lock:
			if s.Void == "" {
				g.held = append(g.held, s)
			}
		case effect.Unlock:
			g.held = slices.DeleteFunc(g.held, func(l *effect.Step) bool { return s.On.String() == l.On.String() })
		case effect.Read, effect.Check:
			if s.On == nil || g.write.On == nil || s.On.Name != g.write.On.Name || s.On.Kind != g.write.On.Kind {
				break
			}
			if s.Lock != "" && s.Void == "" && s.Tx != "" {
				g.row = s
			}
			g.read = s
		}
		return true
	})
}

func (g *guards) choose() Guard {
	s := g.write
	for _, c := range s.Where {
		if c.Col == "version" {
			return Guard{"conditional write on the version", "refused", s.Pos}
		}
	}
	if len(s.Where) > 0 {
		return Guard{"guarded WHERE", "changes no row", s.Pos}
	}
	if t := g.tx[s.Tx]; t != nil && (t.Iso == "serializable" || t.Iso == "optimistic") {
		return Guard{t.Iso + " transaction", "refused at commit", t.Pos}
	}
	if g.row != nil {
		return Guard{"row lock of the read (FOR UPDATE)", "waits", g.row.Pos}
	}
	if n := len(g.held); n > 0 {
		l := g.held[n-1]
		return Guard{fmt.Sprintf("%s %s", l.On.Kind, l.On.Name), "waits", l.Pos}
	}
	return g.byMode()
}

func (g *guards) byMode() Guard {
	s := g.write
	switch s.Mode {
	case effect.Upsert, effect.Ignore:
		return Guard{"ON CONFLICT", "updates or skips", s.Pos}
	case effect.Create:
		return Guard{"create only if absent", "refused", s.Pos}
	case effect.Append:
		return Guard{"append by the store", "both are kept", s.Pos}
	case effect.Insert:
		if t := g.p.Schema.Tables[s.On.Name]; t != nil && len(t.Unique) > 0 {
			return Guard{"unique index " + t.Unique[0].Name, "refused", t.Unique[0].Pos}
		}
		return Guard{"inserts its own row", "none", s.Pos}
	case effect.Delete:
		return Guard{"deleting twice is deleting once", "none", s.Pos}
	}
	for _, a := range s.Set {
		if a.Val.Uses("col") {
			return Guard{"atomic expression", "waits for the row", s.Pos}
		}
	}
	if g.read == nil {
		return Guard{"writes what it was given, not what it read: the last one wins", "the last wins", s.Pos}
	}
	return Guard{"no serial order is broken by any schedule that was tried", "the last wins", s.Pos}
}
