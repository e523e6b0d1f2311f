package golang

import (
	"go/types"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// kube knows controller-runtime's client, the typed clients of client-go, and
// their helpers.
func (c *apiCall) kube() (*val, bool) {
	switch c.id {
	case "k8s.io/client-go/util/retry.RetryOnConflict", "k8s.io/client-go/util/retry.OnError":
		return c.retryLoop(c.args[len(c.args)-1], 5, true, "conflict"), true
	case "github.com/cenkalti/backoff.Retry", "github.com/cenkalti/backoff.RetryNotify", "github.com/avast/retry-go.Do", "github.com/sethvargo/go-retry.Do":
		for _, a := range c.args {
			if a.kind == funcVal {
				return c.retryLoop(a, 0, true, ""), true
			}
		}
	case "sigs.k8s.io/controller-runtime/pkg/controller/controllerutil.AddFinalizer", "sigs.k8s.io/controller-runtime/pkg/controller/controllerutil.RemoveFinalizer":
		return c.finalizer(), true
	case "sigs.k8s.io/controller-runtime/pkg/controller/controllerutil.CreateOrUpdate", "sigs.k8s.io/controller-runtime/pkg/controller/controllerutil.CreateOrPatch":
		return c.createOrUpdate(), true
	case "sigs.k8s.io/controller-runtime/pkg/client.MergeFrom", "sigs.k8s.io/controller-runtime/pkg/client.StrategicMergeFrom", "sigs.k8s.io/controller-runtime/pkg/client.RawPatch":
		return &val{kind: plain, name: "patch", v: effect.Unknown()}, true
	case "sigs.k8s.io/controller-runtime/pkg/client.MergeFromWithOptions":
		return &val{kind: plain, name: "patch+version", v: effect.Unknown()}, true
	}
	m := c.method()
	if (m == "DeepCopy" || m == "DeepCopyObject") && c.recv != nil {
		return c.recv, true
	}
	if c.recv == nil {
		return nil, false
	}
	pkg := ""
	if c.f.Pkg() != nil {
		pkg = c.f.Pkg().Path()
	}
	switch {
	case strings.HasPrefix(pkg, "sigs.k8s.io/controller-runtime/pkg/client"):
		return c.runtimeClient(m)
	case strings.HasPrefix(pkg, "k8s.io/client-go/kubernetes/typed"), strings.HasPrefix(pkg, "k8s.io/client-go/dynamic"):
		return c.typedClient(m)
	}
	return nil, false
}

// retryLoop runs a function until it succeeds; only names the class of errors
// that are tried again.
func (c *apiCall) retryLoop(fn *val, limit int, backoff bool, only string) *val {
	name := c.e.fresh("tried")
	nilVal := effect.Lit("nil")
	c.e.emit(effect.Step{Op: effect.Let, Name: name + ".err", Val: &nilVal})
	body := c.e.loopBody(func() {
		r := c.e.callValue(fn, nil, c.at)
		if r.kind == tupleVal {
			r = r.elems[len(r.elems)-1]
		}
		v := r.v
		c.e.emit(effect.Step{Op: effect.Let, Name: name + ".err", Val: &v})
		stop := effect.Apply("==", effect.Var(name, "err"), effect.Lit("nil"))
		if only != "" {
			stop = effect.Apply("!=", effect.Var(name, "err"), effect.Str(only))
		}
		c.e.emit(effect.Step{Op: effect.If, Pos: c.pos(), Val: &stop, Body: effect.Block{{Op: effect.Break, Pos: c.pos()}}})
	})
	ctx := false
	for _, a := range c.args {
		ctx = ctx || a.kind == requestVal || a.typ != nil && implementsContext(a.typ)
	}
	c.e.emit(effect.Step{Op: effect.Loop, Pos: c.pos(), Body: body, Retry: true, Max: limit, Backoff: backoff, CtxChecked: ctx})
	return c.result(name)
}

// object is the resource that an object variable stands for.
func (c *apiCall) object(obj *val, key effect.Value) *effect.Resource {
	t := destType(obj)
	kind := strings.TrimSuffix(shortName(typeName(t)), "List")
	kind = kind[strings.LastIndexByte(kind, '.')+1:]
	if kind == "" {
		kind = "?"
	}
	return &effect.Resource{Kind: effect.ObjectKind, Name: kind, Key: []effect.Assign{{Col: "name", Val: key}}}
}

// nameOf is the name that an object or a key stands for.
func (c *apiCall) nameOf(a *val) effect.Value {
	a = c.e.deref(a)
	switch {
	case a == nil:
		return effect.Unknown()
	case a.kind == structVal && a.fields["Name"] != nil:
		return a.fields["Name"].v
	case a.kind == structVal && a.fields["ObjectMeta"] != nil:
		return c.nameOf(a.fields["ObjectMeta"])
	case a.v.Kind == effect.PathValue && a.v.Root() != "in":
		if key, ok := c.e.keys[a.v.Name]; ok {
			return key // the name by which it was read
		}
		return path(a.v, "name")
	}
	return a.v
}

func (c *apiCall) runtimeClient(m string) (*val, bool) {
	if m == "Status" || m == "SubResource" {
		n := *c.recv
		n.name = "status"
		return &n, true
	}
	if len(c.args) < 2 {
		return nil, false
	}
	obj := c.args[1]
	if m == "Get" && len(c.args) > 2 {
		obj = c.args[2]
		bind := c.e.fresh(destName(obj, "obj"))
		c.e.emit(effect.Step{Op: effect.Read, Pos: c.pos(), Bind: bind, On: c.object(obj, c.nameOf(c.args[1])), Missing: "error", OnErr: effect.OnBind, Note: c.e.source(c.at)})
		c.e.fill(obj, plainVal(effect.Var(bind)), c.at)
		c.e.keys[bind] = c.nameOf(c.args[1])
		return c.result(bind), true
	}
	return c.objectCall(m, obj, c.args[2:])
}

func destName(a *val, fallback string) string {
	if a != nil && a.kind == pointerVal {
		return a.cell.Name()
	}
	return fallback
}

// objectCall are the calls that take the object itself.
func (c *apiCall) objectCall(m string, obj *val, rest []*val) (*val, bool) {
	d := c.e.deref(obj)
	s := effect.Step{Op: effect.Write, Pos: c.pos(), On: c.object(obj, c.nameOf(obj)), OnErr: effect.OnBind, Note: c.e.source(c.at)}
	switch m {
	case "List":
		s.Op, s.On.Key = effect.Read, nil
		s.Bind = c.e.fresh(destName(obj, "list"))
		c.e.emit(s)
		c.e.fill(obj, plainVal(effect.Var(s.Bind)), c.at)
		return c.result(s.Bind), true
	case "Create":
		s.Mode = effect.Insert
		s.Set = c.fieldsOf(obj)
	case "Update", "UpdateStatus":
		s.Mode = effect.Update
		s.Set = []effect.Assign{{Col: "*", Val: d.v}}
		if isRead(d) && d.v.Root() != "in" {
			s.Where = []effect.Cond{{Col: "version", Op: "==", Val: path(d.v, "version")}}
		}
	case "Patch":
		s.Mode = effect.Update
		s.Set = c.changed(d)
		for _, a := range rest {
			if a.name == "patch+version" && isRead(d) {
				s.Where = []effect.Cond{{Col: "version", Op: "==", Val: path(d.v, "version")}}
			}
		}
	case "Delete", "DeleteAllOf":
		s.Mode = effect.Delete
		for _, a := range rest {
			if a = c.e.deref(a); a.kind == structVal && (a.fields["Preconditions"] != nil || strings.HasSuffix(typeName(a.typ), "Preconditions")) && isRead(d) {
				s.Where = []effect.Cond{{Col: "version", Op: "==", Val: path(d.v, "version")}}
			}
		}
	default:
		return nil, false
	}
	s.Bind = c.e.fresh(strings.ToLower(m))
	c.e.emit(s)
	if m == "Update" && isRead(d) && d.v.Root() == d.v.Name {
		v := effect.Apply("next", path(d.v, "version")) // the answer is put into the object
		c.e.emit(effect.Step{Op: effect.Let, Name: d.v.Name + ".version", Val: &v})
	}
	return c.result(s.Bind, plainVal(effect.Var(s.Bind))), true
}

// changed are the fields of a local copy that the code before has assigned: what
// a merge patch will carry.
func (c *apiCall) changed(d *val) []effect.Assign {
	if !isRead(d) {
		return c.fieldsOf(d)
	}
	prefix := d.v.Name + "."
	var out []effect.Assign
	seen := map[string]bool{}
	visit := func(s *effect.Step) bool {
		if s.Op == effect.Let && strings.HasPrefix(s.Name, prefix) && s.Val != nil && !seen[s.Name] {
			seen[s.Name] = true
			out = append(out, effect.Assign{Col: strings.TrimPrefix(s.Name, prefix), Val: effect.Value{Kind: effect.PathValue, Name: s.Name}})
		}
		return true
	}
	c.e.out.Walk(visit)
	if len(out) == 0 {
		out = []effect.Assign{{Col: "?", Val: effect.Unknown()}}
	}
	return out
}

func (c *apiCall) typedClient(m string) (*val, bool) {
	kind := strings.TrimSuffix(shortName(typeName(recvTypeOrAny(c.f))), "Interface")
	kind = kind[strings.LastIndexByte(kind, '.')+1:]
	on := func(key effect.Value) *effect.Resource {
		return &effect.Resource{Kind: effect.ObjectKind, Name: kind, Key: []effect.Assign{{Col: "name", Val: key}}}
	}
	if len(c.args) < 2 {
		return c.recv, c.f.Signature().Results().Len() == 1
	}
	switch m {
	case "Get":
		bind := c.bind("obj")
		c.e.emit(effect.Step{Op: effect.Read, Pos: c.pos(), Bind: bind, On: on(c.arg(1)), Missing: "error", OnErr: effect.OnBind, Note: c.e.source(c.at)})
		c.e.keys[bind] = c.arg(1)
		return c.result(bind, plainVal(effect.Var(bind))), true
	case "Patch", "Delete":
		s := effect.Step{Op: effect.Write, Mode: effect.Update, Pos: c.pos(), Bind: c.bind(strings.ToLower(m)), On: on(c.arg(1)), OnErr: effect.OnBind, Note: c.e.source(c.at)}
		if m == "Delete" {
			s.Mode = effect.Delete
		} else if len(c.args) > 3 {
			s.Set = []effect.Assign{{Col: "patch", Val: c.arg(3)}}
		}
		c.e.emit(s)
		return c.result(s.Bind, plainVal(effect.Var(s.Bind))), true
	case "Create", "Update", "UpdateStatus", "List":
		was := len(*c.e.out)
		r, ok := c.objectCall(m, c.args[1], c.args[2:])
		for i := was; i < len(*c.e.out); i++ {
			if s := &(*c.e.out)[i]; s.On != nil && s.On.Kind == effect.ObjectKind {
				s.On.Name = kind
			}
		}
		return r, ok
	}
	return nil, false
}

// finalizer changes the list of finalizers of the local copy.
func (c *apiCall) finalizer() *val {
	d := c.e.deref(c.args[0])
	fn := "append"
	if strings.HasSuffix(c.id, "RemoveFinalizer") {
		fn = "without"
	}
	if isRead(d) && d.v.Root() != "in" {
		v := effect.Apply(fn, path(d.v, "finalizers"), c.arg(1))
		c.e.emit(effect.Step{Op: effect.Let, Pos: c.pos(), Name: d.v.Name + ".finalizers", Val: &v})
	}
	return unknown()
}

// createOrUpdate reads, and inserts or updates with the version that was read.
func (c *apiCall) createOrUpdate() *val {
	if len(c.args) < 4 {
		return unknown()
	}
	obj := c.args[2]
	on := c.object(obj, c.nameOf(obj))
	bind := c.e.fresh(destName(obj, "obj"))
	c.e.emit(effect.Step{Op: effect.Read, Pos: c.pos(), Bind: bind, On: on, OnErr: effect.OnBind})
	c.e.callValue(c.args[3], nil, c.at)
	done := c.e.fresh("stored")
	cond := effect.Var(bind, "found")
	set := []effect.Assign{{Col: "*", Val: effect.Var(bind)}}
	c.e.emit(effect.Step{Op: effect.If, Pos: c.pos(), Val: &cond,
		Body: effect.Block{{Op: effect.Write, Mode: effect.Update, Pos: c.pos(), Bind: done, On: on, Set: set, Where: []effect.Cond{{Col: "version", Op: "==", Val: effect.Var(bind, "version")}}, OnErr: effect.OnBind}},
		Else: effect.Block{{Op: effect.Write, Mode: effect.Insert, Pos: c.pos(), Bind: done, On: on, Set: set, OnErr: effect.OnBind}}})
	return c.result(done)
}

// grpcClient says whether a method belongs to a generated client.
func grpcClient(f *types.Func) bool {
	sig := f.Signature()
	if sig.Recv() == nil || !sig.Variadic() || sig.Params().Len() < 3 {
		return false
	}
	last := sig.Params().At(sig.Params().Len() - 1).Type()
	s, ok := last.(*types.Slice)
	return ok && typeName(s.Elem()) == "google.golang.org/grpc.CallOption"
}
