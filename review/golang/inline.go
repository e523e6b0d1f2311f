package golang

import (
	"go/ast"
	"go/types"
	"maps"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// earlyReturn says whether a body can be left before its end.
func earlyReturn(b *ast.BlockStmt) bool {
	found := false
	for i, s := range b.List {
		ast.Inspect(s, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.FuncLit:
				return false
			case *ast.ReturnStmt:
				found = found || i < len(b.List)-1 || n != ast.Node(s)
			}
			return !found
		})
	}
	return found
}

func (e *ev) inlineLit(f *val, args []*val, at ast.Node) *val {
	if e.fr.depth >= maxDepth || e.steps > maxSteps || e.running(nil, f.lit) {
		return unknown()
	}
	sig, _ := f.info.TypeOf(f.lit).(*types.Signature)
	if sig == nil {
		return unknown()
	}
	fr := &frame{up: e.fr, fn: e.fr.fn, lit: f.lit, info: f.info, sig: sig, depth: e.fr.depth + 1, http: isHandlerSig(sig)}
	var kept []types.Object
	if earlyReturn(f.lit.Body) {
		// what it assigns outside of itself must survive each of its ways out
		was := e.fr
		e.fr = fr
		kept = e.loopVars(f.lit.Body)
		e.fr = was
	}
	r := e.inline(fr, nil, f.lit.Type, f.lit.Body, nil, args, at)
	e.endLoop(kept)
	return r
}

// inline evaluates a function's body at the place of its call.
func (e *ev) inline(fr *frame, recvList *ast.FieldList, ft *ast.FuncType, body *ast.BlockStmt, recv *val, args []*val, at ast.Node) *val {
	loose, failed, facts := e.loose, e.failed, e.facts
	e.facts = maps.Clone(facts)
	block := e.body(fr, recvList, ft, body, recv, args)
	answered := e.failed
	e.loose, e.failed = loose, failed
	if inputOnly(block) && (fr.lit == nil || !assigns(block)) {
		e.facts, e.failed = facts, failed || answered
		return e.collapsed(fr, recv, args)
	}
	if !e.splice(fr, block) {
		e.facts = facts
		return e.scope(fr, block, at)
	}
	e.failed = failed || answered
	return e.results(fr, "")
}

// inputOnly says whether a function only looks at what comes from outside: it has
// no effect, and no condition in it derives from what was read. Which of its ways
// is taken is the same whatever other actors do.
func inputOnly(b effect.Block) bool {
	ok, conditions := true, 0
	b.Walk(func(s *effect.Step) bool {
		switch s.Op {
		case effect.If, effect.Loop:
			conditions++
			if s.Val != nil {
				s.Val.Paths(func(p string) {
					root := effect.Var(p).Root()
					ok = ok && root == "in"
				})
			}
		case effect.Return:
		case effect.Let:
			ok = ok && !strings.Contains(s.Name, ".")
		case effect.Break, effect.Continue:
		default:
			ok = false
		}
		return ok
	})
	return ok && conditions > 0
}

// assigns says whether a block changes variables: of a literal, they may be the
// caller's.
func assigns(b effect.Block) bool {
	found := false
	b.Walk(func(s *effect.Step) bool { found = found || s.Op == effect.Let; return !found })
	return found
}

// collapsed is the result of a call whose ways do not matter.
func (e *ev) collapsed(fr *frame, recv *val, args []*val) *val {
	n := fr.sig.Results().Len()
	out := make([]*val, n)
	name := "f"
	if fr.fn != nil {
		name = word(shortName(fr.fn.id))
	}
	var in []effect.Value
	for _, a := range append([]*val{recv}, args...) {
		if a != nil && a.v.Kind != effect.UnknownValue {
			in = append(in, e.deref(a).v)
		}
	}
	for i := range n {
		t := fr.sig.Results().At(i).Type()
		if one := e.oneValue(fr.returns, i); one != nil {
			out[i] = one
			continue
		}
		for _, r := range fr.returns {
			if i < len(r) && r[i] != nil && e.deref(r[i]).special() {
				out[i] = r[i]
			}
		}
		switch {
		case out[i] != nil:
		case i == n-1 && isErrorType(t):
			out[i] = unknown()
		case len(in) == 0:
			out[i] = &val{kind: plain, typ: t}
		default:
			out[i] = &val{kind: plain, typ: t, v: effect.Apply(name, in...)}
		}
	}
	if n == 0 {
		return unknown()
	}
	return tuple(out)
}

// body evaluates a function's body into a block of its own.
func (e *ev) body(fr *frame, recvList *ast.FieldList, ft *ast.FuncType, body *ast.BlockStmt, recv *val, args []*val) effect.Block {
	was := e.fr
	e.fr = fr
	defer func() { e.fr = was }()
	e.loose = maps.Clone(e.loose)
	e.failed = false
	if n := len(body.List); n > 0 {
		fr.last = body.List[n-1]
	}
	return e.branch(func() {
		e.bindParams(fr, recvList, ft, recv, args)
		e.stmts(body.List)
		if !terminated(*e.out) && e.steps <= maxSteps {
			e.runDefers()
			var vals []*val
			for _, o := range fr.results {
				vals = append(vals, e.env[o])
			}
			if len(fr.defers) > 0 || len(fr.returns) > 0 || fr.up == nil {
				e.leave(e.w.pos(body.Rbrace), vals)
			} else {
				fr.returns = append(fr.returns, vals)
				e.emit(effect.Step{Op: effect.Return, Pos: e.w.pos(body.Rbrace), Fail: e.failed})
			}
		}
	})
}

func (e *ev) bindParams(fr *frame, recvList *ast.FieldList, ft *ast.FuncType, recv *val, args []*val) {
	if recvList != nil && len(recvList.List) == 1 && len(recvList.List[0].Names) == 1 {
		if o := fr.info.Defs[recvList.List[0].Names[0]]; o != nil {
			if recv == nil {
				recv = unknown()
			}
			e.env[o] = recv
		}
	}
	i := 0
	for _, f := range ft.Params.List {
		_, variadic := f.Type.(*ast.Ellipsis)
		for _, n := range f.Names {
			o := fr.info.Defs[n]
			var a *val
			switch {
			case variadic:
				a = &val{kind: plain, v: effect.Apply("list", values(args[min(i, len(args)):])...), elems: args[min(i, len(args)):]}
			case i < len(args):
				a = args[i]
			}
			if a == nil {
				a = unknown()
			}
			if a.kind == structVal && !a.special() && e.plainStruct(a.typ) && o != nil && !isPointer(o.Type()) {
				a = e.materialise(o, a)
			}
			if o != nil {
				if a.kind == plain && a.typ == nil {
					a = e.typed(a, o.Type())
				}
				e.env[o] = a
			}
			i++
		}
		if len(f.Names) == 0 {
			i++
		}
	}
	if ft.Results != nil {
		for _, f := range ft.Results.List {
			for _, n := range f.Names {
				if o, ok := fr.info.Defs[n].(*types.Var); ok && n.Name != "_" {
					fr.results = append(fr.results, o)
					e.env[o] = e.zero(o.Type())
				}
			}
		}
	}
}

func isPointer(t types.Type) bool { _, ok := t.Underlying().(*types.Pointer); return ok }

// typed adds what the declared type says.
func (e *ev) typed(a *val, t types.Type) *val {
	if handleOf(t) == "" {
		return a
	}
	if isNil(a.v) {
		return &val{kind: handleVal, typ: t, v: a.v}
	}
	return e.byType(t, a.v)
}

// splice puts the steps of a function straight into the caller's block if it has
// one way out, at its end.
func (e *ev) splice(fr *frame, b effect.Block) bool {
	n := 0
	b.Walk(func(s *effect.Step) bool {
		if s.Op == effect.Return {
			n++
		}
		return true
	})
	if n > 1 || n == 1 && len(b) > 0 && b[len(b)-1].Op != effect.Return || n == 1 && b[len(b)-1].Fail && fr.http {
		return false
	}
	if n == 1 {
		b = b[:len(b)-1]
	}
	*e.out = append(*e.out, b...)
	return true
}

// scope wraps a function with several ways out.
func (e *ev) scope(fr *frame, b effect.Block, at ast.Node) *val {
	hasEffect := false
	b.Walk(func(s *effect.Step) bool {
		hasEffect = hasEffect || s.IsEffect() || s.Op == effect.Call
		return !hasEffect
	})
	name := "r"
	if fr.lit == nil && fr.fn != nil {
		name = fr.fn.decl.Name.Name
	}
	bind := e.fresh(name)
	note := ""
	if fr.lit == nil && fr.fn != nil {
		note = fr.fn.id
	}
	e.emit(effect.Step{Op: effect.Scope, Pos: e.pos(at), Bind: bind, OnErr: effect.OnBind, Body: expandReturns(b, fr.sig), Note: note})
	return e.results(fr, bind)
}

// results are what a call gives. Without bind there is one way out and its
// values stand as they are.
func (e *ev) results(fr *frame, bind string) *val {
	n := fr.sig.Results().Len()
	out := make([]*val, n)
	for i := range n {
		isErr := i == n-1 && isErrorType(fr.sig.Results().At(i).Type())
		var special, only *val
		for _, r := range fr.returns {
			if i >= len(r) || r[i] == nil {
				continue
			}
			only = r[i]
			if r[i].special() && r[i].kind != pointerVal {
				special = r[i]
			}
			if r[i].kind == pointerVal {
				if c := e.env[r[i].cell]; c != nil {
					only = c
					if c.special() {
						special = c
					}
				}
			}
		}
		switch {
		case special != nil && !isErr:
			out[i] = special
		case bind == "" && only != nil:
			out[i] = only
		case !isErr && bind != "" && e.oneValue(fr.returns, i) != nil:
			out[i] = e.oneValue(fr.returns, i)
		case bind == "":
			out[i] = unknown()
		case isErr:
			out[i] = plainVal(effect.Var(bind, "err"))
		default:
			out[i] = e.byType(fr.sig.Results().At(i).Type(), effect.Var(bind, itoa(i)))
			if out[i].kind == handleVal {
				out[i].tx = ""
			}
		}
	}
	return tuple(out)
}

// oneValue is the value that all successful ways out give, if they give the same:
// the ones beside an error are nil or zero.
func (e *ev) oneValue(returns [][]*val, i int) *val {
	var out *val
	for _, r := range returns {
		if i >= len(r) {
			continue
		}
		a := e.deref(r[i])
		if a == nil || a.v.Kind == effect.ConstValue {
			continue
		}
		if a.kind != plain || a.v.Kind != effect.PathValue || out != nil && out.v.String() != a.v.String() {
			return nil
		}
		out = a
	}
	return out
}

func itoa(i int) string { return string(rune('0' + i%10)) }

func tuple(vs []*val) *val {
	switch len(vs) {
	case 0:
		return unknown()
	case 1:
		return vs[0]
	}
	return &val{kind: tupleVal, elems: vs}
}

// expandReturns writes `return x, err` out where it is not known whether err is
// nil.
func expandReturns(b effect.Block, sig *types.Signature) effect.Block {
	n := sig.Results().Len()
	if n == 0 || !isErrorType(sig.Results().At(n-1).Type()) {
		return b
	}
	var out effect.Block
	for _, s := range b {
		if s.Op != effect.Scope && s.Op != effect.Spawn {
			s.Body, s.Else = expandReturns(s.Body, sig), expandReturns(s.Else, sig)
		}
		if s.Op == effect.Return && !s.Fail && len(s.Args) == n {
			last := s.Args[n-1]
			if last.Kind == effect.PathValue {
				cond := effect.Apply("!=", last, effect.Lit("nil"))
				failing := s
				failing.Fail = true
				out = append(out, effect.Step{Op: effect.If, Pos: s.Pos, Val: &cond, Body: effect.Block{failing}})
				s.Args = append(append([]effect.Value(nil), s.Args[:n-1]...), effect.Lit("nil"))
			}
		}
		out = append(out, s)
	}
	return out
}
