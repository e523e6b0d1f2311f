package golang

import (
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// kv knows what of Redis, etcd and Cloud Storage is more than one call.
func (c *apiCall) kv() (*val, bool) {
	switch {
	case strings.HasPrefix(c.id, "github.com/redis/go-redis."):
		return c.redis()
	case strings.HasPrefix(c.id, "go.etcd.io/etcd/client"):
		return c.etcd()
	case strings.HasPrefix(c.id, "cloud.google.com/go/storage."):
		return c.gcs()
	case strings.HasPrefix(c.id, "go.etcd.io/bbolt."):
		return c.bolt()
	}
	return nil, false
}

// lockKey says whether a key is that of a lock, by its name.
func lockKey(v effect.Value) bool {
	found := false
	var look func(effect.Value)
	look = func(v effect.Value) {
		if s, ok := constString(v); ok {
			l := strings.ToLower(s)
			found = found || strings.Contains(l, "lock") || strings.Contains(l, "mutex")
		}
		if v.Kind == effect.PathValue || v.Kind == effect.ApplyValue && v.Name == "config" {
			found = found || strings.Contains(strings.ToLower(v.String()), "lock")
		}
		for _, a := range v.Args {
			look(a)
		}
	}
	look(v)
	return found
}

func (c *apiCall) redis() (*val, bool) {
	switch c.method() {
	case "SetNX", "SetArgs":
		if lockKey(c.arg(1)) {
			s := effect.Step{Op: effect.Lock, Try: true, Stale: "age", Pos: c.pos(), Bind: c.bind("lock"), On: lease(c.arg(1)), OnErr: effect.OnBind}
			if len(c.args) > 3 && c.arg(3).String() == "0" {
				s.Stale = ""
			}
			c.e.emit(s)
			return &val{kind: queryVal, query: &query{bind: s.Bind, done: true}, v: effect.Var(s.Bind, "ok")}, true
		}
	case "Del", "Unlink":
		if lockKey(c.firstKey()) {
			bind := c.bind("freed")
			c.e.emit(effect.Step{Op: effect.Unlock, Pos: c.pos(), Bind: bind, On: lease(c.firstKey()), OnErr: effect.OnBind})
			return &val{kind: queryVal, query: &query{bind: bind, done: true}, v: effect.Unknown()}, true
		}
	case "Eval", "EvalSha", "Run":
		return c.redisScript(), true
	case "Watch":
		return c.redisWatch(), true
	case "TxPipelined", "Pipelined":
		return c.redisPipelined()
	case "Pipeline", "TxPipeline":
		return c.recv, true
	case "Exec":
		return c.withNoError(unknown()), true
	}
	return nil, false
}

// firstKey is the key of a command with variadic keys.
func (c *apiCall) firstKey() effect.Value {
	if len(c.args) < 2 {
		return effect.Unknown()
	}
	if e := c.args[1].elems; len(e) > 0 {
		return e[0].v
	}
	return c.arg(1)
}

func lease(key effect.Value) *effect.Resource {
	return &effect.Resource{Kind: effect.LeaseKind, Name: "redis", Key: []effect.Assign{{Col: "key", Val: key}}}
}

// redisScript: a script runs alone. One that compares and deletes is the release
// of a lock by its owner; what others do is not known.
func (c *apiCall) redisScript() *val {
	text := ""
	for _, a := range c.args {
		if s, ok := constString(a.v); ok && strings.Contains(s, "redis.call") {
			text = strings.ToLower(s)
		}
		if len(a.elems) > 0 && lockKey(a.elems[0].v) && strings.Contains(text, "del") {
			bind := c.bind("freed")
			owner := effect.Unknown()
			if n := len(c.args); n > 0 {
				owner = c.arg(n - 1)
			}
			c.e.emit(effect.Step{Op: effect.Unlock, Pos: c.pos(), Bind: bind, On: lease(a.elems[0].v), Owner: &owner, OnErr: effect.OnBind})
			return &val{kind: queryVal, query: &query{bind: bind, done: true}, v: effect.Unknown()}
		}
	}
	return &val{kind: queryVal, query: &query{bind: c.e.fresh("script"), done: true}, v: effect.Unknown()}
}

// redisWatch is an optimistic transaction: what it reads is guarded until the
// pipeline in it commits.
func (c *apiCall) redisWatch() *val {
	if len(c.args) < 2 {
		return unknown()
	}
	bind := c.e.fresh("watch")
	c.e.emit(effect.Step{Op: effect.Begin, Pos: c.pos(), Bind: bind, Iso: "optimistic"})
	keys := c.args[2:]
	for _, k := range keys {
		vs := []*val{k}
		if len(k.elems) > 0 {
			vs = k.elems
		}
		for _, v := range vs {
			c.e.emit(effect.Step{Op: effect.Guard, Pos: c.pos(), Tx: bind, On: &effect.Resource{Kind: effect.CacheKind, Name: "redis", Key: []effect.Assign{{Col: "key", Val: v.v}}}})
		}
	}
	tx := &val{kind: plain, name: "watch:" + bind, v: effect.Unknown()}
	r := c.e.callValue(c.args[1], []*val{tx}, c.at)
	if isNil(r.v) || r.v.Kind == effect.UnknownValue {
		return unknown()
	}
	return r
}

// redisPipelined runs the commands of a callback together; inside a Watch that is
// where the transaction commits.
func (c *apiCall) redisPipelined() (*val, bool) {
	if len(c.args) < 2 {
		return nil, false
	}
	tx, inWatch := "", false
	if c.recv != nil {
		tx, inWatch = strings.CutPrefix(c.recv.name, "watch:")
	}
	if !inWatch {
		tx = c.e.fresh("multi")
		if c.method() == "TxPipelined" {
			c.e.emit(effect.Step{Op: effect.Begin, Pos: c.pos(), Bind: tx, OnErr: effect.OnDrop})
		}
	}
	was := len(*c.e.out)
	c.e.callValue(c.args[1], []*val{c.recv}, c.at)
	if c.method() != "TxPipelined" && !inWatch {
		return c.withNoError(unknown()), true
	}
	for i := was; i < len(*c.e.out); i++ {
		if s := &(*c.e.out)[i]; s.On != nil && s.On.Kind == effect.CacheKind && s.Op == effect.Write {
			s.Tx = tx
		}
	}
	bind := c.e.fresh("committed")
	c.e.emit(effect.Step{Op: effect.Commit, Pos: c.pos(), Bind: bind, Tx: tx, OnErr: effect.OnBind})
	return c.result(bind), true
}

// etcd transactions: If compares, Then puts, Commit runs.
func (c *apiCall) etcd() (*val, bool) {
	m := c.method()
	switch {
	case m == "Txn":
		return &val{kind: structVal, fields: map[string]*val{"ops": {}}, typ: c.f.Signature().Results().At(0).Type(), v: effect.Unknown()}, true
	case m == "OpPut" || m == "OpDelete" || m == "OpGet":
		return &val{kind: plain, name: "etcd:" + m, elems: c.args, v: effect.Unknown()}, true
	case m == "Compare":
		if len(c.args) > 2 {
			return &val{kind: plain, name: "cmp", v: c.arg(2), elems: c.args[:1]}, true
		}
	case m == "Version" || m == "CreateRevision" || m == "ModRevision" || m == "Value":
		if len(c.args) == 1 {
			return &val{kind: plain, name: m, v: c.arg(0)}, true
		}
	}
	if c.recv == nil || c.recv.kind != structVal || c.recv.fields["ops"] == nil {
		return nil, false
	}
	t := *c.recv
	t.fields = map[string]*val{}
	for k, v := range c.recv.fields {
		t.fields[k] = v
	}
	switch m {
	case "If":
		t.fields["if"] = &val{elems: c.spreadElems()}
	case "Then":
		t.fields["ops"] = &val{elems: c.spreadElems()}
	case "Else":
	case "Commit":
		return c.etcdCommit(&t), true
	default:
		return nil, false
	}
	return &t, true
}

func (c *apiCall) etcdCommit(t *val) *val {
	bind := c.bind("txn")
	for _, op := range t.fields["ops"].elems {
		if op.name != "etcd:OpPut" && op.name != "etcd:OpDelete" || len(op.elems) == 0 {
			continue
		}
		s := effect.Step{Op: effect.Write, Mode: effect.Put, Pos: c.pos(), Bind: bind, On: &effect.Resource{Kind: effect.ObjectKind, Name: "etcd", Key: []effect.Assign{{Col: "key", Val: op.elems[0].v}}}, OnErr: effect.OnBind}
		if op.name == "etcd:OpDelete" {
			s.Mode = effect.Delete
		} else if len(op.elems) > 1 {
			s.Set = []effect.Assign{{Col: "*", Val: op.elems[1].v}}
		}
		if cond := t.fields["if"]; cond != nil {
			for _, x := range cond.elems {
				zero := x.v.String() == "0"
				if zero && s.Mode == effect.Put {
					s.Mode = effect.Create
					continue
				}
				col := "version"
				if len(x.elems) > 0 && x.elems[0].name == "Value" {
					col = "value"
				}
				s.Where = append(s.Where, effect.Cond{Col: col, Op: "==", Val: x.v})
			}
		}
		c.e.emit(s)
	}
	resp := &val{kind: structVal, fields: map[string]*val{"Succeeded": plainVal(effect.Apply("==", effect.Var(bind, "rows"), effect.Int(1)))}, v: effect.Var(bind)}
	return c.result(bind, resp)
}

// gcs is the chain Bucket(b).Object(k).If(conditions).NewWriter(ctx).
func (c *apiCall) gcs() (*val, bool) {
	m := c.method()
	with := func(name string, a *val) *val {
		n := &val{kind: structVal, fields: map[string]*val{}, typ: c.f.Signature().Results().At(0).Type(), v: effect.Unknown()}
		if c.recv != nil {
			for k, v := range c.recv.fields {
				n.fields[k] = v
			}
		}
		n.fields[name] = a
		return n
	}
	switch m {
	case "Bucket":
		return with("bucket", c.args[0]), true
	case "Object":
		return with("key", c.args[0]), true
	case "If":
		return with("if", c.e.deref(c.args[0])), true
	case "Generation":
		return with("gen", c.args[0]), true
	}
	if c.recv == nil {
		return nil, false
	}
	if c.recv.kind == writerVal && m == "Close" && c.recv.recv != nil {
		return c.gcsWrite(c.recv.recv, c.recv.v), true
	}
	if c.recv.kind != structVal {
		return nil, false
	}
	switch m {
	case "NewWriter":
		return &val{kind: writerVal, recv: c.recv, v: effect.Unknown()}, true
	case "NewReader", "Attrs":
		op := effect.Read
		if m == "Attrs" {
			op = effect.Check
		}
		bind := c.bind("obj")
		c.e.emit(effect.Step{Op: op, Pos: c.pos(), Bind: bind, On: gcsObject(c.recv), Missing: "error", OnErr: effect.OnBind})
		return c.result(bind, plainVal(effect.Var(bind))), true
	case "Delete":
		bind := c.bind("deleted")
		s := effect.Step{Op: effect.Write, Mode: effect.Delete, Pos: c.pos(), Bind: bind, On: gcsObject(c.recv), OnErr: effect.OnBind}
		gcsConditions(&s, c.recv)
		c.e.emit(s)
		return c.result(bind), true
	}
	return nil, false
}

func gcsObject(h *val) *effect.Resource {
	r := &effect.Resource{Kind: effect.BlobKind, Name: "gcs"}
	for _, k := range []string{"bucket", "key"} {
		if f := h.fields[k]; f != nil {
			r.Key = append(r.Key, effect.Assign{Col: k, Val: f.v})
		}
	}
	return r
}

func gcsConditions(s *effect.Step, h *val) {
	cond := h.fields["if"]
	if cond == nil || cond.kind != structVal {
		return
	}
	if f := cond.fields["GenerationMatch"]; f != nil {
		s.Where = append(s.Where, effect.Cond{Col: "version", Op: "==", Val: f.v})
	}
	if f := cond.fields["DoesNotExist"]; f != nil && f.v.Name == "true" {
		s.Mode = effect.Create
	}
}

// gcsWrite: the object changes when the writer is closed, and only there an
// unmet condition shows.
func (c *apiCall) gcsWrite(h *val, v effect.Value) *val {
	bind := c.bind("stored")
	s := effect.Step{Op: effect.Write, Mode: effect.Put, Pos: c.pos(), Bind: bind, On: gcsObject(h), Set: []effect.Assign{{Col: "*", Val: v}}, OnErr: effect.OnBind}
	gcsConditions(&s, h)
	c.e.emit(s)
	return c.result(bind)
}

// bolt's Update runs one writer at a time, which is a serializable transaction.
func (c *apiCall) bolt() (*val, bool) {
	switch c.method() {
	case "Update", "Batch", "View":
		if len(c.args) == 1 {
			bind := c.e.fresh("tx")
			c.e.emit(effect.Step{Op: effect.Begin, Pos: c.pos(), Bind: bind, Iso: "serializable"})
			r := c.e.callValue(c.args[0], []*val{unknown()}, c.at)
			return c.endTx(bind, r), true
		}
	}
	return nil, false
}

// send knows clients of services that have no list of functions: generated gRPC
// clients, and payment SDKs.
func (c *apiCall) send() (*val, bool) {
	if grpcClient(c.f) {
		name := strings.TrimSuffix(shortName(typeName(recvTypeOrAny(c.f))), "Client")
		bind := c.bind(strings.ToLower(c.method()))
		s := effect.Step{Op: effect.Send, Pos: c.pos(), Bind: bind, On: &effect.Resource{Kind: effect.RemoteKind, Name: name[strings.LastIndexByte(name, '.')+1:]}, OnErr: effect.OnBind, Note: c.method()}
		if m := c.method(); strings.HasPrefix(m, "Get") || strings.HasPrefix(m, "List") || strings.HasPrefix(m, "Check") || strings.HasPrefix(m, "Find") {
			s.Op = effect.Read
		} else if len(c.args) > 1 {
			s.Set = []effect.Assign{{Col: "request", Val: c.arg(1)}}
		}
		c.e.emit(s)
		return c.result(bind, plainVal(effect.Var(bind))), true
	}
	if strings.HasPrefix(c.id, "github.com/stripe/stripe-go/") {
		switch c.method() {
		case "New", "Capture", "Confirm", "Cancel", "Update", "Pay", "Create":
			return c.stripe(), true
		}
	}
	return nil, false
}

func (c *apiCall) stripe() *val {
	bind := c.bind("charge")
	s := effect.Step{Op: effect.Send, Pos: c.pos(), Bind: bind, On: &effect.Resource{Kind: effect.RemoteKind, Name: "api.stripe.com"}, OnErr: effect.OnBind, Note: c.method()}
	for _, a := range c.args {
		d := c.e.deref(a)
		if d == nil || d.kind != structVal {
			continue
		}
		for _, f := range sortedKeys(d.fields) {
			v := d.fields[f]
			switch {
			case f == "IdempotencyKey":
				k := v.v
				s.Idem = &k
			case f == "Params" && v.kind == structVal && v.fields["IdempotencyKey"] != nil:
				k := v.fields["IdempotencyKey"].v
				s.Idem = &k
			default:
				s.Set = append(s.Set, effect.Assign{Col: snake(f), Val: v.v})
			}
		}
	}
	c.e.emit(s)
	return c.result(bind, plainVal(effect.Var(bind)))
}
