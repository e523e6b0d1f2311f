package golang

import (
	"go/ast"
	"go/types"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// update is x op= y.
func (e *ev) update(x ast.Expr, op string, y effect.Value, at ast.Node) {
	target := e.expr(x)
	if target.kind == stateVal {
		// one statement in the source, two accesses in the machine
		old := e.load(target, x)
		e.writeState(target, effect.Apply(op, old.v, y), at)
		return
	}
	v := effect.Apply(op, target.v, y)
	if op == "+" && isString(e.fr.info.TypeOf(x)) {
		v = concat(target.v, y)
	}
	e.store(x, plainVal(v), at)
}

func isString(t types.Type) bool {
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsString != 0
}

// store assigns to a place.
func (e *ev) store(l ast.Expr, a *val, at ast.Node) {
	switch l := ast.Unparen(l).(type) {
	case *ast.Ident:
		if l.Name == "_" {
			return
		}
		o := e.obj(l)
		if v, ok := o.(*types.Var); ok && v.Pkg() != nil && v.Parent() == v.Pkg().Scope() {
			if s := e.expr(l); s.kind == stateVal {
				e.writeState(s, a.v, at)
			}
			return
		}
		if a.kind == structVal && !a.special() && e.plainStruct(a.typ) {
			a = e.materialise(o, a)
		}
		e.set(o, a)
	case *ast.SelectorExpr:
		e.storeField(l, a, at)
	case *ast.IndexExpr:
		e.storeIndex(l, a, at)
	case *ast.StarExpr:
		p := e.expr(l.X)
		if p.kind == pointerVal {
			e.set(p.cell, a)
			return
		}
		if p.kind == stateVal {
			e.writeState(p, a.v, at)
		}
	}
}

// plainStruct says whether a struct is the program's own data. What belongs to a
// library (its inputs and builders) is kept as it is, for the calls that take it.
func (e *ev) plainStruct(t types.Type) bool {
	if t == nil {
		return false
	}
	n := typeName(t)
	return n == "" || e.w.owns(n)
}

// materialise turns a composite literal that gets a name into a variable of the
// program, so that its fields can be told apart after branches.
func (e *ev) materialise(o types.Object, a *val) *val {
	if len(a.fields) == 0 {
		return a
	}
	name := e.fresh(o.Name())
	for _, f := range sortedKeys(a.fields) {
		v := a.fields[f].v
		e.emit(effect.Step{Op: effect.Let, Name: name + "." + e.fieldColumn(a.typ, f), Val: &v})
	}
	return &val{kind: plain, v: effect.Var(name), typ: a.typ}
}

func (e *ev) storeField(l *ast.SelectorExpr, a *val, at ast.Node) {
	sel := e.fr.info.Selections[l]
	if sel == nil { // a package's variable
		if s := e.expr(l); s.kind == stateVal {
			e.writeState(s, a.v, at)
		}
		return
	}
	base := e.expr(l.X)
	if base.kind == pointerVal {
		if c := e.env[base.cell]; c != nil {
			base = c
		}
	}
	switch base.kind {
	case sharedVal, stateVal:
		s := e.field(base, sel, l)
		if s.kind == stateVal {
			e.writeState(s, a.v, at)
		}
		return
	case structVal:
		base.fields[l.Sel.Name] = a
		if a.special() || !e.plainStruct(base.typ) {
			return
		}
	}
	id, ok := ast.Unparen(l.X).(*ast.Ident)
	if u, isStar := ast.Unparen(l.X).(*ast.StarExpr); isStar {
		id, ok = ast.Unparen(u.X).(*ast.Ident)
	}
	if !ok && base.kind == plain && base.v.Kind == effect.PathValue && base.v.Root() != "in" {
		e.save(base.v.Name + "." + e.columnOf(sel))
		v := a.v
		e.emit(effect.Step{Op: effect.Let, Pos: e.pos(at), Name: base.v.Name + "." + e.columnOf(sel), Val: &v})
		return
	}
	if !ok || base.special() && base.kind != structVal {
		return
	}
	o := e.obj(id)
	if o == nil || base.kind == structVal && base.special() {
		return
	}
	col := e.columnOf(sel)
	if base.kind == structVal {
		// an empty struct that is filled field by field
		name := e.fresh(o.Name())
		for _, f := range sortedKeys(base.fields) {
			v := base.fields[f].v
			e.emit(effect.Step{Op: effect.Let, Name: name + "." + e.fieldColumn(base.typ, f), Val: &v})
		}
		e.rebind(o, &val{kind: plain, v: effect.Var(name), typ: base.typ})
		return
	}
	if base.v.Kind != effect.PathValue || base.v.Root() == "in" || isResult(base.v) {
		name := e.fresh(o.Name())
		v := base.v
		if v.Kind != effect.UnknownValue && !isNil(v) {
			e.emit(effect.Step{Op: effect.Let, Name: name, Val: &v})
		}
		base = &val{kind: plain, v: effect.Var(name), typ: base.typ}
		e.rebind(o, base)
	}
	e.save(base.v.Name + "." + col)
	v := a.v
	e.emit(effect.Step{Op: effect.Let, Pos: e.pos(at), Name: base.v.Name + "." + col, Val: &v})
}

// isResult says whether a value is a numbered result of a call, r.0.
func isResult(v effect.Value) bool {
	n := v.Name
	return len(n) > 2 && n[len(n)-2] == '.' && n[len(n)-1] >= '0' && n[len(n)-1] <= '9'
}

// rebind gives a variable, or what it points to, another value.
func (e *ev) rebind(o types.Object, a *val) {
	if old := e.env[o]; old != nil && old.kind == pointerVal {
		e.env[old.cell] = a
		return
	}
	e.env[o] = a
}

func (e *ev) storeIndex(l *ast.IndexExpr, a *val, at ast.Node) {
	base := e.expr(l.X)
	key := e.load(e.expr(l.Index), l.Index)
	if base.kind == stateVal {
		s := *base
		s.key = append(append([]effect.Assign(nil), base.key...), effect.Assign{Col: "key", Val: key.v})
		e.writeState(&s, a.v, at)
		return
	}
	if base.v.Kind == effect.PathValue && base.v.Root() != "in" || base.v.Kind == effect.ApplyValue && !base.special() {
		v := effect.Apply("with", base.v, key.v, a.v)
		if id, ok := ast.Unparen(l.X).(*ast.Ident); ok {
			e.set(e.obj(id), plainVal(v))
			return
		}
		if base.v.Kind == effect.PathValue {
			e.save(base.v.Name)
			e.emit(effect.Step{Op: effect.Let, Pos: e.pos(at), Name: base.v.Name, Val: &v})
		}
	}
}
