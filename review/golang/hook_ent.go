package golang

import (
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/sql"
)

// ent knows the code that ent generates: it is part of the analysed packages, but
// its bodies are machinery, and their names say all. They are told by the package
// (its last element is ent, or a folder of one) and the type's suffix.
func (c *apiCall) ent() (*val, bool) {
	if c.f.Pkg() == nil || !entPackage(c.f.Pkg().Path()) {
		return nil, false
	}
	res := c.f.Signature().Results()
	if c.f.Signature().Recv() == nil {
		if res.Len() == 1 && strings.Contains(typeName(res.At(0).Type()), "/predicate.") {
			return c.entPredicate(), true
		}
		return nil, false
	}
	recv := shortName(typeName(recvTypeOrAny(c.f)))
	name := recv[strings.LastIndexByte(recv, '.')+1:]
	m := c.method()
	switch {
	case name == "Client" && (m == "Tx" || m == "BeginTx"):
		bind := c.bind("tx")
		c.e.emit(effect.Step{Op: effect.Begin, Pos: c.pos(), Bind: bind, Iso: c.isolation(), OnErr: effect.OnBind})
		return c.result(bind, &val{kind: handleVal, tx: bind, v: effect.Var(bind), typ: res.At(0).Type()}), true
	case name == "Tx" && (m == "Commit" || m == "Rollback"):
		s := effect.Step{Op: effect.Commit, Pos: c.pos(), Bind: c.bind(strings.ToLower(m)), Tx: txOf(c.recv), OnErr: effect.OnBind}
		if m == "Rollback" {
			s.Op = effect.Rollback
		}
		c.e.emit(s)
		return c.result(s.Bind), true
	case name == "Tx" && m == "Client":
		return c.recv, true
	case name == "Client":
		return nil, false
	case strings.HasSuffix(name, "Client"):
		return c.entClient(snake(strings.TrimSuffix(name, "Client")), m)
	}
	if c.recv != nil && c.recv.query != nil && c.recv.query.build != nil {
		return c.entBuild(m)
	}
	return nil, false
}

func entPackage(p string) bool {
	return strings.HasSuffix(p, "/ent") || strings.Contains(p, "/ent/") && !strings.HasPrefix(p, "entgo.io/")
}

var entOps = []struct{ suffix, op string }{{"NEQ", "!="}, {"GTE", ">="}, {"LTE", "<="}, {"EQ", "=="}, {"GT", ">"}, {"LT", "<"}, {"IsNil", "nil"}, {"NotNil", "!nil"}}

// entPredicate is a condition: user.BalanceGTE(x).
func (c *apiCall) entPredicate() *val {
	name := c.f.Name()
	for _, o := range entOps {
		col, ok := strings.CutSuffix(name, o.suffix)
		if !ok || col == "" {
			continue
		}
		switch o.op {
		case "nil":
			return &val{kind: plain, name: "pred:" + snake(col) + ":==", v: effect.Lit("nil")}
		case "!nil":
			return &val{kind: plain, name: "pred:" + snake(col) + ":!=", v: effect.Lit("nil")}
		}
		return &val{kind: plain, name: "pred:" + snake(col) + ":" + o.op, v: c.arg(0)}
	}
	if name == "And" && len(c.args) == 1 {
		return c.args[0]
	}
	v := c.arg(0)
	for _, s := range []string{"In", "NotIn", "Contains", "HasPrefix", "HasSuffix", "EqualFold", "ContainsFold"} {
		if col, ok := strings.CutSuffix(name, s); ok && col != "" {
			name, v = col, effect.Unknown()
		}
	}
	if name == "Or" || name == "Not" || strings.HasPrefix(name, "Has") {
		name, v = "_", effect.Unknown()
	}
	return &val{kind: plain, name: "pred:" + snake(name) + ":==", v: v}
}

func (c *apiCall) entClient(entity, m string) (*val, bool) {
	b := &build{lib: "ent", table: plural(entity)}
	byID := func() { b.conds = append(b.conds, buildCond{col: "id", op: "==", val: c.arg(0)}) }
	switch m {
	case "Create", "CreateBulk":
		b.verb = sql.Insert
	case "Update":
		b.verb = sql.Update
	case "UpdateOneID":
		b.verb = sql.Update
		byID()
	case "UpdateOne":
		b.verb = sql.Update
		b.conds = append(b.conds, buildCond{col: "id", op: "==", val: path(c.arg(0), "id")})
	case "Delete":
		b.verb = sql.Delete
	case "DeleteOneID":
		b.verb = sql.Delete
		byID()
	case "DeleteOne":
		b.verb = sql.Delete
		b.conds = append(b.conds, buildCond{col: "id", op: "==", val: path(c.arg(0), "id")})
	case "Query":
		b.verb = sql.Select
	case "Get", "GetX":
		b.conds = append(b.conds, buildCond{col: "id", op: "==", val: c.arg(1)})
		bind := c.entRead(b, txOf(c.recv), "error", effect.Read)
		return c.result(bind, plainVal(effect.Var(bind))), true
	default:
		return nil, false
	}
	return &val{kind: queryVal, query: &query{build: b, tx: txOf(c.recv)}, v: effect.Unknown()}, true
}

// entRead names what is read after the variable that it goes to.
func (c *apiCall) entRead(b *build, tx, missing string, op effect.Op) string {
	if n := c.e.b.wants[c.at]; n != "" {
		b.model = &val{kind: typeVal, name: n}
	}
	return c.read(b, tx, missing, op)
}

func (c *apiCall) entBuild(m string) (*val, bool) {
	b := c.buildOf("ent")
	tx := c.recv.query.tx
	switch {
	case strings.HasPrefix(m, "SetNillable"):
		b.set = append(b.set, effect.Assign{Col: snake(strings.TrimPrefix(m, "SetNillable")), Val: c.arg(0)})
	case strings.HasPrefix(m, "Set") && len(c.args) == 1:
		b.set = append(b.set, effect.Assign{Col: snake(strings.TrimPrefix(m, "Set")), Val: c.arg(0)})
	case strings.HasPrefix(m, "Clear"):
		b.set = append(b.set, effect.Assign{Col: snake(strings.TrimPrefix(m, "Clear")), Val: effect.Lit("nil")})
	case strings.HasPrefix(m, "Add") && len(c.args) == 1 && b.verb == sql.Update && !strings.HasSuffix(m, "IDs"):
		col := snake(strings.TrimPrefix(m, "Add"))
		b.set = append(b.set, effect.Assign{Col: col, Val: effect.Apply("+", effect.Col(col), c.arg(0))})
	case m == "Where":
		for _, a := range c.spreadElems() {
			c.predicate(b, a)
		}
	case m == "ForUpdate":
		b.lock = "update"
	case m == "ForShare":
		b.lock = "share"
	case strings.HasPrefix(m, "OnConflict"):
		b.conflict = effect.Upsert
	case m == "DoNothing" || m == "Ignore":
		b.conflict = effect.Ignore
	default:
		return c.entRun(b, tx, m)
	}
	return c.again(b), true
}

func (c *apiCall) entRun(b *build, tx, m string) (*val, bool) {
	switch m {
	case "Save", "SaveX", "Exec", "ExecX":
		mode := map[sql.Verb]string{sql.Insert: effect.Insert, sql.Update: effect.Update, sql.Delete: effect.Delete}[b.verb]
		if mode == "" {
			return nil, false
		}
		bind := c.write(b, tx, mode, b.set)
		res := c.f.Signature().Results()
		if res.Len() > 0 && isBasicNamed(res.At(0).Type()) {
			return c.result(bind, plainVal(effect.Var(bind, "rows"))), true
		}
		return c.result(bind, plainVal(effect.Var(bind))), true
	case "Only", "OnlyX", "First", "FirstX", "OnlyID", "FirstID":
		bind := c.entRead(b, tx, "error", effect.Read)
		return c.result(bind, plainVal(effect.Var(bind))), true
	case "All", "AllX", "IDs":
		bind := c.entRead(b, tx, "", effect.Read)
		return c.result(bind, plainVal(effect.Var(bind))), true
	case "Count", "CountX":
		b.agg = "count"
		bind := c.entRead(b, tx, "", effect.Read)
		return c.result(bind, plainVal(effect.Var(bind, "count"))), true
	case "Exist", "ExistX":
		bind := c.entRead(b, tx, "", effect.Check)
		return c.result(bind, plainVal(effect.Var(bind, "found"))), true
	}
	if c.f.Signature().Results().Len() == 1 {
		return c.recv, true // Order, Limit, With...: how it is read, not what
	}
	return nil, false
}
