package golang

import (
	"go/ast"
	"go/types"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// callee is the function that a call names statically; nil for calls of values.
func callee(info *types.Info, c *ast.CallExpr) *types.Func {
	fun := ast.Unparen(c.Fun)
	switch f := fun.(type) {
	case *ast.IndexExpr:
		fun = f.X
	case *ast.IndexListExpr:
		fun = f.X
	}
	switch f := ast.Unparen(fun).(type) {
	case *ast.Ident:
		o, _ := info.Uses[f].(*types.Func)
		return o
	case *ast.SelectorExpr:
		o, _ := info.Uses[f.Sel].(*types.Func)
		return o
	}
	return nil
}

func (e *ev) call(c *ast.CallExpr) *val {
	if tv, ok := e.fr.info.Types[c.Fun]; ok && tv.IsType() {
		if len(c.Args) == 1 { // a conversion
			a := e.load(e.expr(c.Args[0]), c.Args[0])
			if a.kind == plain && tv.Type != nil {
				n := *a
				n.typ = tv.Type
				return &n
			}
			if a.special() {
				return a
			}
		}
		return unknown()
	}
	if id, ok := ast.Unparen(c.Fun).(*ast.Ident); ok {
		if b, ok := e.obj(id).(*types.Builtin); ok {
			return e.builtin(b.Name(), c)
		}
	}
	var recv *val
	if sel, ok := ast.Unparen(c.Fun).(*ast.SelectorExpr); ok && e.fr.info.Selections[sel] != nil && callee(e.fr.info, c) != nil {
		recv = e.expr(sel.X)
	}
	var args []*val
	if len(c.Args) == 1 && callee(e.fr.info, c) != nil {
		if t, ok := e.fr.info.TypeOf(c.Args[0]).(*types.Tuple); ok { // f(g())
			args = e.multi(c.Args[0], t.Len())
			return e.callWith(c, recv, args)
		}
	}
	for _, a := range c.Args {
		v := e.expr(a)
		if v.kind == stateVal && !e.placeArg(c) {
			v = e.load(v, a)
		}
		args = append(args, v)
	}
	return e.callWith(c, recv, args)
}

// placeArg says whether the call takes the place, not the content: the
// functions of sync/atomic.
func (e *ev) placeArg(c *ast.CallExpr) bool {
	f := callee(e.fr.info, c)
	return f != nil && f.Pkg() != nil && f.Pkg().Path() == "sync/atomic"
}

// callWith calls with evaluated receiver and arguments.
func (e *ev) callWith(c *ast.CallExpr, recv *val, args []*val) *val {
	if f := callee(e.fr.info, c); f != nil {
		if recv != nil && recv.kind == stateVal {
			if r, ok := e.stateMethod(f.Name(), recv, args, c); ok {
				return r
			}
			recv = e.load(recv, c)
		}
		return e.callFunc(f, recv, args, c)
	}
	if lit, ok := ast.Unparen(c.Fun).(*ast.FuncLit); ok {
		return e.inlineLit(&val{kind: funcVal, lit: lit, info: e.fr.info}, e.argsFor(c, args), c)
	}
	f := e.load(e.expr(c.Fun), c.Fun)
	if args == nil {
		for _, a := range c.Args {
			args = append(args, e.load(e.expr(a), a))
		}
	}
	return e.callValue(f, args, c)
}

func (e *ev) argsFor(c *ast.CallExpr, args []*val) []*val {
	if args == nil {
		for _, a := range c.Args {
			args = append(args, e.load(e.expr(a), a))
		}
	}
	return args
}

// callValue calls a function value.
func (e *ev) callValue(f *val, args []*val, at *ast.CallExpr) *val {
	switch {
	case f.kind == funcVal && f.lit != nil:
		return e.inlineLit(f, args, at)
	case f.kind == funcVal && f.decl != nil:
		return e.callFunc(f.decl, f.recv, args, at)
	case f.kind == plain || f.kind == stateVal || f.kind == sharedVal:
		if r, ok := e.callVariants(args, at); ok {
			return r
		}
	}
	return unknown()
}

// callFunc calls a declared function or method.
func (e *ev) callFunc(f *types.Func, recv *val, args []*val, at *ast.CallExpr) *val {
	f = f.Origin()
	id := funcID(f)
	if d := e.w.funcs[id]; d != nil {
		if r, ok := e.hook(id, f, recv, args, at, true); ok {
			return r
		}
		return e.follow(d, recv, args, at)
	}
	if r, ok := e.hook(id, f, recv, args, at, false); ok {
		return r
	}
	if isInterfaceMethod(f) {
		if r, ok := e.dispatch(f, recv, args, at); ok {
			return r
		}
	}
	return e.opaque(id, f, recv, args)
}

func isInterfaceMethod(f *types.Func) bool {
	r := f.Signature().Recv()
	if r == nil {
		return false
	}
	return types.IsInterface(r.Type())
}

// dispatch follows a call through an interface when the analysed packages have
// one or two types that can be behind it.
func (e *ev) dispatch(f *types.Func, recv *val, args []*val, at *ast.CallExpr) (*val, bool) {
	impls := e.w.implementers(f)
	if recv != nil && recv.typ != nil && !types.IsInterface(recv.typ) {
		if n := typeName(recv.typ); n != "" {
			for _, d := range impls {
				if typeName(d.obj.Signature().Recv().Type()) == n {
					return e.follow(d, recv, args, at), true
				}
			}
		}
	}
	if len(impls) == 0 || len(impls) > 2 {
		return nil, false
	}
	out := e.oneOf(len(impls), at, func(i int) *val {
		r := recv
		if r == nil || r.kind == plain || r.kind == sharedVal {
			t := impls[i].obj.Signature().Recv().Type()
			r = &val{kind: sharedVal, name: shortName(typeName(t)), typ: t}
			if recv != nil {
				r.v = recv.v
			}
		}
		return e.follow(impls[i], r, args, at)
	})
	if len(impls) > 1 && out != nil && !out.special() {
		return e.opaque(funcID(f), f, recv, args), true
	}
	return out, true
}

// follow goes into a function of the analysed packages.
func (e *ev) follow(d *declared, recv *val, args []*val, at *ast.CallExpr) *val {
	if !e.worthwhile(d, recv, args) || e.fr.depth >= maxDepth || e.steps > maxSteps || e.running(d.decl, nil) || e.inCircle(d) {
		return e.opaque(d.id, d.obj, recv, args)
	}
	e.markAnswer(d.decl.Name.Name, args)
	if r, ok := e.summarised(d, recv, args, at); ok {
		return r
	}
	sig := d.obj.Signature()
	fr := &frame{up: e.fr, fn: d, info: d.info, sig: sig, depth: e.fr.depth + 1, http: isHandlerSig(sig)}
	return e.inline(fr, d.decl.Recv, d.decl.Type, d.decl.Body, recv, args, at)
}

// inCircle says whether a function of the same circle is being evaluated.
func (e *ev) inCircle(d *declared) bool {
	c := e.w.circle[d.id]
	if c == 0 {
		return false
	}
	for f := e.fr; f != nil; f = f.up {
		if f.fn != nil && e.w.circle[f.fn.id] == c {
			return true
		}
	}
	return false
}

// worthwhile says whether following a function can show anything.
func (e *ev) worthwhile(d *declared, recv *val, args []*val) bool {
	if e.w.effects[d.id] {
		return true
	}
	for _, a := range append([]*val{recv}, args...) {
		if a == nil {
			continue
		}
		switch a.kind {
		case funcVal:
			return true
		case requestVal, fileVal, writerVal, pointerVal, queryVal, handleVal:
			if e.w.softs[d.id] {
				return true
			}
		}
	}
	return false
}

func (e *ev) running(decl *ast.FuncDecl, lit *ast.FuncLit) bool {
	for f := e.fr; f != nil; f = f.up {
		if decl != nil && f.fn != nil && f.lit == nil && f.fn.decl == decl || lit != nil && f.lit == lit {
			return true
		}
	}
	return false
}

// opaque is a call that is not followed: its result derives from what went in.
func (e *ev) opaque(id string, f *types.Func, recv *val, args []*val) *val {
	res := f.Signature().Results()
	e.markAnswer(f.Name(), args)
	if res.Len() == 0 {
		return unknown()
	}
	var in []effect.Value
	if recv != nil && recv.v.Kind != effect.UnknownValue {
		in = append(in, recv.v)
	}
	for _, a := range args {
		if a == nil || a.kind == typeVal || a.v.Kind == effect.UnknownValue && a.kind != plain {
			continue
		}
		if a.typ != nil && implementsContext(a.typ) {
			continue
		}
		in = append(in, a.v)
	}
	v := effect.Apply(word(shortName(id)), in...)
	out := make([]*val, res.Len())
	for i := range out {
		t := res.At(i).Type()
		switch {
		case handleOf(t) != "":
			out[i] = &val{kind: handleVal, typ: t, v: effect.Lit("nil")}
		case i == res.Len()-1 && isErrorType(t):
			if strings.HasPrefix(id, "errors.New") || id == "fmt.Errorf" || i == 0 {
				out[i] = plainVal(effect.Apply("error", in...))
			} else {
				out[i] = plainVal(effect.Unknown())
			}
		case len(in) == 0:
			out[i] = &val{kind: plain, typ: t, v: effect.Unknown()}
		default:
			out[i] = &val{kind: plain, typ: t, v: v}
		}
		if recv != nil && recv.special() && types.Identical(t, f.Signature().Recv().Type()) {
			out[i] = recv // a builder returns itself
		}
	}
	return tuple(out)
}

func (e *ev) builtin(name string, c *ast.CallExpr) *val {
	var args []*val
	for _, a := range c.Args {
		if tv := e.fr.info.Types[a]; tv.IsType() {
			continue
		}
		v := e.expr(a)
		if name != "delete" && name != "clear" {
			v = e.load(v, a)
		}
		args = append(args, v)
	}
	switch name {
	case "append":
		if len(args) > 0 && isNil(args[0].v) {
			vs := args[1:]
			return &val{kind: plain, v: effect.Apply("list", values(vs)...), elems: vs}
		}
		return plainVal(effect.Apply("append", values(args)...))
	case "len", "cap", "min", "max":
		if len(args) == 1 && args[0].v.Kind == effect.UnknownValue {
			return unknown()
		}
		return plainVal(effect.Apply(name, values(args)...))
	case "delete":
		if len(args) == 2 && args[0].kind == stateVal {
			key := e.load(args[1], c).v
			e.emit(effect.Step{Op: effect.Write, Mode: effect.Delete, Pos: e.pos(c), OnErr: effect.OnDrop,
				On: &effect.Resource{Kind: effect.VarKind, Name: args[0].name, Key: append(append([]effect.Assign(nil), args[0].key...), effect.Assign{Col: "key", Val: key})}})
		} else if len(args) == 2 && args[0].v.Kind == effect.PathValue && args[0].v.Root() != "in" {
			e.let(args[0].v.Name, effect.Apply("without", args[0].v, args[1].v))
		}
	case "new":
		t := e.fr.info.TypeOf(c)
		if p, ok := t.(*types.Pointer); ok {
			return e.zero(p.Elem())
		}
	case "make":
		return plainVal(effect.Apply("list"))
	case "recover":
		return plainVal(effect.Lit("nil")) // no schedule here begins with a panic
	case "panic":
		e.emit(effect.Step{Op: effect.Return, Pos: e.pos(c), Fail: true})
		e.fr.returns = append(e.fr.returns, nil)
	}
	return unknown()
}
