package explore

// wakeup is a node of a wakeup tree: the planned first steps of runs that are
// still to be made from one state. The root's event is unused.
type wakeup struct {
	event    Event
	children []*wakeup
}

// weakInitial reports whether a run that begins with q's event can be
// continued to one that is equivalent to a run beginning with w: q's step is
// in w with nothing before it that it depends on, or it is not in w and
// independent of all of it. at is q's place in w, or -1.
func weakInitial(q Event, w []Event) (ok bool, at int) {
	for i, e := range w {
		if e.Actor == q.Actor {
			return true, i
		}
		if e.Dependent(q) {
			return false, -1
		}
	}
	return true, -1
}

// insert plans the sequence w unless a planned one already covers it: it
// follows the branches that are weak initials of what remains of w, and adds
// the rest where no branch fits. Reaching a leaf means that w is covered by
// whatever will be run from there.
func (t *wakeup) insert(w []Event) {
	node := t
descend:
	for len(w) > 0 {
		for _, c := range node.children {
			ok, at := weakInitial(c.event, w)
			if !ok {
				continue
			}
			if len(c.children) == 0 {
				return
			}
			if at >= 0 {
				w = append(append([]Event(nil), w[:at]...), w[at+1:]...)
			}
			node = c
			continue descend
		}
		for _, e := range w {
			c := &wakeup{event: e}
			node.children = append(node.children, c)
			node = c
		}
		return
	}
}
