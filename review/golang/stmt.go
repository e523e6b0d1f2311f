package golang

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/holdfast-dev/holdfast/review/effect"
)

func (e *ev) stmts(list []ast.Stmt) {
	for _, s := range list {
		if e.steps > maxSteps || terminated(*e.out) {
			return
		}
		e.stmt(s)
	}
}

func (e *ev) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.ExprStmt:
		e.neverRun(e.expr(s.X), s)
	case *ast.AssignStmt:
		e.assign(s)
	case *ast.DeclStmt:
		e.declare(s)
	case *ast.IncDecStmt:
		op := "+"
		if s.Tok == token.DEC {
			op = "-"
		}
		e.update(s.X, op, effect.Int(1), s)
	case *ast.BlockStmt:
		e.stmts(s.List)
	case *ast.LabeledStmt:
		e.stmt(s.Stmt)
	case *ast.IfStmt:
		e.ifStmt(s)
	case *ast.ForStmt:
		e.forStmt(s)
	case *ast.RangeStmt:
		e.rangeStmt(s)
	case *ast.SwitchStmt:
		e.switchStmt(s)
	case *ast.TypeSwitchStmt:
		e.typeSwitch(s)
	case *ast.SelectStmt:
		e.selectStmt(s)
	case *ast.ReturnStmt:
		e.returnStmt(s)
	case *ast.DeferStmt:
		e.deferStmt(s)
	case *ast.GoStmt:
		e.goStmt(s)
	case *ast.SendStmt:
		e.expr(s.Chan)
		e.expr(s.Value)
	case *ast.BranchStmt:
		switch s.Tok {
		case token.BREAK:
			e.emit(effect.Step{Op: effect.Break, Pos: e.pos(s)})
		case token.CONTINUE:
			e.emit(effect.Step{Op: effect.Continue, Pos: e.pos(s)})
		}
	}
}

func (e *ev) declare(s *ast.DeclStmt) {
	g, ok := s.Decl.(*ast.GenDecl)
	if !ok || g.Tok != token.VAR {
		return
	}
	for _, sp := range g.Specs {
		vs := sp.(*ast.ValueSpec)
		if len(vs.Values) == 0 {
			for _, n := range vs.Names {
				o := e.obj(n)
				if o != nil {
					e.env[o] = e.zero(o.Type())
				}
			}
			continue
		}
		var lhs []ast.Expr
		for _, n := range vs.Names {
			lhs = append(lhs, n)
		}
		e.assignAll(lhs, vs.Values, s)
	}
}

// zero is the zero value of a type.
func (e *ev) zero(t types.Type) *val {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		switch {
		case u.Info()&types.IsString != 0:
			return plainVal(effect.Str(""))
		case u.Info()&types.IsBoolean != 0:
			return plainVal(effect.Lit("false"))
		case u.Info()&types.IsNumeric != 0:
			return plainVal(effect.Int(0))
		}
	case *types.Struct:
		if typeName(t) == "sync.Mutex" || typeName(t) == "sync.RWMutex" {
			return &val{kind: mutexVal, name: e.localName("mu")}
		}
		return &val{kind: structVal, typ: t, fields: map[string]*val{}, v: effect.Unknown()}
	}
	return plainVal(effect.Lit("nil"))
}

// localName names a thing that belongs to the function that is evaluated.
func (e *ev) localName(n string) string {
	if e.fr != nil && e.fr.fn != nil {
		return shortName(e.fr.fn.id) + "." + n
	}
	return n
}

func (e *ev) assign(s *ast.AssignStmt) {
	switch s.Tok {
	case token.ASSIGN, token.DEFINE:
		e.assignAll(s.Lhs, s.Rhs, s)
	default:
		op := map[token.Token]string{token.ADD_ASSIGN: "+", token.SUB_ASSIGN: "-", token.MUL_ASSIGN: "*", token.QUO_ASSIGN: "/"}[s.Tok]
		if op == "" {
			op = "op"
		}
		e.update(s.Lhs[0], op, e.load(e.expr(s.Rhs[0]), s.Rhs[0]).v, s)
	}
}

func (e *ev) assignAll(lhs, rhs []ast.Expr, at ast.Node) {
	if len(rhs) == 1 {
		e.want(lhs, rhs[0])
	}
	if len(rhs) == 1 && len(lhs) > 1 {
		v := e.multi(rhs[0], len(lhs))
		for i, l := range lhs {
			e.store(l, v[i], at)
		}
		return
	}
	vs := make([]*val, len(rhs))
	for i, r := range rhs {
		vs[i] = e.load(e.expr(r), r)
	}
	for i, l := range lhs {
		if i < len(vs) {
			e.store(l, vs[i], at)
		}
	}
}

// want names what a call binds after the variable it goes to, for the reader of
// the schedule.
func (e *ev) want(lhs []ast.Expr, rhs ast.Expr) {
	c, ok := ast.Unparen(rhs).(*ast.CallExpr)
	if !ok || len(lhs) == 0 {
		return
	}
	if id, ok := lhs[0].(*ast.Ident); ok && id.Name != "_" && !isErrorType(e.fr.info.TypeOf(id)) {
		e.b.wants[c] = id.Name
	}
}

// multi evaluates an expression that gives n values.
func (e *ev) multi(x ast.Expr, n int) []*val {
	out := make([]*val, n)
	var v *val
	switch y := ast.Unparen(x).(type) {
	case *ast.IndexExpr:
		v = e.load(e.expr(x), x)
		out[0] = v
		out[1] = plainVal(effect.Unknown())
		if v.v.Kind == effect.PathValue {
			root := v.v.Root()
			if root != "in" && root != "col" {
				out[1] = plainVal(effect.Var(root, "found"))
			}
		}
		return out
	case *ast.TypeAssertExpr:
		out[0] = e.expr(y.X)
		out[1] = plainVal(effect.Unknown())
		return out
	default:
		v = e.expr(x)
	}
	if v.kind == tupleVal {
		copy(out, v.elems)
	} else if n > 0 {
		out[0] = v
	}
	for i := range out {
		if out[i] == nil {
			out[i] = unknown()
		}
	}
	return out
}

func (e *ev) ifStmt(s *ast.IfStmt) {
	if s.Init != nil {
		e.stmt(s.Init)
	}
	cond := e.load(e.expr(s.Cond), s.Cond).v
	var other func()
	if s.Else != nil {
		other = func() { e.stmt(s.Else) }
	}
	e.fork(e.pos(s), cond, func() {
		e.stmts(s.Body.List)
		if e.failed && e.fr.http && e.fr.last == s && !terminated(*e.out) {
			e.leave(e.w.pos(s.Body.Rbrace), nil) // an error was answered, and nothing follows
		}
	}, other)
}

func (e *ev) switchStmt(s *ast.SwitchStmt) {
	if s.Init != nil {
		e.stmt(s.Init)
	}
	var tag *val
	if s.Tag != nil {
		tag = e.load(e.expr(s.Tag), s.Tag)
	}
	var clauses []*ast.CaseClause
	var def *ast.CaseClause
	for _, c := range s.Body.List {
		cc := c.(*ast.CaseClause)
		if cc.List == nil {
			def = cc
		} else {
			clauses = append(clauses, cc)
		}
	}
	e.cases(clauses, def, func(c *ast.CaseClause) effect.Value {
		var cond effect.Value
		for i, x := range c.List {
			v := e.load(e.expr(x), x).v
			if tag != nil {
				v = compare("==", tag.v, v)
			}
			if i == 0 {
				cond = v
			} else {
				cond = effect.Apply("||", cond, v)
			}
		}
		return cond
	})
}

// cases turns clauses into a chain of ifs. A break inside a clause leaves the
// switch, which is where the chain goes on anyway.
func (e *ev) cases(clauses []*ast.CaseClause, def *ast.CaseClause, cond func(*ast.CaseClause) effect.Value) {
	if len(clauses) == 0 {
		if def != nil {
			e.stmts(withoutBreak(def.Body))
		}
		return
	}
	c := clauses[0]
	v := cond(c)
	e.fork(e.w.pos(c.Pos()), v, func() { e.stmts(withoutBreak(c.Body)) }, func() { e.cases(clauses[1:], def, cond) })
}

func withoutBreak(list []ast.Stmt) []ast.Stmt {
	if n := len(list); n > 0 {
		if b, ok := list[n-1].(*ast.BranchStmt); ok && b.Tok == token.BREAK && b.Label == nil {
			return list[:n-1]
		}
	}
	return list
}

func (e *ev) typeSwitch(s *ast.TypeSwitchStmt) {
	if s.Init != nil {
		e.stmt(s.Init)
	}
	var x *val
	switch a := s.Assign.(type) {
	case *ast.AssignStmt:
		x = e.expr(a.Rhs[0].(*ast.TypeAssertExpr).X)
	case *ast.ExprStmt:
		x = e.expr(a.X.(*ast.TypeAssertExpr).X)
	}
	var clauses []*ast.CaseClause
	var def *ast.CaseClause
	for _, c := range s.Body.List {
		cc := c.(*ast.CaseClause)
		if o := e.fr.info.Implicits[cc]; o != nil {
			e.env[o] = x
		}
		if cc.List == nil {
			def = cc
		} else {
			clauses = append(clauses, cc)
		}
	}
	e.cases(clauses, def, func(*ast.CaseClause) effect.Value { return effect.Unknown() })
}

func (e *ev) selectStmt(s *ast.SelectStmt) {
	var run func(list []ast.Stmt)
	run = func(list []ast.Stmt) {
		if len(list) == 0 {
			return
		}
		c := list[0].(*ast.CommClause)
		body := func() {
			if c.Comm != nil {
				e.stmt(c.Comm)
			}
			e.stmts(withoutBreak(c.Body))
		}
		if len(list) == 1 {
			body()
			return
		}
		e.fork(e.w.pos(c.Pos()), effect.Unknown(), body, func() { run(list[1:]) })
	}
	run(s.Body.List)
}

func (e *ev) deferStmt(s *ast.DeferStmt) {
	d := deferred{call: s.Call}
	if _, isLit := ast.Unparen(s.Call.Fun).(*ast.FuncLit); !isLit {
		for _, a := range s.Call.Args {
			d.args = append(d.args, e.load(e.expr(a), a))
		}
		if sel, ok := ast.Unparen(s.Call.Fun).(*ast.SelectorExpr); ok && e.fr.info.Selections[sel] != nil {
			d.recv = e.expr(sel.X)
		}
	}
	e.fr.defers = append(e.fr.defers, d)
}

// runDefers evaluates the deferred calls that are due on this way out.
func (e *ev) runDefers() {
	ds := e.fr.defers
	e.fr.defers = nil
	for i := len(ds) - 1; i >= 0; i-- {
		d := ds[i]
		if sel, ok := ast.Unparen(d.call.Fun).(*ast.SelectorExpr); ok && isDeferredRollback(sel.Sel.Name) {
			continue // a return rolls open transactions back
		}
		e.callWith(d.call, d.recv, d.args)
	}
	e.fr.defers = ds
}

func isDeferredRollback(name string) bool {
	return name == "Rollback" || name == "RollbackUnlessCommitted" || name == "Cancel" || name == "cancel"
}

func (e *ev) returnStmt(s *ast.ReturnStmt) {
	var vals []*val
	switch {
	case len(s.Results) == 1 && e.fr.sig.Results().Len() > 1:
		vals = e.multi(s.Results[0], e.fr.sig.Results().Len())
	case len(s.Results) > 0:
		for _, r := range s.Results {
			vals = append(vals, e.load(e.expr(r), r))
		}
	}
	for i, o := range e.fr.results {
		if len(s.Results) > 0 && i < len(vals) {
			e.env[o] = vals[i]
		}
	}
	if len(e.fr.defers) > 0 {
		e.runDefers()
	}
	if len(e.fr.results) > 0 { // deferred calls may have changed them
		vals = nil
		for _, o := range e.fr.results {
			v := e.env[o]
			if v == nil {
				v = unknown()
			}
			vals = append(vals, v)
		}
	}
	e.leave(e.pos(s), vals)
}

// leave emits the return of the frame's function.
func (e *ev) leave(pos effect.Pos, vals []*val) {
	step := effect.Step{Op: effect.Return, Pos: pos, Args: values(vals)}
	res := e.fr.sig.Results()
	switch n := res.Len(); {
	case n > 0 && len(vals) == n && isErrorType(res.At(n-1).Type()):
		last := vals[n-1]
		switch {
		case isNil(last.v):
			step.Fail = e.failed && e.fr.http
		case last.kind == errorVal, e.facts[last.v.String()], last.v.Kind == effect.ApplyValue && last.v.Name == "error":
			step.Fail = true
		case e.failed && e.fr.http:
			step.Fail = true
		}
	case n == 0:
		step.Fail = e.failed || e.fr.up == nil && e.errorInHand()
	}
	e.fr.returns = append(e.fr.returns, vals)
	e.emit(step)
}

func isErrorType(t types.Type) bool { return typeName(t) == "error" }
