package golang

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"

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
	if base.v.Kind == effect.PathValue && base.v.Root() != "in" {
		v := effect.Apply("with", base.v, key.v, a.v)
		if id, ok := ast.Unparen(l.X).(*ast.Ident); ok {
			e.set(e.obj(id), plainVal(v))
			return
		}
		e.save(base.v.Name)
		e.emit(effect.Step{Op: effect.Let, Pos: e.pos(at), Name: base.v.Name, Val: &v})
	}
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

// loopVars makes the variables that a loop assigns part of the program, because
// their values differ between rounds.
func (e *ev) loopVars(nodes ...ast.Node) []types.Object {
	objs := e.assigned(nodes...)
	var kept []types.Object
	for _, o := range objs {
		a := e.env[o]
		if a == nil || a.special() {
			continue
		}
		if a.kind == structVal {
			a = plainVal(effect.Unknown())
		}
		name := e.varName(o)
		if !(a.v.Kind == effect.PathValue && a.v.Name == name) {
			v := a.v
			e.emit(effect.Step{Op: effect.Let, Name: name, Val: &v})
		}
		e.env[o] = plainVal(effect.Var(name))
		e.loose[o]++
		kept = append(kept, o)
	}
	return kept
}

func (e *ev) endLoop(objs []types.Object) {
	for _, o := range objs {
		e.loose[o]--
		if a := e.env[o]; a != nil && !a.special() {
			e.env[o] = plainVal(effect.Var(e.varName(o)))
		}
	}
}

func (e *ev) loopBody(body func()) effect.Block {
	facts, failed, defers := e.facts, e.failed, e.fr.defers
	e.facts = map[string]bool{}
	for k, v := range facts {
		if !e.looseRoot(k) {
			e.facts[k] = v
		}
	}
	b := e.branch(body)
	e.facts, e.failed = facts, failed
	e.fr.defers = defers
	return b
}

// looseRoot says whether a fact is about a variable that changes between rounds.
func (e *ev) looseRoot(fact string) bool {
	for o, n := range e.loose {
		if n > 0 && strings.HasPrefix(fact, e.varName(o)) {
			return true
		}
	}
	return false
}

func (e *ev) forStmt(s *ast.ForStmt) {
	if s.Init != nil {
		e.stmt(s.Init)
	}
	objs := e.loopVars(s.Body, s.Cond, s.Post)
	step := effect.Step{Op: effect.Loop, Pos: e.pos(s), Max: loopBound(e.fr.info, s)}
	var cond effect.Value
	step.Body = e.loopBody(func() {
		if s.Cond != nil {
			cond = e.load(e.expr(s.Cond), s.Cond).v
		}
		e.stmts(s.Body.List)
		if s.Post != nil && !terminated(*e.out) {
			e.stmt(s.Post)
		}
	})
	e.endLoop(objs)
	if s.Cond != nil && !isConst(cond) {
		step.Val = &cond
	}
	e.describeLoop(&step, s.Body, s.Cond)
	e.emit(step)
}

// loopBound is N of `for i := 0; i < N; i++`.
func loopBound(info *types.Info, s *ast.ForStmt) int {
	c, ok := s.Cond.(*ast.BinaryExpr)
	if !ok || s.Post == nil {
		return 0
	}
	for _, side := range []ast.Expr{c.Y, c.X} {
		if tv := info.Types[side]; tv.Value != nil {
			if n, ok := constant.Int64Val(constant.ToInt(tv.Value)); ok && n >= 0 {
				return int(min(n, 1<<20)) + map[bool]int{true: 1}[c.Op == token.LEQ]
			}
		}
	}
	return 1 << 20 // bounded by something
}

// describeLoop says whether a loop repeats after a failure, waits between its
// rounds, and looks at its context.
func (e *ev) describeLoop(step *effect.Step, body *ast.BlockStmt, cond ast.Expr) {
	check := func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.SelectorExpr:
			switch x.Sel.Name {
			case "Sleep", "After", "NewTimer", "NextBackOff", "Backoff", "Pause", "Duration":
				step.Backoff = true
			case "Err", "Done", "Deadline":
				if implementsContext(e.fr.info.TypeOf(x.X)) {
					step.CtxChecked = true
				}
			}
			if sel := e.fr.info.Selections[x]; sel == nil && x.Sel.Name == "Wait" {
				step.Backoff = true
			}
		}
		return true
	}
	ast.Inspect(body, check)
	if cond != nil {
		ast.Inspect(cond, check)
	}
	step.Retry = e.repeatsOnFailure(body)
}

func implementsContext(t types.Type) bool { return typeName(t) == "context.Context" }

// repeatsOnFailure looks for the two ways retry loops are written: leaving on
// `err == nil`, and continuing (or falling through to the next round) on an
// error while the loop's last statement leaves it.
func (e *ev) repeatsOnFailure(body *ast.BlockStmt) bool {
	leaves := func(b *ast.BlockStmt) bool {
		if len(b.List) == 0 {
			return false
		}
		switch s := b.List[len(b.List)-1].(type) {
		case *ast.ReturnStmt:
			return true
		case *ast.BranchStmt:
			return s.Tok == token.BREAK
		}
		return false
	}
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.IfStmt:
			c, ok := s.Cond.(*ast.BinaryExpr)
			if ok && isErrorType(e.fr.info.TypeOf(c.X)) {
				if c.Op == token.EQL && leaves(s.Body) {
					found = true
				}
				if c.Op == token.NEQ && continues(s.Body) && leaves(body) {
					found = true
				}
			}
			if !ok && mentionsError(e.fr.info, s.Cond) && (continues(s.Body) || leaves(s.Body)) && leaves(body) {
				found = true
			}
			if not, isNot := s.Cond.(*ast.UnaryExpr); isNot && not.Op == token.NOT && mentionsError(e.fr.info, not.X) && leaves(s.Body) && !leaves(body) {
				found = true // leaves unless it is the error that is tried again
			}
			if isConflictCheck(s.Cond) && (continues(s.Body) || leaves(s.Body)) {
				found = true
			}
		}
		return !found
	})
	return found
}

func mentionsError(info *types.Info, x ast.Expr) bool {
	found := false
	ast.Inspect(x, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && isErrorType(info.TypeOf(id)) {
			found = true
		}
		return !found
	})
	return found
}

// isConflictCheck recognises the tests for a lost compare-and-set by the names
// that everybody gives them.
func isConflictCheck(x ast.Expr) bool {
	found := false
	ast.Inspect(x, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			switch id.Name {
			case "IsConflict", "ErrConflict", "ErrVersionConflict", "isConflict", "IsSerializationFailure", "isSerializationFailure", "isRetryable", "IsRetryable", "CompareAndSwap", "TxFailedErr", "ErrTxFailed":
				found = true
			}
		}
		return !found
	})
	return found
}

func continues(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	s, ok := b.List[len(b.List)-1].(*ast.BranchStmt)
	return ok && s.Tok == token.CONTINUE
}

func (e *ev) rangeStmt(s *ast.RangeStmt) {
	coll := e.load(e.expr(s.X), s.X)
	objs := e.loopVars(s.Body)
	step := effect.Step{Op: effect.Loop, Pos: e.pos(s)}
	isInt := false
	if b, ok := e.fr.info.TypeOf(s.X).Underlying().(*types.Basic); ok && b.Info()&types.IsInteger != 0 {
		isInt = true
		step.Max = 1 << 20
		if tv := e.fr.info.Types[s.X]; tv.Value != nil {
			if n, ok := constant.Int64Val(tv.Value); ok {
				step.Max = int(min(n, 1<<20))
			}
		}
	}
	more := effect.Apply("more", coll.v)
	step.Val = &more
	step.Body = e.loopBody(func() {
		elem := func(v effect.Value) *val {
			switch v.Kind {
			case effect.PathValue:
				return plainVal(v)
			case effect.UnknownValue:
				return unknown()
			}
			return plainVal(effect.Apply("elem", v))
		}
		_, isChan := e.fr.info.TypeOf(s.X).Underlying().(*types.Chan)
		for i, x := range []ast.Expr{s.Key, s.Value} {
			id, ok := x.(*ast.Ident)
			if !ok || id.Name == "_" {
				continue
			}
			o := e.obj(id)
			if o == nil {
				continue
			}
			a := elem(coll.v)
			switch {
			case isInt:
				a = plainVal(effect.Apply("index", coll.v))
			case i == 0 && isChan:
				a = &val{kind: plain, v: effect.In(word(id.Name))}
			case i == 0:
				a = plainVal(effect.Apply("keyof", coll.v))
			case len(coll.elems) > 0 && coll.elems[0].special():
				a = coll.elems[0]
			}
			e.env[o] = a
		}
		e.stmts(s.Body.List)
	})
	e.endLoop(objs)
	if isInt {
		e.describeLoop(&step, s.Body, nil)
	} else {
		e.describeLoop(&step, s.Body, nil)
		step.Retry = false
	}
	e.emit(step)
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
