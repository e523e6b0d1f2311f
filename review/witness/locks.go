package witness

import "github.com/holdfast-dev/holdfast/review/effect"

// lock takes a lock that is not a row's. An actor that holds it already gets it
// again: two values of one type have one name here, and a deadlock with oneself
// may not be one.
func (a *actor) lock(s *effect.Step) verdict {
	name := a.lockName(s.On)
	st := a.run.st
	l := st.locks[name]
	if l == nil {
		l = &lock{holders: map[*actor]holding{}}
		st.locks[name] = l
	}
	for holder, h := range l.holders {
		if holder == a || h.shared && s.Shared {
			continue
		}
		if s.Stale != "" && a.run.fault != nil && a.run.fault.kind == expire && !a.run.expired {
			a.run.expired = true
			holder.lost[name] = s
			delete(l.holders, holder)
			a.run.note(a, s, "finds the lock of %s too old, and takes it", holder.name)
			continue
		}
		if s.Try {
			a.run.note(a, s, "not got")
			a.bind(s.Bind, &record{fields: map[string]term{"ok": falseTerm, "err": nilTerm, "found": falseTerm}})
			a.pc++
			return moved
		}
		return waits
	}
	l.tokens++
	l.holders[a] = holding{shared: s.Shared, token: l.tokens, step: s}
	delete(a.lost, name)
	a.bind(s.Bind, &record{fields: map[string]term{"ok": trueTerm, "err": nilTerm, "token": number(int64(l.tokens)), "found": trueTerm}})
	a.run.note(a, s, "got")
	a.pc++
	return moved
}

// unlock gives a lock back. Without an owner token it frees whatever is there,
// also the lock of another who took it after this one was lost.
func (a *actor) unlock(s *effect.Step) {
	name := a.lockName(s.On)
	l := a.run.st.locks[name]
	if l == nil {
		return
	}
	if _, ok := l.holders[a]; ok {
		delete(l.holders, a)
		a.run.note(a, s, "released")
		return
	}
	if a.parent != nil { // a thread that releases what its parent took
		delete(l.holders, a.parent)
	}
	if a.lost[name] != nil && s.Owner == nil {
		clear(l.holders)
		delete(a.lost, name)
		a.run.note(a, s, "releases the lock of the other")
	}
}
