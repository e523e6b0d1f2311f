package golang

import (
	"go/ast"
	"go/types"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/golang/knowledge"
)

// goroutine is a go statement outside of handlers: a worker of the process.
func (f *finder) goroutine(d *declared, g *ast.GoStmt) {
	h, in := f.resolve(d, g.Call.Fun, 0)
	if h == nil {
		return
	}
	body := (*ast.BlockStmt)(nil)
	info := d.info
	if h.lit != nil {
		body, info = h.lit.Body, h.info
	} else if fd := f.b.w.funcs[funcID(h.decl)]; fd != nil {
		body, info = fd.decl.Body, fd.info
	}
	if body == nil || !loopsForever(body) {
		return // part of what started it, and followed there
	}
	kind, evidence := effect.Goroutine, "started by go"
	if ticks(info, body) {
		kind, evidence = effect.Cron, "runs at every tick, in every process"
	}
	retry := effect.RetryNone
	if receives(info, body) {
		kind, retry, evidence = effect.Consumer, effect.RetryBroker, "messages are delivered again until they are acknowledged"
	}
	f.addFunc(h, in, kind, shortName(d.id)+" (go)", retry, evidence)
}

// receives says whether a loop takes messages from a broker.
func receives(info *types.Info, b *ast.BlockStmt) bool {
	found := false
	ast.Inspect(b, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			f, isFunc := info.Uses[s.Sel].(*types.Func)
			if !isFunc || f.Pkg() == nil {
				return true
			}
			switch f.Name() {
			case "FetchMessage", "ReadMessage", "ReceiveMessage", "NextMsg", "Fetch", "XReadGroup", "BLPop", "BRPop", "Receive":
				found = found || knowledge.Effectful(f.Pkg().Path(), f.Name())
			}
		}
		return !found
	})
	return found
}

func loopsForever(b *ast.BlockStmt) bool {
	found := false
	ast.Inspect(b, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ForStmt:
			found = found || s.Cond == nil
		case *ast.RangeStmt:
			found = true
		}
		return !found
	})
	return found
}

func ticks(info *types.Info, b *ast.BlockStmt) bool {
	found := false
	ast.Inspect(b, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			t := typeName(info.TypeOf(s.X))
			found = found || t == "time.Ticker" && s.Sel.Name == "C" || s.Sel.Name == "Tick" && t == ""
		}
		return !found
	})
	return found
}

// goStmt is a go statement inside of what is evaluated.
func (e *ev) goStmt(s *ast.GoStmt) {
	var args []*val
	for _, a := range s.Call.Args {
		args = append(args, e.load(e.expr(a), a))
	}
	e.spawnCall(nil, func() { e.callWithGo(s.Call, args) }, s)
}

func (e *ev) callWithGo(c *ast.CallExpr, args []*val) {
	var recv *val
	if sel, ok := ast.Unparen(c.Fun).(*ast.SelectorExpr); ok && e.fr.info.Selections[sel] != nil {
		recv = e.expr(sel.X)
	}
	e.callWith(c, recv, args)
}

// spawned is the place of the function that is started.
func (e *ev) spawned(fn *val, at ast.Node) effect.Pos {
	if g, ok := at.(*ast.GoStmt); ok {
		if lit, ok := ast.Unparen(g.Call.Fun).(*ast.FuncLit); ok {
			return e.w.pos(lit.Pos())
		}
		if f := callee(e.fr.info, g.Call); f != nil && e.w.funcs[funcID(f)] != nil {
			return e.w.pos(e.w.funcs[funcID(f)].decl.Pos())
		}
	}
	if fn != nil && fn.lit != nil {
		return e.w.pos(fn.lit.Pos())
	}
	return effect.Pos{}
}

// spawnCall runs a function value, or f, at the same time.
func (e *ev) spawnCall(fn *val, f func(), at ast.Node) {
	if e.b.started[e.spawned(fn, at).String()] {
		return // an entry point of its own
	}
	facts, failed, defers := e.facts, e.failed, e.fr.defers
	body := e.branch(func() {
		if f != nil {
			f()
		} else if c, ok := at.(*ast.CallExpr); ok {
			e.callValue(fn, nil, c)
		}
	})
	e.facts, e.failed, e.fr.defers = facts, failed, defers
	if len(body) == 0 {
		return
	}
	e.spawn++
	policy := effect.OnDrop
	if fn != nil {
		policy = effect.OnReturn // the group keeps the first error for Wait
	}
	e.emit(effect.Step{Op: effect.Spawn, Pos: e.pos(at), Bind: e.fresh("g"), Body: body, OnErr: policy})
}
