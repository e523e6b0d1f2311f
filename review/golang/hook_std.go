package golang

import (
	"go/ast"
	"go/types"
	"regexp"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/golang/knowledge"
)

// std knows the functions that only move values about.
func (c *apiCall) std() (*val, bool) {
	switch c.id {
	case "errors.Is":
		return c.errorIs(), true
	case "errors.As":
		if len(c.args) == 2 {
			return plainVal(effect.Apply("==", c.arg(0), effect.Str("typed"))), true
		}
	case "errors.Join":
		return plainVal(effect.Apply("join", values(c.args)...)), true
	case "fmt.Sprintf":
		return plainVal(c.sprintf()), true
	case "fmt.Sprint", "path.Join", "path/filepath.Join":
		return plainVal(c.join()), true
	case "strings.Join":
		return c.stringsJoin(), true
	case "path/filepath.Dir", "path.Dir":
		return plainVal(effect.Apply("dir", c.arg(0))), true
	case "time.Now", "time.Since", "time.Until":
		return plainVal(effect.Now()), true
	case "os.Getpid":
		return plainVal(effect.Apply("pid")), true
	case "net/http.MaxBytesReader":
		if len(c.args) > 1 {
			return c.args[1], true
		}
	case "io.ReadAll", "io/ioutil.ReadAll":
		if len(c.args) == 1 {
			a := c.e.deref(c.args[0])
			if f := fileOf(a); f != nil {
				return c.readFile(f), true
			}
			return c.withNoError(decoded(a)), true
		}
	}
	if r, ok := c.moved(); ok {
		return r, true
	}
	if c.recv != nil && c.recv.kind == writerVal && !(c.method() == "Close" && strings.HasPrefix(c.id, "cloud.google.com/go/storage.")) {
		return c.wrapped()
	}
	if cls := knowledge.ErrorClass(c.id); cls != "" && len(c.args) == 1 {
		return plainVal(compare("==", c.arg(0), effect.Str(cls))), true
	}
	return nil, false
}

// moved are the functions that give their argument back in another form.
func (c *apiCall) moved() (*val, bool) {
	v := c.recv
	if len(c.args) > 0 {
		v = c.args[0]
	}
	switch knowledge.Moves(c.id) {
	case "error":
		return plainVal(effect.Apply("error", values(c.args)...)), true
	case "fresh":
		return c.withNoError(plainVal(effect.Fresh())), true
	case "same":
		if v != nil {
			return c.withNoError(v), true
		}
	case "encode":
		return c.withNoError(plainVal(effect.Apply("encode", c.arg(0)))), true
	case "decode":
		if len(c.args) == 2 {
			c.e.fill(c.args[1], decoded(c.e.deref(c.args[0])), c.at)
			return plainVal(effect.Unknown()), true
		}
	case "wrap":
		if len(c.args) > 0 {
			return c.withNoError(&val{kind: writerVal, recv: c.e.deref(c.args[0]), v: c.arg(0)}), true
		}
	}
	return nil, false
}

// decoded is the content of what was read: its fields have the names that the
// encoded form has.
func decoded(a *val) *val {
	if a == nil {
		return unknown()
	}
	if a.kind == requestVal {
		return plainVal(effect.In("body"))
	}
	v := a.v
	for v.Kind == effect.ApplyValue && v.Name == "encode" && len(v.Args) == 1 {
		v = v.Args[0]
	}
	return plainVal(v)
}

// withNoError gives v, and an unknown error if the function has one: of
// conversions, whose failure has nothing to do with other actors.
func (c *apiCall) withNoError(v *val) *val {
	res := c.f.Signature().Results()
	if res.Len() < 2 {
		return v
	}
	out := []*val{v}
	for i := 1; i < res.Len(); i++ {
		out = append(out, unknown())
	}
	return tuple(out)
}

// fill gives what a pointer points to a value.
func (e *ev) fill(p *val, a *val, at ast.Node) {
	switch {
	case p == nil:
	case p.kind == pointerVal:
		n := *a
		n.typ = p.cell.Type()
		e.set(p.cell, &n)
	case p.kind == stateVal:
		e.writeState(p, a.v, at)
	case p.kind == plain && p.v.Kind == effect.PathValue && p.v.Root() != "in":
		e.let(p.v.Name, a.v)
	case p.kind == structVal && a.v.Kind == effect.PathValue:
		p.kind, p.v, p.fields = plain, a.v, nil
	}
}

func (c *apiCall) errorIs() *val {
	if len(c.args) != 2 {
		return unknown()
	}
	target := c.args[1]
	if target.kind == errorVal {
		return plainVal(compare("==", c.arg(0), effect.Str(errorClass(target.name))))
	}
	return plainVal(effect.Apply("==", c.arg(0), target.v))
}

var verb = regexp.MustCompile(`%[-+# 0]*(\d+|\*)?(\.\d+)?(\[\d+\])?[a-zA-Z%]`)

// sprintf keeps the constant parts of what a format makes, in their places.
func (c *apiCall) sprintf() effect.Value {
	if len(c.args) == 0 {
		return effect.Unknown()
	}
	format, ok := constString(c.args[0].v)
	if !ok {
		return effect.Apply("sprintf", values(c.args)...)
	}
	rest := c.args[1:]
	if len(rest) == 1 && c.at != nil && c.at.Ellipsis.IsValid() {
		rest = rest[0].elems
	}
	var parts []effect.Value
	at, n := 0, 0
	for _, m := range verb.FindAllStringIndex(format, -1) {
		parts = append(parts, effect.Str(format[at:m[0]]))
		at = m[1]
		if format[m[1]-1] == '%' {
			parts = append(parts, effect.Str("%"))
			continue
		}
		v := effect.Unknown()
		if n < len(rest) && rest[n] != nil {
			v = c.e.deref(rest[n]).v
			if isConst(v) {
				if s, isStr := constString(v); isStr {
					v = effect.Str(s)
				} else {
					v = effect.Str(v.Name)
				}
			}
		}
		n++
		parts = append(parts, v)
	}
	parts = append(parts, effect.Str(format[at:]))
	var kept []effect.Value
	for _, p := range parts {
		if s, isStr := constString(p); isStr && s == "" {
			continue
		}
		kept = append(kept, p)
	}
	if len(kept) == 0 {
		return effect.Str("")
	}
	return concat(kept...)
}

func (c *apiCall) join() effect.Value {
	var parts []effect.Value
	for i, a := range c.args {
		if i > 0 && strings.HasSuffix(c.id, "Join") {
			parts = append(parts, effect.Str("/"))
		}
		parts = append(parts, c.e.deref(a).v)
	}
	if len(parts) == 0 {
		return effect.Str("")
	}
	return concat(parts...)
}

func (c *apiCall) stringsJoin() *val {
	if len(c.args) != 2 || len(c.args[0].elems) == 0 {
		return plainVal(effect.Apply("join", values(c.args)...))
	}
	var parts []effect.Value
	for i, a := range c.args[0].elems {
		if i > 0 {
			parts = append(parts, c.arg(1))
		}
		parts = append(parts, a.v)
	}
	return plainVal(concat(parts...))
}

// wrapped are the methods of encoders, decoders and buffers around something.
func (c *apiCall) wrapped() (*val, bool) {
	inner := c.recv.recv
	f := fileOf(inner)
	switch c.method() {
	case "Decode":
		if len(c.args) != 1 {
			return nil, false
		}
		if f != nil {
			bind := c.bind("content")
			c.e.emit(effect.Step{Op: effect.Read, Pos: c.pos(), Bind: bind, On: f.resource(), OnErr: effect.OnBind, Note: c.e.source(c.at)})
			c.e.fill(c.args[0], plainVal(effect.Var(bind)), c.at)
			return plainVal(effect.Var(bind, "err")), true
		}
		c.e.fill(c.args[0], decoded(inner), c.at)
		return plainVal(effect.Unknown()), true
	case "Encode", "Write", "WriteString", "WriteByte", "WriteRune", "WriteAll", "ReadFrom":
		if f != nil {
			v := c.arg(0)
			if c.method() == "Encode" {
				v = effect.Apply("encode", v)
			}
			return c.writeFile(f, v), true
		}
		if inner != nil && inner.kind == requestVal {
			return unknown(), true
		}
		if inner != nil && inner.kind == structVal && c.recv.v.Kind == effect.UnknownValue {
			c.recv.v = c.arg(0) // an object store's writer: the content goes out at Close
		}
		return c.withNoError(unknown()), true
	case "Flush", "Close", "SetIndent", "SetEscapeHTML", "DisallowUnknownFields", "KnownFields", "UseNumber":
		return unknown(), true
	case "Scan":
		if f != nil {
			bind := c.bind("content")
			c.e.emit(effect.Step{Op: effect.Read, Pos: c.pos(), Bind: bind, On: f.resource(), OnErr: effect.OnDrop})
			c.recv.v = effect.Var(bind)
			c.recv.recv = plainVal(effect.Var(bind))
		}
		return plainVal(effect.Apply("more", c.recv.v)), true
	case "Text", "Bytes":
		return plainVal(c.recv.v), true
	}
	return nil, false
}

// sync knows locks, groups and once.
func (c *apiCall) sync() (*val, bool) {
	if c.recv != nil && c.recv.kind == mutexVal {
		return c.mutex()
	}
	name := typeName(recvType(c.f))
	switch name {
	case "sync.Mutex", "sync.RWMutex", "sync.Locker":
		if c.recv == nil {
			return nil, false
		}
		// an embedded mutex
		switch c.recv.kind {
		case sharedVal:
			n := c.recv.name
			if t := typeName(c.recv.typ); t != "" {
				n = shortName(t)
			}
			m := *c
			m.recv = &val{kind: mutexVal, name: n + "." + name[strings.IndexByte(name, '.')+1:]}
			return m.mutex()
		case plain, structVal:
			m := *c
			m.recv = &val{kind: mutexVal, name: c.e.localName("mu")}
			return m.mutex()
		}
	case "golang.org/x/sync/singleflight.Group":
		return c.singleflight()
	case "golang.org/x/sync/errgroup.Group", "sync.WaitGroup", "github.com/sourcegraph/conc.WaitGroup", "github.com/sourcegraph/conc/pool.Pool":
		switch c.method() {
		case "Go", "TryGo":
			if len(c.args) == 1 {
				c.e.spawnCall(c.args[0], nil, c.at)
			}
			return unknown(), true
		case "Wait":
			bind := c.bind("wait")
			c.e.emit(effect.Step{Op: effect.Wait, Pos: c.pos(), Bind: bind, OnErr: effect.OnBind})
			return c.result(bind), true
		}
		return unknown(), true
	case "sync.Once":
		if c.method() == "Do" && len(c.args) == 1 {
			c.e.callValue(c.args[0], nil, c.at)
			return unknown(), true
		}
	}
	return nil, false
}

func recvType(f *types.Func) types.Type {
	if r := f.Signature().Recv(); r != nil {
		return r.Type()
	}
	return nil
}

func (c *apiCall) mutex() (*val, bool) {
	s := effect.Step{Pos: c.pos(), On: &effect.Resource{Kind: effect.MutexKind, Name: c.recv.name, Key: c.recv.key}, OnErr: effect.OnDrop}
	switch c.method() {
	case "Lock", "RLock":
		s.Op, s.Shared = effect.Lock, c.method() == "RLock"
	case "Unlock", "RUnlock":
		s.Op, s.Shared = effect.Unlock, c.method() == "RUnlock"
	case "TryLock", "TryRLock":
		s.Op, s.Try, s.Bind, s.Shared = effect.Lock, true, c.bind("l"), c.method() == "TryRLock"
		c.e.emit(s)
		return plainVal(effect.Var(s.Bind, "ok")), true
	default:
		return nil, false
	}
	c.e.emit(s)
	return unknown(), true
}

// singleflight lets one call per key run at a time in the process, which is what
// a lock per key does for the effects inside.
func (c *apiCall) singleflight() (*val, bool) {
	if (c.method() != "Do" && c.method() != "DoChan") || len(c.args) != 2 {
		return unknown(), true
	}
	name := c.e.localName("singleflight")
	if c.recv != nil && c.recv.name != "" {
		name = c.recv.name + ".singleflight"
	}
	on := &effect.Resource{Kind: effect.MutexKind, Name: name, Key: []effect.Assign{{Col: "key", Val: c.arg(0)}}}
	c.e.emit(effect.Step{Op: effect.Lock, Pos: c.pos(), On: on, OnErr: effect.OnDrop})
	r := c.e.callValue(c.args[1], nil, c.at)
	c.e.emit(effect.Step{Op: effect.Unlock, Pos: c.pos(), On: on, OnErr: effect.OnDrop})
	if r.kind == tupleVal && len(r.elems) == 2 {
		return tuple([]*val{r.elems[0], r.elems[1], unknown()}), true
	}
	return tuple([]*val{unknown(), unknown(), unknown()}), true
}

// stateMethod are methods of atomics and sync.Map on shared variables.
func (e *ev) stateMethod(name string, place *val, args []*val, at *ast.CallExpr) (*val, bool) {
	tn := typeName(place.typ)
	arg := func(i int) effect.Value {
		if i < len(args) {
			return e.deref(args[i]).v
		}
		return effect.Unknown()
	}
	on := func(key ...effect.Assign) *effect.Resource {
		return &effect.Resource{Kind: effect.VarKind, Name: place.name, Key: append(append([]effect.Assign(nil), place.key...), key...)}
	}
	emit := func(s effect.Step) *val {
		s.Pos, s.OnErr, s.Bind = e.pos(at), effect.OnDrop, e.fresh(place.name[lastDot(place.name)+1:])
		e.emit(s)
		return plainVal(effect.Var(s.Bind))
	}
	switch {
	case isAtomic(tn):
		switch name {
		case "Load":
			return emit(effect.Step{Op: effect.Read, On: on()}), true
		case "Store":
			return emit(effect.Step{Op: effect.Write, Mode: effect.Update, On: on(), Set: []effect.Assign{{Col: "*", Val: arg(0)}}}), true
		case "Add", "And", "Or":
			return emit(effect.Step{Op: effect.Write, Mode: effect.Update, On: on(), Set: []effect.Assign{{Col: "*", Val: effect.Apply("+", effect.Col("value"), arg(0))}}}), true
		case "Swap":
			return emit(effect.Step{Op: effect.Write, Mode: effect.Update, On: on(), Set: []effect.Assign{{Col: "*", Val: arg(0)}}}), true
		case "CompareAndSwap":
			v := emit(effect.Step{Op: effect.Write, Mode: effect.Update, On: on(), Where: []effect.Cond{{Col: "value", Op: "==", Val: arg(0)}}, Set: []effect.Assign{{Col: "*", Val: arg(1)}}})
			return plainVal(effect.Apply("==", effect.Var(v.v.Name, "rows"), effect.Int(1))), true
		}
	case tn == "sync.Map":
		key := effect.Assign{Col: "key", Val: arg(0)}
		elem := &val{kind: stateVal, name: place.name, key: append(append([]effect.Assign(nil), place.key...), key), typ: types.Typ[types.Int]}
		switch name {
		case "Load":
			v := emit(effect.Step{Op: effect.Read, On: on(key)})
			elem.v = v.v
			return tuple([]*val{{kind: plain, v: v.v, name: place.name, key: elem.key}, plainVal(effect.Var(v.v.Name, "found"))}), true
		case "Store":
			return emit(effect.Step{Op: effect.Write, Mode: effect.Put, On: on(key), Set: []effect.Assign{{Col: "*", Val: arg(1)}}}), true
		case "LoadOrStore":
			if len(args) == 2 && (isMutexType(args[1].typ) || args[1].kind == mutexVal) {
				m := &val{kind: mutexVal, name: place.name, key: elem.key}
				return tuple([]*val{m, unknown()}), true
			}
			v := emit(effect.Step{Op: effect.Write, Mode: effect.Create, On: on(key), Set: []effect.Assign{{Col: "*", Val: arg(1)}}})
			return tuple([]*val{unknown(), plainVal(effect.Apply("!", effect.Var(v.v.Name, "ok")))}), true
		case "Delete", "LoadAndDelete":
			v := emit(effect.Step{Op: effect.Write, Mode: effect.Delete, On: on(key)})
			return tuple([]*val{unknown(), plainVal(effect.Apply("==", effect.Var(v.v.Name, "rows"), effect.Int(1)))}), true
		}
		return unknown(), true
	}
	return nil, false
}
