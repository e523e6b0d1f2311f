package witness

import (
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// slice leaves of an entry what matters for the effects that are wanted: these,
// the conditions that contain them or depend on what they gave, and the
// assignments that feed either. A branch that only validates input goes: it
// would leave the function in the interleaving exactly when it does in the
// serial orders. A variable that loses its binding is an input from then on.
//
// The main of a command reaches thousands of steps; two of them meet on three
// files. Without slicing the search spends its budget on walking there.
func slice(e *effect.Entry, wanted func(*effect.Step) bool) *effect.Entry {
	s := &slicer{wanted: wanted, given: map[string]bool{}, needed: map[string]bool{}, holds: map[*effect.Step]bool{}}
	s.mark(e.Body)
	for n := -1; n != len(s.given); {
		n = len(s.given)
		s.forward(e.Body, "")
	}
	for n := -1; n != len(s.needed); {
		n = len(s.needed)
		s.backward(e.Body, "")
	}
	out := *e
	out.Body = s.build(e.Body)
	return &out
}

type slicer struct {
	wanted func(*effect.Step) bool
	holds  map[*effect.Step]bool // steps that are wanted or contain one that is
	given  map[string]bool       // variables that derive from wanted steps
	needed map[string]bool       // variables that what is kept uses
}

// mark finds the steps that hold wanted ones.
func (s *slicer) mark(b effect.Block) bool {
	any := false
	for i := range b {
		st := &b[i]
		inside := s.mark(st.Body)
		inside = s.mark(st.Else) || inside
		if inside || st.IsEffect() && st.Op != effect.Spawn && s.wanted(st) {
			s.holds[st] = true
			any = true
		}
	}
	return any
}

func root(name string) string {
	r, _, _ := strings.Cut(name, ".")
	return r
}

func uses(v *effect.Value, vars map[string]bool) bool {
	hit := false
	if v != nil {
		v.Paths(func(p string) { hit = hit || vars[root(p)] })
	}
	return hit
}

// forward spreads what wanted steps give; scope is the variable that receives
// the returns.
func (s *slicer) forward(b effect.Block, scope string) {
	for i := range b {
		st := &b[i]
		switch {
		case st.Op == effect.Let:
			if uses(st.Val, s.given) {
				s.given[root(st.Name)] = true
			}
		case st.Op == effect.Return:
			for j := range st.Args {
				if scope != "" && uses(&st.Args[j], s.given) {
					s.given[root(scope)] = true
				}
			}
		case s.holds[st] && st.Bind != "":
			s.given[root(st.Bind)] = true
		}
		inner := scope
		if st.Op == effect.Scope {
			inner = st.Bind
		}
		s.forward(st.Body, inner)
		s.forward(st.Else, scope)
	}
}

// kept says whether a piece of control flow stays.
func (s *slicer) kept(st *effect.Step) bool {
	return s.holds[st] || (st.Op == effect.If || st.Op == effect.Loop) && uses(st.Val, s.given) && (leavesSomewhere(st.Body) || leavesSomewhere(st.Else))
}

// leavesSomewhere says whether a block changes where the program goes on.
func leavesSomewhere(b effect.Block) bool {
	return !b.Walk(func(st *effect.Step) bool {
		return st.Op != effect.Return && st.Op != effect.Break && st.Op != effect.Continue
	})
}

// backward collects the variables that what is kept needs.
func (s *slicer) backward(b effect.Block, scope string) {
	need := func(v *effect.Value) {
		if v != nil {
			v.Paths(func(p string) { s.needed[root(p)] = true })
		}
	}
	for i := range b {
		st := &b[i]
		switch {
		case st.Op == effect.Let:
			if s.needed[root(st.Name)] {
				need(st.Val)
			}
		case st.Op == effect.Return:
			for j := range st.Args {
				if s.needed[root(scope)] {
					need(&st.Args[j])
				}
			}
		case st.IsEffect():
			if s.holds[st] {
				s.effectNeeds(st, need)
			}
		case s.kept(st):
			need(st.Val)
		}
		inner := scope
		if st.Op == effect.Scope {
			inner = st.Bind
		}
		s.backward(st.Body, inner)
		s.backward(st.Else, scope)
	}
}

func (s *slicer) effectNeeds(st *effect.Step, need func(*effect.Value)) {
	for _, r := range []*effect.Resource{st.On, st.To} {
		if r == nil {
			continue
		}
		for i := range r.Key {
			need(&r.Key[i].Val)
		}
	}
	for i := range st.Set {
		need(&st.Set[i].Val)
	}
	for i := range st.Where {
		need(&st.Where[i].Val)
	}
	for i := range st.Args {
		need(&st.Args[i])
	}
	for _, v := range []*effect.Value{st.Fence, st.Owner, st.Idem, st.Val} {
		need(v)
	}
	if st.Tx != "" {
		s.needed[root(st.Tx)] = true
	}
}

// build makes the slice. Steps are copied, because their blocks change; the
// search tells steps apart by place, not by identity.
func (s *slicer) build(b effect.Block) effect.Block {
	var out effect.Block
	for i := range b {
		st := b[i]
		switch {
		case st.Op == effect.Let:
			if !s.needed[root(st.Name)] {
				continue
			}
		case st.Op == effect.Return || st.Op == effect.Break || st.Op == effect.Continue:
		case st.Op == effect.Scope:
			if !s.holds[&b[i]] && !s.needed[root(st.Bind)] {
				continue
			}
			st.Body = s.build(st.Body)
		case st.IsEffect():
			if !s.holds[&b[i]] {
				continue
			}
			st.Body = s.build(st.Body)
		case !s.kept(&b[i]):
			continue
		default:
			st.Body, st.Else = s.build(st.Body), s.build(st.Else)
		}
		out = append(out, st)
	}
	return out
}
