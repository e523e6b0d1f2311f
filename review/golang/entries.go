package golang

import (
	"go/ast"
	"go/types"
	"sort"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// start is an entry point that is to be evaluated.
type start struct {
	id, name   string
	kind       effect.EntryKind
	pos        effect.Pos
	retry      effect.Retry
	perProcess int
	evidence   string
	fn         *val
	in         *declared // the function around a literal
	args       []*val
	env        map[types.Object]*val
}

// entries finds the entry points: registrations first, because they give names,
// then functions whose signature says what they are.
func (b *builder) entries() []*start {
	f := &finder{b: b, seen: map[string]bool{}}
	for _, id := range sortedKeys(b.w.funcs) {
		f.registrations(b.w.funcs[id])
	}
	for _, id := range sortedKeys(b.w.funcs) {
		f.bySignature(b.w.funcs[id])
	}
	for _, id := range sortedKeys(b.w.funcs) {
		if d := b.w.funcs[id]; d.decl.Name.Name == "main" && d.pkg.Name == "main" && d.decl.Recv == nil {
			f.main(d) // last: whether it serves is known by the others
		}
	}
	sort.SliceStable(f.out, func(i, j int) bool { return f.out[i].id < f.out[j].id })
	return f.out
}

type finder struct {
	b    *builder
	out  []*start
	seen map[string]bool
}

func (f *finder) add(s *start) {
	key := s.pos.String()
	if f.seen[key] {
		return
	}
	f.seen[key] = true
	f.out = append(f.out, s)
}

// registrations looks for calls that hand a function to a router, a scheduler, a
// broker.
func (f *finder) registrations(d *declared) {
	ast.Inspect(d.decl.Body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.CallExpr:
			f.registration(d, x)
		case *ast.CompositeLit:
			f.command(d, x)
		case *ast.GoStmt:
			f.goroutine(d, x)
		}
		return true
	})
}

func (f *finder) registration(d *declared, c *ast.CallExpr) {
	fn := callee(d.info, c)
	if fn == nil || fn.Pkg() == nil {
		return
	}
	kind, retry, evidence := registrar(fn)
	if kind == "" {
		return
	}
	if kind == effect.GRPC {
		f.services(d, c, fn)
		return
	}
	name := ""
	for _, a := range c.Args {
		if tv := d.info.Types[a]; tv.Value != nil && name == "" {
			name = strings.Trim(tv.Value.ExactString(), `"`)
		}
	}
	method := fn.Name()
	for _, a := range c.Args {
		h, in := f.resolve(d, a, 0)
		if h == nil {
			continue
		}
		sig := h.signature()
		if kind == effect.HTTP && !isHandlerSig(sig) {
			continue
		}
		title := name
		if kind == effect.HTTP && !strings.Contains(name, " ") && method == strings.ToUpper(method) || isVerb(method) {
			title = strings.ToUpper(method) + " " + name
		}
		f.addFunc(h, in, kind, title, retry, evidence)
	}
}

func isVerb(m string) bool {
	switch m {
	case "Get", "Post", "Put", "Patch", "Delete":
		return true
	}
	return false
}

// addFunc adds the entry point of a function value.
func (f *finder) addFunc(h *val, in *declared, kind effect.EntryKind, title string, retry effect.Retry, evidence string) {
	s := &start{kind: kind, name: title, retry: retry, evidence: evidence, fn: h, in: in}
	if kind == effect.Cron {
		s.perProcess = 1
	}
	if h.lit != nil {
		s.pos = f.b.w.pos(h.lit.Pos())
		s.id = in.id + "@" + s.pos.String()[strings.IndexByte(s.pos.String(), ':')+1:]
	} else {
		d := f.b.w.funcs[funcID(h.decl)]
		if d == nil {
			return
		}
		s.pos, s.id = f.b.w.pos(d.decl.Pos()), d.id
	}
	f.add(s)
}

// resolve finds the function behind an expression: a literal, a name, a method
// value, http.HandlerFunc(f), middleware(f), or a call of a function that gives a
// literal.
func (f *finder) resolve(d *declared, x ast.Expr, depth int) (*val, *declared) {
	if depth > 4 {
		return nil, nil
	}
	switch x := ast.Unparen(x).(type) {
	case *ast.FuncLit:
		return &val{kind: funcVal, lit: x, info: d.info}, d
	case *ast.Ident:
		if fn, ok := d.info.Uses[x].(*types.Func); ok {
			return &val{kind: funcVal, decl: fn}, d
		}
		if v, ok := d.info.Uses[x].(*types.Var); ok {
			return f.resolveVar(d, v, depth)
		}
	case *ast.SelectorExpr:
		if fn, ok := d.info.Uses[x.Sel].(*types.Func); ok {
			return &val{kind: funcVal, decl: fn}, d
		}
	case *ast.UnaryExpr:
		return f.resolveServer(d, x)
	case *ast.CompositeLit:
		return f.resolveServer(d, x)
	case *ast.CallExpr:
		return f.resolveCall(d, x, depth)
	}
	return nil, nil
}

// resolveServer is a value whose ServeHTTP handles requests.
func (f *finder) resolveServer(d *declared, x ast.Expr) (*val, *declared) {
	t := d.info.TypeOf(x)
	if t == nil {
		return nil, nil
	}
	for _, m := range f.b.w.methods["ServeHTTP"] {
		if typeName(m.obj.Signature().Recv().Type()) == typeName(t) && typeName(t) != "" {
			return &val{kind: funcVal, decl: m.obj}, m
		}
	}
	return nil, nil
}

func (f *finder) resolveVar(d *declared, v *types.Var, depth int) (*val, *declared) {
	var found ast.Expr
	ast.Inspect(d.decl.Body, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
			for i, l := range a.Lhs {
				if id, ok := l.(*ast.Ident); ok && (d.info.Defs[id] == v || d.info.Uses[id] == v) {
					found = a.Rhs[i]
				}
			}
		}
		return found == nil
	})
	if found == nil {
		return nil, nil
	}
	if _, isIdent := found.(*ast.Ident); isIdent {
		return nil, nil
	}
	return f.resolve(d, found, depth+1)
}

func (f *finder) resolveCall(d *declared, x *ast.CallExpr, depth int) (*val, *declared) {
	if tv, ok := d.info.Types[x.Fun]; ok && tv.IsType() && len(x.Args) == 1 {
		return f.resolve(d, x.Args[0], depth+1)
	}
	fn := callee(d.info, x)
	if fn != nil {
		if inner := f.b.w.funcs[funcID(fn)]; inner != nil {
			if lit := returnedLit(inner.decl.Body); lit != nil && isHandlerSigOf(inner.info, lit) {
				for _, a := range x.Args { // middleware around a handler: the handler is meant
					if h, in := f.resolve(d, a, depth+1); h != nil && h.signature() != nil && isHandlerSig(h.signature()) {
						return h, in
					}
				}
				return &val{kind: funcVal, lit: lit, info: inner.info}, inner
			}
		}
	}
	for i := len(x.Args) - 1; i >= 0; i-- {
		if h, in := f.resolve(d, x.Args[i], depth+1); h != nil && h.signature() != nil && isHandlerSig(h.signature()) {
			return h, in
		}
	}
	return nil, nil
}

func isHandlerSigOf(info *types.Info, lit *ast.FuncLit) bool {
	s, ok := info.TypeOf(lit).(*types.Signature)
	return ok && isHandlerSig(s)
}

// returnedLit is the function literal that a function returns.
func returnedLit(b *ast.BlockStmt) *ast.FuncLit {
	var out *ast.FuncLit
	ast.Inspect(b, func(n ast.Node) bool {
		r, ok := n.(*ast.ReturnStmt)
		if !ok {
			_, isLit := n.(*ast.FuncLit)
			return !isLit
		}
		if len(r.Results) == 0 {
			return true
		}
		x := ast.Unparen(r.Results[0])
		if c, ok := x.(*ast.CallExpr); ok && len(c.Args) == 1 {
			x = ast.Unparen(c.Args[0])
		}
		if l, ok := x.(*ast.FuncLit); ok {
			out = l
		}
		return true
	})
	return out
}

// services are the methods of what is registered as a gRPC service.
func (f *finder) services(d *declared, c *ast.CallExpr, fn *types.Func) {
	if len(c.Args) < 2 {
		return
	}
	sig := fn.Signature()
	iface, _ := sig.Params().At(sig.Params().Len() - 1).Type().Underlying().(*types.Interface)
	impl := d.info.TypeOf(c.Args[len(c.Args)-1])
	if iface == nil || impl == nil {
		return
	}
	name := strings.TrimSuffix(strings.TrimPrefix(fn.Name(), "Register"), "Server")
	for i := range iface.NumMethods() {
		m := iface.Method(i)
		for _, x := range f.b.w.methods[m.Name()] {
			if typeName(x.obj.Signature().Recv().Type()) == typeName(impl) {
				f.addFunc(&val{kind: funcVal, decl: x.obj}, x, effect.GRPC, name+"/"+m.Name(), effect.RetryNone, "registered by "+fn.Name())
			}
		}
	}
}

// bySignature adds functions that can only be entry points.
func (f *finder) bySignature(d *declared) {
	sig := d.obj.Signature()
	name := d.decl.Name.Name
	switch {
	case name == "Reconcile" && sig.Recv() != nil && sig.Results().Len() == 2 && strings.HasSuffix(typeName(sig.Results().At(0).Type()), "reconcile.Result"):
		f.addFunc(&val{kind: funcVal, decl: d.obj}, d, effect.Reconcile, shortName(typeName(sig.Recv().Type())), effect.RetryBroker, "a controller's Reconcile")
	case name == "ConsumeClaim" && sig.Params().Len() == 2, name == "HandleMessage" && sig.Params().Len() == 1 && strings.Contains(typeName(sig.Params().At(0).Type()), "nsq"),
		name == "ProcessTask" && sig.Params().Len() == 2, name == "Work" && sig.Params().Len() == 2 && strings.Contains(types.TypeString(sig.Params().At(1).Type(), nil), "river.Job"):
		f.addFunc(&val{kind: funcVal, decl: d.obj}, d, effect.Consumer, shortName(d.id), effect.RetryBroker, "a consumer's "+name)
	case isExactHandler(sig) && !isMiddleware(d):
		f.addFunc(&val{kind: funcVal, decl: d.obj}, d, effect.HTTP, shortName(d.id), effect.RetryNone, "has a handler's signature")
	case grpcMethod(sig, d):
		f.addFunc(&val{kind: funcVal, decl: d.obj}, d, effect.GRPC, shortName(d.id), effect.RetryNone, "has a gRPC method's signature")
	}
}

func isMiddleware(d *declared) bool {
	n := strings.ToLower(d.decl.Name.Name)
	return strings.Contains(n, "middleware") || strings.Contains(n, "error") || strings.HasPrefix(n, "write") || strings.HasPrefix(n, "respond") || strings.HasPrefix(n, "render")
}

// isExactHandler says whether the signature is that of a handler and nothing
// more.
func isExactHandler(sig *types.Signature) bool {
	n := sig.Params().Len()
	if n == 1 && isRouterContext(typeName(sig.Params().At(0).Type())) {
		return sig.Results().Len() == 0 || sig.Results().Len() == 1 && isErrorType(sig.Results().At(0).Type())
	}
	return n == 2 && sig.Results().Len() == 0 && typeName(sig.Params().At(0).Type()) == "net/http.ResponseWriter" && typeName(sig.Params().At(1).Type()) == "net/http.Request"
}

// grpcMethod: (ctx, *pb.XRequest) (*pb.XResponse, error) on a type that embeds an
// UnimplementedXServer, or connect's generic request.
func grpcMethod(sig *types.Signature, d *declared) bool {
	if sig.Recv() == nil || sig.Params().Len() != 2 || sig.Results().Len() != 2 || !implementsContext(sig.Params().At(0).Type()) {
		return false
	}
	if strings.Contains(types.TypeString(sig.Params().At(1).Type(), nil), "connect.Request[") {
		return true
	}
	s := structOf(sig.Recv().Type())
	if s == nil {
		return false
	}
	for i := range s.NumFields() {
		f := s.Field(i)
		if f.Embedded() && strings.HasPrefix(f.Name(), "Unimplemented") {
			ms := types.NewMethodSet(types.NewPointer(f.Type()))
			return ms.Lookup(d.obj.Pkg(), d.decl.Name.Name) != nil
		}
	}
	return false
}

// main is the command itself: run by people, perhaps twice, unless it serves.
func (f *finder) main(d *declared) {
	s := &start{id: d.id, name: d.pkg.PkgPath[strings.LastIndexByte(d.pkg.PkgPath, '/')+1:], kind: effect.Main, pos: f.b.w.pos(d.decl.Pos()), retry: effect.RetryCaller,
		evidence: "a command can be run twice at once", fn: &val{kind: funcVal, decl: d.obj}}
	if f.serves(d) {
		s.kind, s.retry, s.evidence = effect.Startup, effect.RetryNone, "runs in every process of the service"
	}
	f.add(s)
}

// serves says whether the program that a main function belongs to answers
// requests: an entry point lies in a package that it imports.
func (f *finder) serves(d *declared) bool {
	imported := map[string]bool{}
	var visit func(p *packages.Package)
	visit = func(p *packages.Package) {
		if p == nil || imported[p.PkgPath] {
			return
		}
		imported[p.PkgPath] = true
		for _, i := range p.Imports {
			visit(i)
		}
	}
	visit(d.pkg)
	for _, s := range f.out {
		if s.kind == effect.HTTP || s.kind == effect.GRPC || s.kind == effect.Consumer || s.kind == effect.Reconcile {
			if s.in != nil && imported[s.in.pkg.PkgPath] {
				return true
			}
		}
	}
	return false
}

// command is a cobra or urfave command: its Run functions are entry points.
func (f *finder) command(d *declared, x *ast.CompositeLit) {
	t := typeName(d.info.TypeOf(x))
	if !strings.HasSuffix(t, "spf13/cobra.Command") && !(strings.Contains(t, "urfave/cli") && strings.HasSuffix(t, ".Command")) {
		return
	}
	name := ""
	for _, el := range x.Elts {
		kv, ok := el.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		k, _ := kv.Key.(*ast.Ident)
		if k == nil {
			continue
		}
		switch k.Name {
		case "Use", "Name":
			if tv := d.info.Types[kv.Value]; tv.Value != nil {
				name, _, _ = strings.Cut(strings.Trim(tv.Value.ExactString(), `"`), " ")
			}
		case "Run", "RunE", "Action":
			if h, in := f.resolve(d, kv.Value, 0); h != nil {
				switch name {
				case "serve", "server", "start", "run", "web", "api", "worker", "daemon", "controller":
					f.addFunc(h, in, effect.Startup, name, effect.RetryNone, "runs in every process of the service")
				default:
					f.addFunc(h, in, effect.Main, name, effect.RetryCaller, "a command can be run twice at once")
				}
			}
		}
	}
}

// registrar says what a function is that takes entry points.
func registrar(fn *types.Func) (effect.EntryKind, effect.Retry, string) {
	p, n := fn.Pkg().Path(), fn.Name()
	switch {
	case strings.HasPrefix(n, "Register") && strings.HasSuffix(n, "Server") && fn.Signature().Params().Len() == 2 && fn.Signature().Recv() == nil:
		return effect.GRPC, "", ""
	case p == "net/http" && (n == "HandleFunc" || n == "Handle"):
		return effect.HTTP, "", "registered with net/http"
	case strings.Contains(p, "go-chi/chi"), strings.Contains(p, "gorilla/mux"), strings.Contains(p, "gin-gonic/gin"), strings.Contains(p, "labstack/echo"), strings.Contains(p, "gofiber/fiber"),
		strings.Contains(p, "julienschmidt/httprouter"), strings.Contains(p, "kataras/iris"), strings.Contains(p, "cloudwego/hertz"):
		switch n {
		case "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "Any", "Handle", "HandleFunc", "HandlerFunc", "Handler", "Get", "Post", "Put", "Patch", "Delete", "Method", "MethodFunc", "All", "Add", "Match":
			return effect.HTTP, "", "registered with " + p[strings.LastIndexByte(strings.TrimRight(p, "/v0123456789"), '/')+1:]
		}
	case strings.Contains(p, "robfig/cron") && (n == "AddFunc" || n == "AddJob"), strings.Contains(p, "go-co-op/gocron") && (n == "Do" || n == "NewTask" || n == "DoWithJobDetails"):
		return effect.Cron, "", "a scheduled job runs in every process"
	case strings.Contains(p, "nats.go") && (n == "Subscribe" || n == "QueueSubscribe" || n == "Consume"), strings.Contains(p, "cloud.google.com/go/pubsub") && n == "Receive",
		strings.Contains(p, "hibiken/asynq") && n == "HandleFunc", strings.Contains(p, "watermill/message") && (n == "AddHandler" || n == "AddNoPublisherHandler" || n == "AddConsumerHandler"),
		strings.Contains(p, "machinery") && n == "RegisterTask":
		return effect.Consumer, effect.RetryBroker, "messages are delivered again until they are acknowledged"
	}
	return "", "", ""
}

// libraries adds exported functions with effects that no entry point leads to.
func (b *builder) libraries() {
	for _, id := range sortedKeys(b.w.funcs) {
		d := b.w.funcs[id]
		if b.reached[id] || !b.w.effects[id] || !d.decl.Name.IsExported() || isConstructor(d.decl) || d.gen || entPackage(d.pkg.PkgPath) {
			continue
		}
		b.evaluate(&start{id: d.id, name: shortName(d.id), kind: effect.Library, pos: b.w.pos(d.decl.Pos()), fn: &val{kind: funcVal, decl: d.obj}})
	}
}
