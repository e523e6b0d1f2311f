package golang

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

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
