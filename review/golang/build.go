package golang

import (
	"go/ast"
	"go/types"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/sql"
)

// build is a statement that an ORM or a query builder puts together. It is
// copied at each step: a chain that branches gives two statements.
type build struct {
	lib      string
	verb     sql.Verb
	table    string
	model    *val // the value given as model or destination
	conds    []buildCond
	set      []effect.Assign
	exprs    []buildCond // SET written as text
	cols     []string
	only     []string // columns that an update of a whole struct is limited to
	lock     string
	void     string
	conflict string // mode of an insert that meets a row
	agg      string
	raw      string
	rawArgs  []*val
	pk       bool // the model's primary key is a condition
}

// buildCond is a condition: text with arguments, or a column with a value.
type buildCond struct {
	text string
	args []*val
	col  string
	op   string
	val  effect.Value
}

func (b *build) clone() *build {
	n := *b
	n.conds = append([]buildCond(nil), b.conds...)
	n.set = append([]effect.Assign(nil), b.set...)
	n.exprs = append([]buildCond(nil), b.exprs...)
	n.only = append([]string(nil), b.only...)
	return &n
}

// buildOf is the statement that a receiver has put together so far.
func (c *apiCall) buildOf(lib string) *build {
	if c.recv != nil && c.recv.query != nil && c.recv.query.build != nil {
		return c.recv.query.build.clone()
	}
	return &build{lib: lib}
}

// again gives the receiver with another statement.
func (c *apiCall) again(b *build) *val {
	n := *c.recv
	if n.kind != handleVal {
		n.kind = queryVal
	}
	n.query = &query{build: b, tx: txOf(c.recv)}
	if c.recv.kind == queryVal && c.recv.query != nil {
		n.query.tx = c.recv.query.tx
	}
	return &n
}

// where adds a condition the way all ORMs here write it: a text with arguments, a
// map, a struct whose set fields count, or a bare primary key.
func (c *apiCall) where(b *build, args []*val) {
	if len(args) == 0 || args[0] == nil {
		return
	}
	first := c.e.deref(args[0])
	if text, ok := sqlText(first.v); ok && first.kind == plain {
		if !strings.ContainsAny(text, " =<>?"+sql.Hole) && len(args) == 2 { // Where("id", x)
			b.conds = append(b.conds, buildCond{col: strings.ToLower(text), op: "==", val: c.e.deref(args[1]).v})
			return
		}
		b.conds = append(b.conds, buildCond{text: text, args: c.spread(args[1:])})
		return
	}
	switch {
	case first.kind == structVal:
		for _, f := range sortedKeys(first.fields) {
			b.conds = append(b.conds, buildCond{col: c.e.fieldColumn(first.typ, f), op: "==", val: first.fields[f].v})
		}
	case len(first.fields) > 0: // a map literal
		for _, f := range sortedKeys(first.fields) {
			b.conds = append(b.conds, buildCond{col: strings.ToLower(f), op: "==", val: first.fields[f].v})
		}
	case first.name != "" && strings.HasPrefix(first.name, "pred:"):
		for _, a := range args {
			c.predicate(b, c.e.deref(a))
		}
	case first.typ != nil && structOf(first.typ) != nil:
	default:
		b.conds = append(b.conds, buildCond{col: "id", op: "==", val: first.v})
	}
}

// predicate is a condition made by a generated function: pred:column:operator.
func (c *apiCall) predicate(b *build, p *val) {
	if p == nil || !strings.HasPrefix(p.name, "pred:") {
		return
	}
	parts := strings.Split(p.name, ":")
	if len(parts) == 3 {
		b.conds = append(b.conds, buildCond{col: parts[1], op: parts[2], val: p.v})
	}
}

// tableOf names the table: as given, or by the model's type.
func (c *apiCall) tableOf(b *build) string {
	if b.table != "" {
		return strings.ToLower(b.table)
	}
	if b.model == nil {
		return "?"
	}
	t := b.model.typ
	if b.model.kind == pointerVal {
		t = b.model.cell.Type()
	}
	if b.model.kind == plain && t == nil {
		return "?"
	}
	return c.e.b.tableName(t, b.lib)
}

// tableName is the table that the ORMs' conventions give a type.
func (b *builder) tableName(t types.Type, lib string) string {
	for i := 0; t != nil && i < 4; i++ {
		switch u := types.Unalias(t).(type) {
		case *types.Pointer:
			t = u.Elem()
			continue
		case *types.Slice:
			t = u.Elem()
			continue
		case *types.Array:
			t = u.Elem()
			continue
		}
		break
	}
	n := typeName(t)
	if n == "" {
		return "?"
	}
	at := lastDot(n)
	for _, recv := range []string{"." + n[at+1:] + ".", ".(*" + n[at+1:] + ")."} {
		if d := b.w.funcs[n[:max(at, 0)]+recv+"TableName"]; d != nil {
			if s := returnedString(d); s != "" {
				return strings.ToLower(s[strings.LastIndexByte(s, '.')+1:])
			}
		}
	}
	name := snake(n[at+1:])
	if lib == "xorm" {
		return name
	}
	if b.schema.Tables[plural(name)] == nil && b.schema.Tables[name] != nil {
		return name
	}
	return plural(name)
}

// returnedString is the constant that a function returns.
func returnedString(d *declared) string {
	out := ""
	ast.Inspect(d.decl.Body, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 1 {
			if tv := d.info.Types[r.Results[0]]; tv.Value != nil {
				out, _ = constString(constValue(tv.Value))
			}
		}
		return out == ""
	})
	return out
}

// plural follows the rules that the ORMs' own inflection agrees on for ordinary
// nouns.
func plural(s string) string {
	switch {
	case s == "":
		return s
	case hasSuffixAny(s, "person"):
		return s[:len(s)-6] + "people"
	case hasSuffixAny(s, "child"):
		return s + "ren"
	case hasSuffixAny(s, "s", "x", "z", "ch", "sh"):
		if hasSuffixAny(s, "news", "info", "series") {
			return s
		}
		return s + "es"
	case hasSuffixAny(s, "y") && len(s) > 1 && !strings.ContainsRune("aeiou", rune(s[len(s)-2])):
		return s[:len(s)-1] + "ies"
	case hasSuffixAny(s, "data", "info", "equipment", "metadata", "fish", "sheep"):
		return s
	}
	return s + "s"
}

// compiled are the parts of a statement as steps want them.
type compiled struct {
	table string
	key   []effect.Assign
	where []effect.Cond
	tx    string
	t     *translation
}

func (c *apiCall) compile(b *build, tx string) *compiled {
	out := &compiled{table: c.tableOf(b), tx: tx, t: &translation{c: c, tx: tx, binds: map[string]string{}, ctes: map[string]bool{}}}
	add := func(col, op string, v effect.Value) {
		if op == "==" && c.e.b.isKey(out.table, col) && !isNil(v) {
			out.key = append(out.key, effect.Assign{Col: col, Val: v})
			return
		}
		out.where = append(out.where, effect.Cond{Col: col, Op: op, Val: v})
	}
	for _, w := range b.conds {
		if w.text == "" {
			add(w.col, w.op, w.val)
			continue
		}
		stmts, err := sql.Parse("SELECT * FROM " + sql.Hole + " WHERE " + w.text)
		if err != nil || len(stmts) != 1 {
			c.e.b.notParsed(c.pos(), err)
			out.where = append(out.where, effect.Cond{Col: "?", Op: "==", Val: effect.Unknown()})
			continue
		}
		t := *out.t
		t.args = w.args
		t.table = out.table
		unqualify(stmts[0].Where)
		k, wh := t.conditions(out.table, "", stmts[0].Where.Conjuncts(), true)
		out.key, out.where = append(out.key, k...), append(out.where, wh...)
		t.table = ""
		t.reads(stmts[0].Where)
	}
	if id, ok := c.primaryOf(b); ok && (b.pk || len(b.conds) == 0) {
		out.key = append([]effect.Assign{{Col: c.primaryColumn(out.table), Val: id}}, out.key...)
	}
	return out
}

// unqualify drops the qualifiers of columns: in a condition given to an ORM they
// name the statement's table.
func unqualify(e *sql.Expr) {
	e.Walk(func(x *sql.Expr) {
		if x.Kind == sql.Col {
			x.Table = ""
		}
	})
}

func (c *apiCall) primaryColumn(table string) string {
	if t := c.e.b.schema.Tables[table]; t != nil && len(t.Primary) == 1 {
		return t.Primary[0]
	}
	return "id"
}

// primaryOf is the value of the model's primary key, if the model has one: a
// variable that was read, or a literal with the field set.
func (c *apiCall) primaryOf(b *build) (effect.Value, bool) {
	m := c.e.deref(b.model)
	if m == nil {
		return effect.Unknown(), false
	}
	for _, n := range []string{"ID", "Id", "UUID"} {
		if f := m.fields[n]; m.kind == structVal && f != nil {
			return f.v, true
		}
	}
	if m.kind == plain && m.v.Kind == effect.PathValue && !isSlice(m.typ) {
		return path(m.v, "id"), true
	}
	return effect.Unknown(), false
}

func isSlice(t types.Type) bool {
	if t == nil {
		return false
	}
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	_, ok := t.Underlying().(*types.Slice)
	return ok
}

// fieldsOf are the columns that a value sets: the fields of a literal, the keys
// of a map literal, or the whole of a variable.
func (c *apiCall) fieldsOf(a *val) []effect.Assign {
	a = c.e.deref(a)
	if a == nil {
		return nil
	}
	var out []effect.Assign
	switch {
	case a.kind == structVal:
		for _, f := range sortedKeys(a.fields) {
			out = append(out, effect.Assign{Col: c.e.fieldColumn(a.typ, f), Val: a.fields[f].v})
		}
	case len(a.fields) > 0:
		for _, f := range sortedKeys(a.fields) {
			out = append(out, effect.Assign{Col: strings.ToLower(f), Val: c.setValue(a.fields[f])})
		}
	default:
		out = append(out, effect.Assign{Col: "*", Val: a.v})
	}
	return out
}

// setValue is a value to be stored; an expression of the ORM (gorm.Expr, bun's
// text) mentions stored columns.
func (c *apiCall) setValue(a *val) effect.Value {
	a = c.e.deref(a)
	if a == nil {
		return effect.Unknown()
	}
	if a.query != nil && a.query.text != "" && a.query.build == nil {
		return c.textValue(a.query.text, a.elems)
	}
	return a.v
}

// textValue reads an expression given as text with placeholders.
func (c *apiCall) textValue(text string, args []*val) effect.Value {
	stmts, err := sql.Parse("UPDATE " + sql.Hole + " SET x = " + text)
	if err != nil || len(stmts) != 1 || len(stmts[0].Set) != 1 {
		return effect.Unknown()
	}
	unqualify(stmts[0].Set[0].Val)
	t := &translation{c: c, args: args, table: "?"}
	return t.value(stmts[0].Set[0].Val)
}

// read emits a SELECT and gives its variable.
func (c *apiCall) read(b *build, tx, missing string, op effect.Op) string {
	k := c.compile(b, tx)
	name := k.table
	switch {
	case b.model != nil && b.model.kind == pointerVal:
		name = b.model.cell.Name()
	case b.model != nil && b.model.kind == typeVal && b.model.name != "":
		name = b.model.name
	}
	if n := c.e.b.wants[c.at]; n != "" && b.agg != "" {
		name = n
	}
	bind := c.e.fresh(name)
	on := &effect.Resource{Kind: effect.TableKind, Name: k.table, Key: k.key}
	s := effect.Step{Op: op, Pos: c.pos(), Bind: bind, On: on, Where: k.where, Cols: b.cols, Tx: tx, Lock: b.lock, Missing: missing, Agg: b.agg, OnErr: effect.OnBind, Note: c.e.source(c.at)}
	if len(s.Cols) == 0 && b.agg == "" {
		s.Cols = []string{"*"}
	}
	if b.void != "" {
		v := s
		v.Bind, v.Void, v.Lock, v.OnErr = "", b.void, "update", effect.OnDrop
		c.e.emit(v)
	}
	c.e.emit(s)
	return bind
}

// write emits an INSERT, UPDATE or DELETE and gives its variable.
func (c *apiCall) write(b *build, tx, mode string, set []effect.Assign) string {
	k := c.compile(b, tx)
	if mode == effect.Insert || mode == effect.Upsert || mode == effect.Ignore {
		k.key, k.where = nil, nil
		for _, a := range set {
			if a.Col != "*" && c.e.b.isKey(k.table, a.Col) {
				k.key = append(k.key, a)
			}
		}
		if b.conflict != "" {
			mode = b.conflict
		}
	}
	bind := c.e.fresh(k.table)
	c.e.emit(effect.Step{Op: effect.Write, Mode: mode, Pos: c.pos(), Bind: bind, On: &effect.Resource{Kind: effect.TableKind, Name: k.table, Key: k.key},
		Where: k.where, Set: set, Tx: tx, OnErr: effect.OnBind, Note: c.e.source(c.at)})
	return bind
}

// neverRun reports a statement with a row lock that is built and thrown away.
func (e *ev) neverRun(a *val, at ast.Node) {
	if a == nil || a.query == nil || a.query.build == nil {
		return
	}
	b := a.query.build
	if b.lock == "" {
		return
	}
	e.emit(effect.Step{Op: effect.Read, Pos: e.pos(at), On: &effect.Resource{Kind: effect.TableKind, Name: "?"}, Lock: b.lock, Tx: txOf(a), OnErr: effect.OnDrop,
		Void: "the locking query is built but never run: no statement is sent, no row is locked", Note: e.source(at)})
}
