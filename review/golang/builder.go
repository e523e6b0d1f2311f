package golang

import (
	"context"
	"go/ast"
	"go/types"
	"sort"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/front"
)

// builder makes the effect program of a world.
type builder struct {
	w        *world
	p        *effect.Program
	schema   *effect.Schema
	sums     map[string]*summary
	objNames map[types.Object]string
	wants    map[*ast.CallExpr]string
	reached  map[string]bool // functions that an entry point has led to
	ids      map[string]int  // of entries
	sumIDs   map[string]bool
	started  map[string]bool // places of entry points
	unparsed map[effect.Pos]bool
}

// summary is what is known of a function called with arguments of one shape.
type summary struct {
	id      string
	fn      *effect.Func
	special bool // gives something that a summary can not carry
	busy    bool
}

func newBuilder(w *world, p *effect.Program) *builder {
	if p.Funcs == nil {
		p.Funcs = map[string]*effect.Func{}
	}
	return &builder{w: w, p: p, schema: &p.Schema, sums: map[string]*summary{}, objNames: map[types.Object]string{},
		wants: map[*ast.CallExpr]string{}, reached: map[string]bool{}, ids: map[string]int{}, sumIDs: map[string]bool{}, unparsed: map[effect.Pos]bool{}, started: map[string]bool{}}
}

func (b *builder) run(ctx context.Context) error {
	b.p.Module = b.w.module
	starts := b.entries()
	for _, s := range starts {
		b.started[s.pos.String()] = true
	}
	b.completeSchema()
	b.w.shareTypes(starts)
	b.w.survey()
	for _, e := range starts {
		if err := ctx.Err(); err != nil {
			return err
		}
		b.evaluate(e)
	}
	b.libraries()
	b.findTests()
	sort.SliceStable(b.p.Entries, func(i, j int) bool { return b.p.Entries[i].ID < b.p.Entries[j].ID })
	b.prune()
	return nil
}

// evaluate runs one entry point and keeps it if it has effects.
func (b *builder) evaluate(s *start) {
	e := newEv(b)
	sig := s.fn.signature()
	if sig == nil {
		return
	}
	var body *ast.BlockStmt
	var ft *ast.FuncType
	var recvList *ast.FieldList
	fr := &frame{fn: s.in, sig: sig, http: isHandlerSig(sig) || s.kind == effect.HTTP || s.kind == effect.GRPC}
	recv := s.fn.recv
	if s.fn.lit != nil {
		fr.lit, fr.info, ft, body = s.fn.lit, s.fn.info, s.fn.lit.Type, s.fn.lit.Body
		e.capture(s)
	} else {
		d := b.w.funcs[funcID(s.fn.decl)]
		if d == nil {
			return
		}
		fr.fn, fr.info, ft, body, recvList = d, d.info, d.decl.Type, d.decl.Body, d.decl.Recv
		b.reached[d.id] = true
		if r := sig.Recv(); r != nil && (recv == nil || !recv.special()) {
			recv = &val{kind: sharedVal, name: shortName(typeName(r.Type())), typ: r.Type(), v: effect.Apply("config", effect.Str(shortName(typeName(r.Type()))))}
		}
	}
	e.fr = fr
	args := s.args
	if args == nil {
		args = inputs(sig, s.kind)
	}
	block := e.body(fr, recvList, ft, body, recv, args)
	block = b.finish(expandReturns(block, sig))
	if !hasEffects(block, b.p.Funcs) || s.kind == effect.Library && !b.outside(block, 0) {
		return
	}
	b.p.Entries = append(b.p.Entries, effect.Entry{ID: b.uniqueID(s.id), Name: s.name, Kind: s.kind, Pos: s.pos, Retry: s.retry, PerProcess: s.perProcess, Evidence: s.evidence, Body: block})
}

func (b *builder) uniqueID(id string) string {
	b.ids[id]++
	if n := b.ids[id]; n > 1 {
		return id + "#" + strconv.Itoa(n)
	}
	return id
}

// capture gives the variables that a handler's closure captured what their types
// say: they outlive the request.
func (e *ev) capture(s *start) {
	if s.in != nil && s.in.decl.Recv != nil {
		for _, f := range s.in.decl.Recv.List {
			for _, n := range f.Names {
				e.captureVar(s.in.info.Defs[n], s.in)
			}
		}
	}
	ast.Inspect(s.fn.lit.Body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		v, ok := s.fn.info.Uses[id].(*types.Var)
		if ok && !v.IsField() && v.Pos() < s.fn.lit.Pos() && (v.Pkg() == nil || v.Parent() != v.Pkg().Scope()) {
			e.captureVar(v, s.in)
		}
		return true
	})
	for o, a := range s.env {
		e.env[o] = a
	}
}

func (e *ev) captureVar(o types.Object, in *declared) {
	v, ok := o.(*types.Var)
	if !ok || e.env[v] != nil {
		return
	}
	if implementsContext(v.Type()) {
		e.env[v] = &val{kind: requestVal, name: "ctx", v: effect.In("ctx"), typ: v.Type()}
		return
	}
	name := v.Name()
	if in != nil {
		name = shortName(in.id) + "." + name
	}
	_, isMap := v.Type().Underlying().(*types.Map)
	if n := typeName(v.Type()); n != "" && (e.w.owns(n) || strings.HasPrefix(n, "sync.")) {
		e.env[v] = e.shared(v.Type(), name, "config", false)
		return
	}
	e.env[v] = e.shared(v.Type(), name, "config", isMap || e.b.capturedWrites(v, in))
}

// capturedWrites says whether a captured variable is assigned inside a literal.
func (b *builder) capturedWrites(v *types.Var, in *declared) bool {
	if in == nil {
		return false
	}
	found := false
	ast.Inspect(in.decl.Body, func(n ast.Node) bool {
		lit, ok := n.(*ast.FuncLit)
		if !ok {
			return !found
		}
		ast.Inspect(lit.Body, func(n ast.Node) bool {
			var l []ast.Expr
			switch x := n.(type) {
			case *ast.AssignStmt:
				l = x.Lhs
			case *ast.IncDecStmt:
				l = []ast.Expr{x.X}
			}
			for _, x := range l {
				if id, ok := x.(*ast.Ident); ok && in.info.Uses[id] == v && v.Pos() < lit.Pos() {
					found = true
				}
			}
			return !found
		})
		return false
	})
	return found
}

// inputs are the arguments of an entry point: what comes from outside.
func inputs(sig *types.Signature, kind effect.EntryKind) []*val {
	var out []*val
	for i := range sig.Params().Len() {
		p := sig.Params().At(i)
		t := typeName(p.Type())
		switch {
		case implementsContext(p.Type()):
			out = append(out, &val{kind: requestVal, name: "ctx", v: effect.In("ctx"), typ: p.Type()})
		case t == "net/http.ResponseWriter":
			out = append(out, &val{kind: requestVal, name: "w", v: effect.In("w"), typ: p.Type()})
		case t == "net/http.Request":
			out = append(out, &val{kind: requestVal, name: "r", v: effect.In("r"), typ: p.Type()})
		case isRouterContext(t):
			out = append(out, &val{kind: requestVal, name: "c", v: effect.In("c"), typ: p.Type()})
		case handleOf(p.Type()) != "":
			out = append(out, &val{kind: handleVal, v: effect.Lit("nil"), typ: p.Type()})
		default:
			name := p.Name()
			if name == "" || name == "_" {
				name = "arg" + itoa(i)
			}
			out = append(out, &val{kind: plain, v: effect.In(word(name)), typ: p.Type()})
		}
	}
	return out
}

func isRouterContext(t string) bool {
	switch {
	case strings.HasSuffix(t, "gin-gonic/gin.Context"), strings.HasSuffix(t, "/echo.Context"), strings.Contains(t, "labstack/echo/") && strings.HasSuffix(t, ".Context"),
		strings.Contains(t, "gofiber/fiber") && strings.HasSuffix(t, "Ctx"), strings.HasSuffix(t, "beego/context.Context"), strings.HasSuffix(t, "kataras/iris.Context"),
		strings.HasSuffix(t, "cloudwego/hertz/pkg/app.RequestContext"), strings.HasSuffix(t, "valyala/fasthttp.RequestCtx"):
		return true
	}
	return false
}

// isHandlerSig says whether a function answers HTTP requests.
func isHandlerSig(sig *types.Signature) bool {
	for i := range sig.Params().Len() {
		t := typeName(sig.Params().At(i).Type())
		if t == "net/http.ResponseWriter" || isRouterContext(t) {
			return true
		}
	}
	return false
}

// notParsed reports a statement whose effects are not known, once per place.
func (b *builder) notParsed(pos effect.Pos, err error) {
	if err == nil || b.unparsed[pos] {
		return
	}
	b.unparsed[pos] = true
	b.w.problems = append(b.w.problems, front.Problem{Pos: pos, Text: err.Error() + "; what the statement does is left out"})
}

// summarised calls a function by its summary when its arguments allow that.
func (e *ev) summarised(d *declared, recv *val, args []*val, at *ast.CallExpr) (*val, bool) {
	e.b.reached[d.id] = true
	sig := d.obj.Signature()
	if sig.Variadic() || isHandlerSig(sig) || len(d.decl.Body.List) <= 4 {
		return nil, false // small helpers are seen through: constants matter there
	}
	key := d.id
	all := args
	if sig.Recv() != nil {
		all = append([]*val{recv}, args...)
	}
	for _, a := range all {
		s, ok := a.shape()
		if !ok || a != nil && a.kind == plain && constSQL(a.v) || a != nil && len(a.elems) > 0 {
			return nil, false
		}
		key += "|" + s
	}
	s := e.b.summary(key, d, recv, args)
	if s == nil || s.special || s.busy {
		return nil, false
	}
	if s.fn == nil {
		return e.opaque(d.id, d.obj, recv, args), true
	}
	bind := d.decl.Name.Name
	if n := e.b.wants[at]; n != "" {
		bind = n
	}
	bind = e.fresh(bind)
	var vs []effect.Value
	for _, a := range all {
		switch {
		case a == nil:
			vs = append(vs, effect.Unknown())
		case a.kind == handleVal && a.tx != "":
			vs = append(vs, effect.Var(a.tx))
		default:
			vs = append(vs, a.v)
		}
	}
	e.emit(effect.Step{Op: effect.Call, Pos: e.pos(at), Bind: bind, Func: s.id, Args: vs, OnErr: effect.OnBind})
	n := sig.Results().Len()
	out := make([]*val, n)
	for i := range n {
		t := sig.Results().At(i).Type()
		if i == n-1 && isErrorType(t) {
			out[i] = plainVal(effect.Var(bind, "err"))
		} else {
			out[i] = &val{kind: plain, v: effect.Var(bind, itoa(i)), typ: t}
		}
	}
	return tuple(out), true
}

func constSQL(v effect.Value) bool {
	s, ok := constString(v)
	return ok && len(s) > 12 && strings.Contains(s, " ")
}

// summary evaluates a function once for arguments of these shapes.
func (b *builder) summary(key string, d *declared, recv *val, args []*val) *summary {
	if s := b.sums[key]; s != nil {
		return s
	}
	s := &summary{id: d.id, busy: true}
	if b.sumIDs[s.id] {
		s.id = key
	}
	b.sumIDs[s.id] = true
	b.sums[key] = s
	defer func() { s.busy = false }()
	e := newEv(b)
	sig := d.obj.Signature()
	fr := &frame{fn: d, info: d.info, sig: sig, http: isHandlerSig(sig)}
	e.fr = fr
	fn := &effect.Func{ID: s.id, Pos: b.w.pos(d.decl.Pos())}
	param := func(a *val, o *types.Var, i int) *val { return e.param(fn, a, o, i) }
	var r *val
	if sig.Recv() != nil {
		r = param(recv, sig.Recv(), 0)
	}
	var in []*val
	for i := range sig.Params().Len() {
		var a *val
		if i < len(args) {
			a = args[i]
		}
		in = append(in, param(a, sig.Params().At(i), i+1))
	}
	block := e.body(fr, d.decl.Recv, d.decl.Type, d.decl.Body, r, in)
	for _, ret := range fr.returns {
		for i, v := range ret {
			if v != nil && v.special() && !(v.kind == pointerVal && !e.deref(v).special()) && !(i == len(ret)-1 && isErrorType(sig.Results().At(i).Type())) {
				s.special = true
			}
		}
	}
	if s.special {
		return s
	}
	fn.Body = b.finish(expandReturns(block, sig))
	if len(fn.Body) > 0 && (hasEffects(fn.Body, b.p.Funcs) || derives(fn.Body)) {
		s.fn = fn
		b.p.Funcs[s.id] = fn
	}
	return s
}

// param makes a symbolic parameter of a summary for an argument of its shape.
func (e *ev) param(fn *effect.Func, a *val, o *types.Var, i int) *val {
	name := "p" + itoa(i)
	if o != nil && o.Name() != "" && o.Name() != "_" {
		name = o.Name()
	}
	name = e.fresh(name)
	fn.Params = append(fn.Params, name)
	t := types.Type(types.Typ[types.Int])
	if o != nil {
		t = o.Type()
	}
	if a == nil {
		return &val{kind: plain, v: effect.Var(name), typ: t}
	}
	switch a.kind {
	case handleVal:
		if a.tx == "" {
			return a
		}
		return &val{kind: handleVal, tx: name, typ: a.typ, v: effect.Var(name)}
	case sharedVal, requestVal, stateVal, mutexVal:
		return a
	}
	return e.byType(t, effect.Var(name))
}

// derives says whether a function without effects gives a result that its
// caller may need: a way of choosing between values.
func derives(b effect.Block) bool {
	n := 0
	b.Walk(func(s *effect.Step) bool {
		if s.Op == effect.Return && len(s.Args) > 0 {
			n++
		}
		return true
	})
	return n > 0 && len(b) <= 12
}

// hasEffects says whether a block does something that others can see.
func hasEffects(b effect.Block, funcs map[string]*effect.Func) bool {
	found := false
	b.Walk(func(s *effect.Step) bool {
		switch {
		case s.Op == effect.Call:
			found = found || funcs[s.Func] != nil
		case s.Op == effect.Spawn, s.Op == effect.Wait, s.Op == effect.Sleep:
		case s.Op == effect.Ack && s.On != nil && s.On.Name == "client":
		default:
			found = found || s.IsEffect()
		}
		return !found
	})
	return found
}

// outside says whether a block touches something outside of the process: of a
// library's own variables nobody says that they are shared.
func (b *builder) outside(blk effect.Block, depth int) bool {
	found := false
	blk.Walk(func(s *effect.Step) bool {
		switch {
		case s.Op == effect.Call && depth < 6:
			if f := b.p.Funcs[s.Func]; f != nil {
				found = found || b.outside(f.Body, depth+1)
			}
		case s.IsEffect() && s.On != nil && s.On.Kind != effect.VarKind && s.On.Kind != effect.MutexKind && !(s.On.Kind == effect.RemoteKind && s.On.Name == "client"):
			found = true
		}
		return !found
	})
	return found
}

// prune drops the summaries that no entry point leads to.
func (b *builder) prune() {
	used := map[string]bool{}
	var visit func(effect.Block)
	visit = func(blk effect.Block) {
		blk.Walk(func(s *effect.Step) bool {
			if s.Op == effect.Call && !used[s.Func] {
				used[s.Func] = true
				if f := b.p.Funcs[s.Func]; f != nil {
					visit(f.Body)
				}
			}
			return true
		})
	}
	for i := range b.p.Entries {
		visit(b.p.Entries[i].Body)
	}
	for id := range b.p.Funcs {
		if !used[id] {
			delete(b.p.Funcs, id)
		}
	}
}
