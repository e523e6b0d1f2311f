package golang

import (
	"go/ast"
	"go/types"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/golang/knowledge"
)

// handleOf says what a type is to a database.
func handleOf(t types.Type) string { return knowledge.Handle(typeName(t)) }

func errorClass(name string) string {
	if c := knowledge.ErrorClass(name); c != "" {
		return c
	}
	last := strings.ToLower(name[lastDot(name)+1:])
	switch {
	case strings.Contains(last, "notfound") || strings.Contains(last, "notexist") || strings.Contains(last, "norows"):
		return "notfound"
	case strings.Contains(last, "conflict") || strings.Contains(last, "precondition"):
		return "conflict"
	case strings.Contains(last, "exist") || strings.Contains(last, "duplicate"):
		return "exists"
	}
	return last
}

// apiCall is a call of a function that may be known.
type apiCall struct {
	on   *val // the handle that a statement runs on
	e    *ev
	id   string // with version suffixes taken out
	f    *types.Func
	recv *val
	args []*val
	at   *ast.CallExpr
}

// hook gives the effects of a call that is known. own says that the function is
// part of the analysed packages, whose bodies are followed instead.
func (e *ev) hook(id string, f *types.Func, recv *val, args []*val, at *ast.CallExpr, own bool) (*val, bool) {
	c := &apiCall{e: e, id: strings.Replace(knowledge.Plain(id), "github.com/go-redis/redis.", "github.com/redis/go-redis.", 1), f: f, recv: recv, args: args, at: at}
	if own {
		if r, ok := c.ent(); ok {
			return r, true
		}
		if k := knowledge.Lookup(c.id, c.has); k != nil {
			return c.instantiate(k), true
		}
		return nil, false
	}
	for _, try := range []func() (*val, bool){c.ent, c.std, c.sync, c.files, c.request, c.gorm, c.xorm, c.bun, c.sqlCall, c.kube, c.kv, c.send} {
		if r, ok := try(); ok {
			return r, true
		}
	}
	if k := knowledge.Lookup(c.id, c.has); k != nil {
		return c.instantiate(k), true
	}
	return nil, false
}

// has says whether the call sets a field in one of its struct arguments.
func (c *apiCall) has(field string) bool {
	for _, a := range c.args {
		a = c.e.deref(a)
		if a != nil && a.kind == structVal && a.fields[field] != nil && !isNil(a.fields[field].v) {
			return true
		}
	}
	return false
}

// deref is what a pointer to a local variable points to.
func (e *ev) deref(a *val) *val {
	if a != nil && a.kind == pointerVal {
		if c := e.env[a.cell]; c != nil {
			return c
		}
	}
	return a
}

func (c *apiCall) method() string { return c.f.Name() }

func (c *apiCall) pos() effect.Pos { return c.e.pos(c.at) }

func (c *apiCall) arg(i int) effect.Value {
	if i < len(c.args) && c.args[i] != nil {
		return c.e.deref(c.args[i]).v
	}
	return effect.Unknown()
}

// bind makes the name that a call's result goes by: that of the variable it is
// assigned to where there is one.
func (c *apiCall) bind(fallback string) string {
	if n := c.e.b.wants[c.at]; n != "" {
		return c.e.fresh(n)
	}
	return c.e.fresh(fallback)
}

// result gives v for the first result and the error of bind for a last one.
func (c *apiCall) result(bind string, vs ...*val) *val {
	res := c.f.Signature().Results()
	out := make([]*val, res.Len())
	for i := range out {
		switch {
		case i == len(out)-1 && isErrorType(res.At(i).Type()) && bind == "":
			out[i] = unknown()
		case i == len(out)-1 && isErrorType(res.At(i).Type()):
			out[i] = plainVal(effect.Var(bind, "err"))
		case i < len(vs):
			out[i] = vs[i]
		default:
			out[i] = unknown()
		}
	}
	if len(out) == 0 {
		return unknown()
	}
	return tuple(out)
}

// instantiate puts the effects of a known function in.
func (c *apiCall) instantiate(k *effect.Func) *val {
	args := c.args
	if c.f.Signature().Recv() != nil {
		args = append([]*val{c.recv}, args...)
	}
	in := &instance{c: c, args: map[string]*val{}, binds: map[string]string{}}
	for i, p := range k.Params {
		if i < len(args) && args[i] != nil {
			in.args[p] = c.e.deref(args[i])
		} else {
			in.args[p] = unknown()
		}
	}
	n := 0
	for _, s := range k.Body {
		if s.IsEffect() {
			n++
		}
	}
	outer := ""
	if n > 0 {
		outer = c.bind(strings.ToLower(c.method()))
	}
	block := c.e.branch(func() {
		for _, s := range k.Body {
			if s.IsEffect() {
				c.e.emit(in.step(s, n, outer))
			}
		}
	})
	if n > 1 {
		c.e.emit(effect.Step{Op: effect.Scope, Pos: c.pos(), Bind: outer, OnErr: effect.OnBind, Body: block, Note: shortName(k.ID)})
	} else {
		*c.e.out = append(*c.e.out, block...)
	}
	var vs []*val
	for _, s := range k.Body {
		if s.Op == effect.Return {
			for _, a := range s.Args {
				v, _ := in.value(a)
				vs = append(vs, plainVal(v))
			}
		}
	}
	res := c.f.Signature().Results()
	if res.Len() == 1 && !isErrorType(res.At(0).Type()) && (len(vs) == 0 || !isBasicNamed(res.At(0).Type())) && typeName(res.At(0).Type()) != "" {
		// a command object that is asked for its value and error
		q := &query{bind: outer, done: true}
		v := &val{kind: queryVal, query: q, v: effect.Var(outer)}
		if len(vs) > 0 {
			v.v = vs[0].v
		}
		return v
	}
	return c.result(outer, vs...)
}

// instance is one use of a known function.
type instance struct {
	c     *apiCall
	args  map[string]*val
	binds map[string]string
}

func (in *instance) step(s effect.Step, n int, outer string) effect.Step {
	s.Pos = in.c.pos()
	if s.Bind != "" {
		name := outer
		if n > 1 {
			name = in.c.e.fresh(s.Bind)
		}
		in.binds[s.Bind] = name
		s.Bind = name
	}
	if n == 1 {
		s.Bind, s.OnErr = outer, effect.OnBind
	}
	s.On, s.To = in.resource(s.On), in.resource(s.To)
	if s.On != nil && s.On.Kind == effect.RemoteKind && s.On.Name == "http" && in.args["url"] != nil {
		s.On.Name = hostOf(in.args["url"].v)
	}
	var set []effect.Assign
	for _, a := range s.Set {
		if v, ok := in.value(a.Val); ok {
			set = append(set, effect.Assign{Col: a.Col, Val: v})
		}
	}
	s.Set = set
	var where []effect.Cond
	for _, a := range s.Where {
		if v, ok := in.value(a.Val); ok {
			where = append(where, effect.Cond{Col: a.Col, Op: a.Op, Val: v})
		}
	}
	s.Where = where
	if s.Owner != nil {
		if v, ok := in.value(*s.Owner); ok {
			s.Owner = &v
		}
	}
	return s
}

func (in *instance) resource(r *effect.Resource) *effect.Resource {
	if r == nil {
		return nil
	}
	out := *r
	out.Key = nil
	for _, a := range r.Key {
		if v, ok := in.value(a.Val); ok {
			out.Key = append(out.Key, effect.Assign{Col: a.Col, Val: v})
		}
	}
	return &out
}

// value puts the arguments in; ok is false when the call leaves the field out.
func (in *instance) value(v effect.Value) (effect.Value, bool) {
	switch v.Kind {
	case effect.PathValue:
		root, rest, dotted := strings.Cut(v.Name, ".")
		if b, ok := in.binds[root]; ok {
			if !dotted {
				return effect.Var(b), true
			}
			return effect.Var(b, rest), true
		}
		a, ok := in.args[root]
		if !ok {
			return v, true
		}
		if !dotted {
			return a.v, true
		}
		if a.kind == structVal {
			f := a.fields[rest]
			if f == nil {
				return effect.Unknown(), false
			}
			return in.c.e.deref(f).v, true
		}
		return path(a.v, snake(rest)), true
	case effect.ApplyValue:
		out := effect.Value{Kind: v.Kind, Name: v.Name}
		for _, a := range v.Args {
			x, ok := in.value(a)
			if !ok {
				return effect.Unknown(), false
			}
			out.Args = append(out.Args, x)
		}
		return out, true
	}
	return v, true
}
