package effect

import (
	"fmt"
	"slices"
	"strings"
)

// LinkOptions bound the linking of calls.
type LinkOptions struct {
	MaxDepth int // of nested calls; 0 is 12
	MaxSteps int // of one entry after linking; 0 is 4000
}

// Link replaces each Call in the entries by a Scope with the body of the
// function, in which variables are renamed so that two calls do not mix. A call
// of a function that is not in p.Funcs, a recursive call, and one beyond the
// bounds is left out; what it would bind stays unbound, and an unbound variable
// is an unknown value. Link works on a copy of the entries.
func Link(p *Program, o LinkOptions) []Entry {
	if o.MaxDepth == 0 {
		o.MaxDepth = 12
	}
	if o.MaxSteps == 0 {
		o.MaxSteps = 4000
	}
	out := make([]Entry, len(p.Entries))
	for i, e := range p.Entries {
		l := &linker{funcs: p.Funcs, opts: o}
		e.Body = l.block(e.Body, nil)
		out[i] = e
	}
	return out
}

type linker struct {
	funcs map[string]*Func
	opts  LinkOptions
	steps int
	calls int
}

// frame is one call that is being linked.
type frame struct {
	up     *frame
	fn     *Func
	pos    Pos
	prefix string           // of local variables
	args   map[string]Value // parameter -> argument, in the caller's names
}

func (f *frame) depth() int {
	n := 0
	for ; f != nil; f = f.up {
		n++
	}
	return n
}

func (f *frame) running(id string) bool {
	for ; f != nil; f = f.up {
		if f.fn.ID == id {
			return true
		}
	}
	return false
}

func (f *frame) via() []Pos {
	var out []Pos
	for ; f != nil; f = f.up {
		out = append(out, f.pos)
	}
	slices.Reverse(out)
	return out
}

func (l *linker) block(b Block, f *frame) Block {
	out := make(Block, 0, len(b))
	for i := range b {
		if l.steps++; l.steps > l.opts.MaxSteps {
			break
		}
		s := f.step(b[i])
		if s.Op == Call {
			if linked, ok := l.call(s, f); ok {
				out = append(out, linked)
			}
			continue
		}
		s.Body, s.Else = l.block(s.Body, f), l.block(s.Else, f)
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// call links one call whose arguments are in the caller's names already.
func (l *linker) call(s Step, f *frame) (Step, bool) {
	fn := l.funcs[s.Func]
	if fn == nil || f.running(fn.ID) || f.depth() >= l.opts.MaxDepth {
		return s, false
	}
	l.calls++
	in := &frame{up: f, fn: fn, pos: s.Pos, prefix: fmt.Sprintf("$%d", l.calls), args: map[string]Value{}}
	for i, p := range fn.Params {
		if i < len(s.Args) {
			in.args[p] = s.Args[i]
		} else {
			in.args[p] = Unknown()
		}
	}
	body := l.block(fn.Body, in)
	if len(body) == 0 {
		return s, false
	}
	return Step{Op: Scope, Pos: s.Pos, Bind: s.Bind, OnErr: s.OnErr, Body: body, Note: fn.ID}, true
}

// step renames a step of the frame's function into the names of the entry.
func (f *frame) step(s Step) Step {
	if f == nil {
		return s
	}
	s.Via = f.via()
	s.Bind, s.Name, s.Tx = f.variable(s.Bind), f.variable(s.Name), f.tx(s.Tx)
	s.On, s.To = f.resource(s.On), f.resource(s.To)
	s.Set = f.assigns(s.Set)
	s.Where = slices.Clone(s.Where)
	for i := range s.Where {
		s.Where[i].Val = f.value(s.Where[i].Val)
	}
	s.Args = slices.Clone(s.Args)
	for i := range s.Args {
		s.Args[i] = f.value(s.Args[i])
	}
	s.Val, s.Fence, s.Owner, s.Idem = f.pointer(s.Val), f.pointer(s.Fence), f.pointer(s.Owner), f.pointer(s.Idem)
	return s
}

// variable renames what a step binds or assigns. Assigning to a field of a
// parameter changes the caller's copy: pointers are the rule there.
func (f *frame) variable(name string) string {
	if name == "" {
		return ""
	}
	root, rest, dotted := strings.Cut(name, ".")
	if a, ok := f.args[root]; ok && dotted && a.Kind == PathValue {
		return a.Name + "." + rest
	}
	return f.prefix + name
}

// tx renames a transaction variable: a parameter stands for what was passed,
// and nil (or anything that is no variable) for the outer handle.
func (f *frame) tx(name string) string {
	if name == "" || name == "?" {
		return name
	}
	a, ok := f.args[name]
	switch {
	case !ok:
		return f.prefix + name
	case a.Kind == PathValue && a.Root() != "in":
		return a.Name
	case a.Kind == UnknownValue:
		return "?"
	}
	return ""
}

func (f *frame) pointer(v *Value) *Value {
	if v == nil {
		return nil
	}
	out := f.value(*v)
	return &out
}

func (f *frame) assigns(as []Assign) []Assign {
	as = slices.Clone(as)
	for i := range as {
		as[i].Val = f.value(as[i].Val)
	}
	return as
}

func (f *frame) resource(r *Resource) *Resource {
	if r == nil {
		return nil
	}
	out := *r
	out.Key = f.assigns(r.Key)
	return &out
}

func (f *frame) value(v Value) Value {
	switch v.Kind {
	case PathValue:
		root, rest, dotted := strings.Cut(v.Name, ".")
		if root == "col" || root == "in" {
			return v
		}
		a, ok := f.args[root]
		switch {
		case !ok:
			return Value{Kind: PathValue, Name: f.prefix + v.Name}
		case !dotted:
			return a
		case a.Kind == PathValue:
			return Value{Kind: PathValue, Name: a.Name + "." + rest}
		case a.Kind == UnknownValue:
			return a
		}
		return Apply("field", a, Str(rest))
	case ApplyValue:
		out := Value{Kind: ApplyValue, Name: v.Name, Args: make([]Value, len(v.Args))}
		for i, a := range v.Args {
			out.Args[i] = f.value(a)
		}
		return out
	}
	return v
}
