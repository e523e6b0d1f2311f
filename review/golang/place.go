package golang

import (
	"go/ast"
	"go/types"
	"reflect"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// packageVar is a variable of a package.
func (e *ev) packageVar(o *types.Var) *val {
	name := shortName(o.Pkg().Path()) + "." + o.Name()
	if isErrorType(o.Type()) {
		return &val{kind: errorVal, name: o.Pkg().Path() + "." + o.Name(), v: effect.Apply("error", effect.Str(o.Name()))}
	}
	if o.Pkg().Path() == "net/http" && o.Name() == "DefaultClient" {
		return &val{kind: plain, v: effect.Apply("config", effect.Str("http.DefaultClient")), typ: o.Type()}
	}
	return e.shared(o.Type(), name, "config", e.w.written[name])
}

// shared is a place in an object that outlives the call: what is known of it
// follows from its type.
func (e *ev) shared(t types.Type, name, how string, written bool) *val {
	if isMutexType(t) {
		return &val{kind: mutexVal, name: name, typ: t}
	}
	if h := handleOf(t); h != "" {
		return &val{kind: handleVal, typ: t, v: effect.Lit("nil")}
	}
	if n := typeName(t); n != "" && !isBasicNamed(t) {
		switch t.Underlying().(type) {
		case *types.Struct, *types.Pointer, *types.Interface:
			if isAtomic(n) || n == "sync.Map" {
				return &val{kind: stateVal, name: name, typ: t}
			}
			if written {
				return &val{kind: stateVal, name: name, typ: t}
			}
			return &val{kind: sharedVal, name: shortName(n), typ: t, v: effect.Apply(how, effect.Str(name))}
		}
	}
	if written {
		return &val{kind: stateVal, name: name, typ: t}
	}
	return &val{kind: plain, v: effect.Apply(how, effect.Str(name)), typ: t}
}

func isBasicNamed(t types.Type) bool {
	_, ok := t.Underlying().(*types.Basic)
	return ok
}

func isAtomic(n string) bool { return len(n) > 12 && n[:12] == "sync/atomic." }

func isMutexType(t types.Type) bool {
	n := typeName(t)
	return n == "sync.Mutex" || n == "sync.RWMutex" || n == "sync.Locker"
}

// byType is a value of which only the type is known.
func (e *ev) byType(t types.Type, v effect.Value) *val {
	if handleOf(t) == "tx" || handleOf(t) == "any" {
		tx := "?"
		if v.Kind == effect.PathValue && v.Root() == v.Name {
			tx = v.Name
		}
		return &val{kind: handleVal, tx: tx, typ: t, v: v}
	}
	if handleOf(t) == "outer" {
		return &val{kind: handleVal, typ: t, v: effect.Lit("nil")}
	}
	return &val{kind: plain, v: v, typ: t}
}

// columnOf is the column name of a selected field.
func (e *ev) columnOf(sel *types.Selection) string {
	f, ok := sel.Obj().(*types.Var)
	if !ok {
		return "_"
	}
	if f.Pkg() != nil && !e.w.owns(f.Pkg().Path()+"."+f.Name()) {
		switch f.Name() {
		case "ETag", "Generation", "ResourceVersion", "ModRevision":
			return "version"
		}
	}
	return column(f, sel.Recv())
}

// fieldColumn is the column name of a field by its Go name.
func (e *ev) fieldColumn(t types.Type, name string) string {
	if s := structOf(t); s != nil {
		for i := range s.NumFields() {
			if s.Field(i).Name() == name {
				return column(s.Field(i), t)
			}
		}
	}
	return snake(name)
}

func structOf(t types.Type) *types.Struct {
	if t == nil {
		return nil
	}
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	s, _ := t.Underlying().(*types.Struct)
	return s
}

// fieldTag is the tag of a field, searched in the type it was selected from and
// in what that embeds.
func fieldTag(f *types.Var, owner types.Type) reflect.StructTag {
	return tagIn(f, owner, 0)
}

func tagIn(f *types.Var, owner types.Type, depth int) reflect.StructTag {
	s := structOf(owner)
	if s == nil || depth > 3 {
		return ""
	}
	for i := range s.NumFields() {
		if s.Field(i) == f || s.Field(i).Pos() == f.Pos() && f.Pos().IsValid() {
			return reflect.StructTag(s.Tag(i))
		}
	}
	for i := range s.NumFields() {
		if s.Field(i).Embedded() {
			if t := tagIn(f, s.Field(i).Type(), depth+1); t != "" {
				return t
			}
		}
	}
	return ""
}

// field selects a field of a value.
func (e *ev) field(base *val, sel *types.Selection, x *ast.SelectorExpr) *val {
	if base.kind == pointerVal {
		if c := e.env[base.cell]; c != nil {
			base = c
		}
	}
	f, ok := sel.Obj().(*types.Var)
	if !ok {
		return unknown()
	}
	switch base.kind {
	case structVal:
		if a, ok := base.fields[f.Name()]; ok {
			return a
		}
		if base.v.Kind == effect.PathValue {
			return e.byType(f.Type(), path(base.v, e.columnOf(sel)))
		}
		if isMutexType(f.Type()) {
			return &val{kind: mutexVal, name: e.localName(f.Name())}
		}
		return e.zeroField(f)
	case sharedVal:
		owner := base.name
		if n := typeName(sel.Recv()); n != "" {
			owner = shortName(n)
		}
		name := owner + "." + f.Name()
		return e.shared(f.Type(), name, "config", e.w.written[name])
	case stateVal:
		if isMutexType(f.Type()) {
			return &val{kind: mutexVal, name: base.name + "." + f.Name(), key: base.key}
		}
		s := *base
		s.name, s.typ = base.name+"."+f.Name(), f.Type()
		return &s
	case requestVal:
		return e.requestField(base, f)
	case handleVal:
		if f.Name() == "RowsAffected" && base.query != nil {
			return plainVal(effect.Var(e.queryBind(base.query), "rows"))
		}
		if f.Name() == "Error" && base.query != nil {
			return plainVal(effect.Var(e.queryBind(base.query), "err"))
		}
		return base
	case queryVal:
		switch f.Name() {
		case "RowsAffected":
			return plainVal(effect.Var(e.queryBind(base.query), "rows"))
		case "Error":
			return plainVal(effect.Var(e.queryBind(base.query), "err"))
		}
		return unknown()
	}
	return e.byType(f.Type(), path(base.v, e.columnOf(sel)))
}

func (e *ev) zeroField(f *types.Var) *val {
	z := e.zero(f.Type())
	if z.kind == structVal {
		return &val{kind: plain, v: effect.Unknown(), typ: f.Type()}
	}
	return z
}

// load reads a place.
func (e *ev) load(a *val, at ast.Node) *val {
	if a.kind != stateVal {
		return a
	}
	if isMutexType(a.typ) {
		return &val{kind: mutexVal, name: a.name, key: a.key}
	}
	name := a.name
	if i := lastDot(name); i >= 0 {
		name = name[i+1:]
	}
	bind := e.fresh(name)
	e.emit(effect.Step{Op: effect.Read, Pos: e.pos(at), Bind: bind, On: &effect.Resource{Kind: effect.VarKind, Name: a.name, Key: a.key}, OnErr: effect.OnDrop})
	out := &val{kind: plain, v: effect.Var(bind), typ: a.typ}
	if h := handleOf(a.typ); h != "" {
		return &val{kind: handleVal, typ: a.typ, v: effect.Lit("nil")}
	}
	switch a.typ.Underlying().(type) {
	case *types.Pointer, *types.Interface:
		if n := typeName(a.typ); n != "" && e.w.owns(n) {
			// what a shared map or field points to is shared as well
			return &val{kind: sharedVal, name: shortName(n), typ: a.typ, v: out.v}
		}
	}
	return out
}

func lastDot(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '.' {
			return i
		}
	}
	return -1
}

func (e *ev) writeState(a *val, v effect.Value, at ast.Node) {
	mode := effect.Put
	if len(a.key) == 0 {
		mode = effect.Update
	}
	e.emit(effect.Step{Op: effect.Write, Mode: mode, Pos: e.pos(at), On: &effect.Resource{Kind: effect.VarKind, Name: a.name, Key: a.key},
		Set: []effect.Assign{{Col: "*", Val: v}}, OnErr: effect.OnDrop})
}
