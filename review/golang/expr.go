package golang

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"sort"
	"strconv"

	"github.com/holdfast-dev/holdfast/review/effect"
)

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// constValue is the literal of a constant.
func constValue(c constant.Value) effect.Value {
	switch c.Kind() {
	case constant.String:
		return effect.Str(constant.StringVal(c))
	case constant.Bool:
		return effect.Lit(strconv.FormatBool(constant.BoolVal(c)))
	case constant.Int:
		return effect.Lit(c.ExactString())
	case constant.Float:
		f, _ := constant.Float64Val(c)
		if f >= 0 {
			return effect.Lit(strconv.FormatFloat(f, 'f', -1, 64))
		}
	}
	return effect.Unknown()
}

// expr evaluates an expression. Variables that outlive the call come back as
// places (stateVal); load reads them.
func (e *ev) expr(x ast.Expr) *val {
	if tv, ok := e.fr.info.Types[x]; ok && tv.Value != nil {
		return plainVal(constValue(tv.Value))
	}
	switch x := x.(type) {
	case *ast.ParenExpr:
		return e.expr(x.X)
	case *ast.Ident:
		return e.ident(x)
	case *ast.SelectorExpr:
		return e.selector(x)
	case *ast.StarExpr:
		v := e.expr(x.X)
		if v.kind == pointerVal {
			if c := e.env[v.cell]; c != nil {
				return c
			}
			return unknown()
		}
		return v
	case *ast.UnaryExpr:
		return e.unary(x)
	case *ast.BinaryExpr:
		return e.binary(x)
	case *ast.CallExpr:
		return e.call(x)
	case *ast.IndexExpr:
		return e.index(x)
	case *ast.IndexListExpr:
		return e.expr(x.X)
	case *ast.SliceExpr:
		v := e.load(e.expr(x.X), x.X)
		if v.special() || v.v.Kind == effect.UnknownValue {
			return v
		}
		return plainVal(effect.Apply("slice", v.v))
	case *ast.TypeAssertExpr:
		return e.assertType(x)
	case *ast.CompositeLit:
		return e.composite(x)
	case *ast.FuncLit:
		return &val{kind: funcVal, lit: x, info: e.fr.info}
	}
	return unknown()
}

func (e *ev) assertType(x *ast.TypeAssertExpr) *val {
	v := e.expr(x.X)
	if x.Type == nil {
		return v
	}
	t := e.fr.info.TypeOf(x.Type)
	if v.kind == stateVal && isMutexType(t) {
		return &val{kind: mutexVal, name: v.name, key: v.key}
	}
	return v
}

func (e *ev) ident(x *ast.Ident) *val {
	switch o := e.obj(x).(type) {
	case nil:
		return unknown()
	case *types.Nil:
		return plainVal(effect.Lit("nil"))
	case *types.Func:
		return &val{kind: funcVal, decl: o}
	case *types.TypeName, *types.PkgName:
		return &val{kind: typeVal, typ: o.Type()}
	case *types.Var:
		if a := e.env[o]; a != nil {
			return a
		}
		if o.Pkg() != nil && o.Parent() == o.Pkg().Scope() {
			return e.packageVar(o)
		}
		return e.byType(o.Type(), effect.Unknown())
	}
	return unknown()
}

func (e *ev) selector(x *ast.SelectorExpr) *val {
	sel := e.fr.info.Selections[x]
	if sel == nil { // qualified name
		switch o := e.fr.info.Uses[x.Sel].(type) {
		case *types.Var:
			return e.packageVar(o)
		case *types.Func:
			return &val{kind: funcVal, decl: o}
		case *types.TypeName:
			return &val{kind: typeVal, typ: o.Type()}
		}
		return unknown()
	}
	switch sel.Kind() {
	case types.FieldVal:
		return e.field(e.expr(x.X), sel, x)
	case types.MethodVal:
		f, _ := sel.Obj().(*types.Func)
		return &val{kind: funcVal, decl: f, recv: e.expr(x.X)}
	case types.MethodExpr:
		f, _ := sel.Obj().(*types.Func)
		return &val{kind: funcVal, decl: f}
	}
	return unknown()
}

func (e *ev) unary(x *ast.UnaryExpr) *val {
	switch x.Op {
	case token.AND:
		if id, ok := ast.Unparen(x.X).(*ast.Ident); ok {
			if o, ok := e.obj(id).(*types.Var); ok && e.env[o] != nil {
				a := e.env[o]
				if a.kind == mutexVal || a.kind == requestVal || a.kind == handleVal || a.kind == fileVal {
					return a
				}
				return &val{kind: pointerVal, cell: o, v: a.v, typ: o.Type()}
			}
		}
		return e.expr(x.X)
	case token.NOT:
		v := e.load(e.expr(x.X), x.X).v
		if v.Kind == effect.ConstValue && (v.Name == "true" || v.Name == "false") {
			return plainVal(effect.Lit(strconv.FormatBool(v.Name == "false")))
		}
		return plainVal(effect.Apply("!", v))
	case token.SUB:
		v := e.load(e.expr(x.X), x.X).v
		if v.Kind == effect.UnknownValue {
			return unknown()
		}
		return plainVal(effect.Apply("-", effect.Int(0), v))
	case token.ARROW:
		e.expr(x.X)
		return unknown()
	}
	return e.load(e.expr(x.X), x.X)
}

var binaryOps = map[token.Token]string{
	token.ADD: "+", token.SUB: "-", token.MUL: "*", token.QUO: "/", token.REM: "mod",
	token.EQL: "==", token.NEQ: "!=", token.LSS: "<", token.LEQ: "<=", token.GTR: ">", token.GEQ: ">=",
	token.LAND: "&&", token.LOR: "||", token.AND: "bits", token.OR: "bits", token.XOR: "bits", token.SHL: "bits", token.SHR: "bits", token.AND_NOT: "bits",
}

func (e *ev) binary(x *ast.BinaryExpr) *val {
	a := e.load(e.expr(x.X), x.X)
	if x.Op == token.LAND || x.Op == token.LOR {
		if isConst(a.v) {
			if (a.v.Name == "true") == (x.Op == token.LAND) {
				return e.load(e.expr(x.Y), x.Y)
			}
			return a
		}
		b := e.load(e.expr(x.Y), x.Y)
		return plainVal(logic(binaryOps[x.Op], a.v, b.v))
	}
	b := e.load(e.expr(x.Y), x.Y)
	op := binaryOps[x.Op]
	switch op {
	case "==", "!=":
		return plainVal(e.equality(op, a, b))
	case "+":
		if isString(e.fr.info.TypeOf(x)) {
			return plainVal(concat(a.v, b.v))
		}
	case "":
		return unknown()
	}
	return plainVal(effect.Apply(op, a.v, b.v))
}

// logic joins conditions; what is not known stays so.
func logic(op string, a, b effect.Value) effect.Value {
	if isConst(b) {
		if (b.Name == "true") == (op == "&&") {
			return a
		}
		return b
	}
	// An error of which nothing is known is taken not to be there.
	if op == "||" && unknownError(a) {
		return b
	}
	if op == "||" && unknownError(b) {
		return a
	}
	return effect.Apply(op, a, b)
}

// unknownError is `? != nil`.
func unknownError(v effect.Value) bool {
	return v.Kind == effect.ApplyValue && v.Name == "!=" && v.Args[0].Kind == effect.UnknownValue && isNil(v.Args[1])
}

// equality compares, with what is known of nil-ness and of error variables.
func (e *ev) equality(op string, a, b *val) effect.Value {
	if isNil(a.v) && a.kind == plain {
		a, b = b, a
	}
	if isNil(b.v) && b.kind == plain {
		nonNil, known := false, false
		switch {
		case a.kind == plain && isConst(a.v):
			nonNil, known = !isNil(a.v), true
		case a.kind == handleVal, a.kind == fileVal, a.kind == structVal, a.kind == funcVal, a.kind == pointerVal, a.kind == mutexVal, a.kind == sharedVal, a.kind == requestVal, a.kind == errorVal:
			nonNil, known = true, true
		default:
			nonNil, known = e.facts[a.v.String()]
		}
		if known && a.v.Kind != effect.UnknownValue || known && a.kind != plain {
			return effect.Lit(strconv.FormatBool(nonNil == (op == "!=")))
		}
	}
	if a.kind == errorVal {
		a, b = b, a
	}
	if b.kind == errorVal {
		return compare(op, a.v, effect.Str(errorClass(b.name)))
	}
	return compare(op, a.v, b.v)
}

func compare(op string, a, b effect.Value) effect.Value {
	if isConst(a) && isConst(b) {
		return effect.Lit(strconv.FormatBool((a.Name == b.Name) == (op == "==")))
	}
	if isConst(b) && (b.Name == "true" || b.Name == "false") {
		if (b.Name == "true") == (op == "==") {
			return a
		}
		return effect.Apply("!", a)
	}
	return effect.Apply(op, a, b)
}

func (e *ev) index(x *ast.IndexExpr) *val {
	if tv, ok := e.fr.info.Types[x.X]; ok && tv.IsType() || isFuncType(e.fr.info.TypeOf(x.X)) {
		return e.expr(x.X) // an instance of a generic function
	}
	base := e.expr(x.X)
	key := e.load(e.expr(x.Index), x.Index)
	if base.kind == stateVal || base.kind == sharedVal {
		if isMutexType(e.fr.info.TypeOf(x)) {
			return &val{kind: mutexVal, name: base.name, key: []effect.Assign{{Col: "key", Val: key.v}}}
		}
		s := *base
		s.kind = stateVal
		s.key = append(append([]effect.Assign(nil), base.key...), effect.Assign{Col: "key", Val: key.v})
		s.typ = e.fr.info.TypeOf(x)
		return &s
	}
	if base.kind == requestVal {
		if k, ok := constString(key.v); ok {
			return plainVal(effect.In(word(k)))
		}
	}
	if len(base.elems) > 0 && base.kind == plain {
		if i, err := strconv.Atoi(key.v.Name); err == nil && i < len(base.elems) {
			return base.elems[i]
		}
	}
	if base.v.Kind == effect.PathValue {
		if k, ok := constString(key.v); ok {
			return plainVal(path(base.v, k))
		}
		if isConst(key.v) {
			return plainVal(base.v)
		}
	}
	if base.v.Kind == effect.UnknownValue {
		return unknown()
	}
	return plainVal(effect.Apply("at", base.v, key.v))
}

func isFuncType(t types.Type) bool {
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Signature)
	return ok
}

func (e *ev) composite(x *ast.CompositeLit) *val {
	t := e.fr.info.TypeOf(x)
	if t == nil {
		return unknown()
	}
	if s := structOf(t); s != nil {
		out := &val{kind: structVal, typ: t, fields: map[string]*val{}}
		for i, el := range x.Elts {
			name := ""
			v := el
			if kv, ok := el.(*ast.KeyValueExpr); ok {
				if id, ok := kv.Key.(*ast.Ident); ok {
					name = id.Name
				}
				v = kv.Value
			} else if i < s.NumFields() {
				name = s.Field(i).Name()
			}
			out.fields[name] = e.load(e.expr(v), v)
		}
		var vs []effect.Value
		for _, f := range sortedKeys(out.fields) {
			vs = append(vs, out.fields[f].v)
		}
		out.v = effect.Apply("struct", vs...)
		return out
	}
	out := &val{kind: plain, typ: t}
	var vs []effect.Value
	for _, el := range x.Elts {
		v := el
		if kv, ok := el.(*ast.KeyValueExpr); ok {
			k := e.load(e.expr(kv.Key), kv.Key)
			v = kv.Value
			a := e.load(e.expr(v), v)
			if s, ok := constString(k.v); ok {
				if out.fields == nil {
					out.fields = map[string]*val{}
				}
				out.fields[s] = a
			}
			vs = append(vs, k.v, a.v)
			continue
		}
		a := e.load(e.expr(v), v)
		out.elems = append(out.elems, a)
		vs = append(vs, a.v)
	}
	out.v = effect.Apply("list", vs...)
	return out
}
