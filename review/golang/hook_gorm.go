package golang

import (
	"go/ast"
	"go/types"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/golang/knowledge"
	"github.com/holdfast-dev/holdfast/review/sql"
)

// gorm knows both generations of GORM. Where they differ (the lock option) the
// generation is told by the type of the handle.
func (c *apiCall) gorm() (*val, bool) {
	switch c.id {
	case "gorm.io/gorm.Expr", "github.com/jinzhu/gorm.Expr", "gorm.io/gorm/clause.Expr":
		text, ok := constString(c.arg(0))
		if !ok {
			return unknown(), true
		}
		return &val{kind: plain, query: &query{text: text}, elems: c.spread(c.args[1:])}, true
	case "gorm.io/gorm.Open", "github.com/jinzhu/gorm.Open":
		return c.withNoError(&val{kind: handleVal, v: effect.Lit("nil"), typ: c.f.Signature().Results().At(0).Type()}), true
	}
	gen := knowledge.Gorm(typeName(recvTypeOrAny(c.f)))
	if gen == 0 || c.recv == nil {
		return nil, false
	}
	switch c.method() {
	case "Begin", "BeginTx", "Commit", "Rollback", "RollbackUnlessCommitted":
		return nil, false // as in database/sql
	}
	if c.recv.kind != handleVal {
		n := *c.recv
		n.kind, n.tx = handleVal, txOf(c.recv)
		c.recv = &n
	}
	b := c.buildOf("gorm")
	if c.gormChain(b, gen) {
		return c.again(b), true
	}
	return c.gormRun(b)
}

// gormChain takes the methods that only put the statement together.
func (c *apiCall) gormChain(b *build, gen int) bool {
	switch c.method() {
	case "Model":
		b.model = c.args[0]
		if c.args[0].kind == structVal || c.e.deref(c.args[0]).v.Kind == effect.PathValue {
			b.pk = true
		}
	case "Table":
		if text, ok := constString(c.arg(0)); ok {
			b.table, _, _ = strings.Cut(strings.Trim(text, "`\""), " ")
		}
	case "Where":
		c.where(b, c.args)
	case "Or", "Not":
		b.conds = append(b.conds, buildCond{col: "?", op: "==", val: effect.Unknown()})
	case "Select":
		if text, ok := constString(c.arg(0)); ok {
			for _, col := range strings.Split(text, ",") {
				b.only = append(b.only, snake(strings.TrimSpace(col)))
			}
			c.aggregate(b, text)
		}
		for _, a := range c.args[min(1, len(c.args)):] {
			if s, ok := constString(c.e.deref(a).v); ok {
				b.only = append(b.only, snake(s))
			}
		}
	case "Clauses":
		for _, a := range c.args {
			c.gormClause(b, c.e.deref(a))
		}
	case "Set":
		name, _ := constString(c.arg(0))
		if name != "gorm:query_option" {
			break
		}
		if text, _ := constString(c.arg(1)); strings.Contains(strings.ToUpper(text), "FOR UPDATE") {
			if why := knowledge.Void(typeName(recvTypeOrAny(c.f)), name); why != "" && gen == 2 {
				b.void = why
			} else {
				b.lock = "update"
			}
		}
	case "Raw":
		if text, ok := sqlText(c.arg(0)); ok {
			b.raw, b.rawArgs = text, c.spread(c.args[1:])
		}
	case "Order", "Limit", "Offset", "Omit", "Joins", "Preload", "Unscoped", "Scopes", "Debug", "Session", "WithContext", "Group", "Having", "Distinct", "Attrs", "Assign", "New", "LogMode", "InnerJoins", "Association", "Statement", "InstanceSet":
	default:
		return false
	}
	return true
}

func (c *apiCall) aggregate(b *build, text string) {
	low := strings.ToLower(text)
	for _, a := range []string{"count", "max", "sum", "min"} {
		if strings.Contains(low, a+"(") {
			b.agg = a
		}
	}
}

// gormClause reads clause.Locking and clause.OnConflict.
func (c *apiCall) gormClause(b *build, a *val) {
	if a == nil || a.kind != structVal {
		return
	}
	switch shortName(typeName(a.typ)) {
	case "clause.Locking":
		b.lock = "update"
		if f := a.fields["Strength"]; f != nil {
			if s, ok := constString(f.v); ok && strings.Contains(strings.ToUpper(s), "SHARE") {
				b.lock = "share"
			}
		}
		if f := a.fields["Options"]; f != nil {
			if s, ok := constString(f.v); ok && strings.Contains(strings.ToUpper(s), "SKIP") {
				b.lock = "skip"
			}
		}
	case "clause.OnConflict":
		b.conflict = effect.Upsert
		if f := a.fields["DoNothing"]; f != nil && f.v.Name == "true" {
			b.conflict = effect.Ignore
		}
	}
}

// done is the handle that a finished statement gives, with its error and rows.
func (c *apiCall) done(bind string) *val {
	res := c.f.Signature().Results()
	if res.Len() == 1 && !isErrorType(res.At(0).Type()) {
		return &val{kind: handleVal, tx: txOf(c.recv), typ: res.At(0).Type(), query: &query{bind: bind, done: true}, v: effect.Unknown()}
	}
	return c.result(bind)
}

// gormRun are the methods that send a statement.
func (c *apiCall) gormRun(b *build) (*val, bool) {
	tx := txOf(c.recv)
	dest := func() *val {
		if len(c.args) > 0 {
			return c.args[0]
		}
		return nil
	}
	switch m := c.method(); m {
	case "First", "Take", "Last", "Find", "Scan", "FindInBatches":
		return c.gormRead(b, tx, dest(), m), true
	case "Count":
		b.agg, b.cols = "count", nil
		b.model = typeOnly(b.model)
		bind := c.read(b, tx, "", effect.Read)
		c.e.fill(dest(), plainVal(effect.Var(bind, "count")), c.at)
		return c.done(bind), true
	case "Pluck":
		if col, ok := constString(c.arg(0)); ok {
			b.cols = []string{strings.ToLower(col)}
			b.model = typeOnly(b.model)
			bind := c.read(b, tx, "", effect.Read)
			c.e.fill(c.args[1], plainVal(effect.Var(bind, word(strings.ToLower(col)))), c.at)
			return c.done(bind), true
		}
	case "Create", "Save", "CreateInBatches", "Update", "UpdateColumn", "Updates", "UpdateColumns", "Delete":
		return c.gormWrite(b, tx, dest(), m), true
	case "FirstOrCreate", "FirstOrInit":
		return c.firstOrCreate(b, tx, dest(), m == "FirstOrCreate"), true
	case "Exec":
		if text, ok := sqlText(c.arg(0)); ok && sql.IsSQL(text) {
			q := c.run(text, c.spread(c.args[1:]), tx, "query", nil)
			return c.done(queryOf(q).bind), true
		}
		return c.done(c.e.fresh("q")), true
	case "Row", "Rows":
		if b.raw != "" {
			how := "query"
			if m == "Row" {
				how = "row"
			}
			return c.run(b.raw, b.rawArgs, tx, how, nil), true
		}
		bind := c.read(b, tx, "", effect.Read)
		return c.result(bind, &val{kind: queryVal, query: &query{bind: bind, done: true}, v: effect.Var(bind)}), true
	case "Transaction":
		if len(c.args) > 0 {
			return c.inTx(c.recv, c.args[0], nil), true
		}
	}
	return c.withNoError(c.recv), true
}

// gormRead are the methods that read rows into a destination.
func (c *apiCall) gormRead(b *build, tx string, dest *val, m string) *val {
	if b.raw != "" {
		return c.gormRaw(b, tx, dest)
	}
	if m != "Scan" || b.model == nil {
		if b.table == "" && b.model == nil {
			b.model = dest
		}
	}
	if len(c.args) > 1 && m != "FindInBatches" {
		c.where(b, c.args[1:])
	} else if b.model == dest && b.model != nil && !isRead(c.e.deref(b.model)) {
		b.pk = c.e.deref(b.model).kind == structVal
	}
	missing := ""
	if m == "First" || m == "Take" || m == "Last" {
		missing = "error"
	}
	plainModel := b.model
	if b.model == dest && !b.pk {
		b.model = typeOnly(dest) // the destination's old content is no condition
	}
	bind := c.readNamed(b, tx, missing, plainModel)
	c.e.fillRead(dest, bind, b.agg, c.at)
	return c.done(bind)
}

// gormWrite are the methods that change rows.
func (c *apiCall) gormWrite(b *build, tx string, dest *val, m string) *val {
	switch m {
	case "Create", "Save", "CreateInBatches":
		return c.gormStore(b, tx, dest, m)
	case "Update", "UpdateColumn":
		if col, ok := constString(c.arg(0)); ok && len(c.args) == 2 {
			return c.done(c.write(b, tx, effect.Update, []effect.Assign{{Col: strings.ToLower(col), Val: c.setValue(c.args[1])}}))
		}
		return c.done(c.write(b, tx, effect.Update, c.fieldsOf(dest)))
	case "Updates", "UpdateColumns":
		if b.model == nil && b.table == "" {
			b.model, b.pk = dest, true
		}
		return c.done(c.write(b, tx, effect.Update, c.limited(b, dest)))
	case "Delete":
		if b.model == nil {
			b.model = dest
			b.pk = true
		}
		if len(c.args) > 1 {
			c.where(b, c.args[1:])
			b.model = typeOnly(b.model)
		}
		return c.done(c.write(b, tx, effect.Delete, nil))
	}
	return unknown()
}

// queryOf finds the query in a result.
func queryOf(a *val) *query {
	if a.kind == tupleVal {
		a = a.elems[0]
	}
	if a.query == nil {
		return &query{bind: "_q"}
	}
	return a.query
}

func destType(a *val) types.Type {
	if a == nil {
		return nil
	}
	if a.kind == pointerVal {
		return a.cell.Type()
	}
	return a.typ
}

// typeOnly keeps a model's type and drops its value: a condition is not taken
// from it.
func typeOnly(a *val) *val {
	if a == nil {
		return nil
	}
	return &val{kind: typeVal, typ: destType(a)}
}

// isRead says whether a value was read before.
func isRead(a *val) bool { return a != nil && a.kind == plain && a.v.Kind == effect.PathValue }

// readNamed reads into a destination whose name the variable takes.
func (c *apiCall) readNamed(b *build, tx, missing string, dest *val) string {
	if dest != nil && dest.kind == pointerVal {
		if b.model != nil && b.model.kind == typeVal {
			m := *b.model
			m.name = dest.cell.Name()
			b.model = &m
		}
	}
	return c.read(b, tx, missing, effect.Read)
}

// fillRead gives a destination what was read: the row, or the aggregate.
func (e *ev) fillRead(dest *val, bind, agg string, at ast.Node) {
	v := plainVal(effect.Var(bind))
	if agg != "" {
		v = plainVal(effect.Var(bind, agg))
	}
	e.fill(dest, v, at)
}

func (c *apiCall) gormRaw(b *build, tx string, dest *val) *val {
	if !sql.IsSQL(b.raw) {
		return c.done(c.e.fresh("q"))
	}
	r := c.run(b.raw, b.rawArgs, tx, "query", nil)
	q := queryOf(r)
	c.fillFromQuery(dest, q, false)
	return c.done(q.bind)
}

// limited are the columns an update sets, restricted by Select.
func (c *apiCall) limited(b *build, a *val) []effect.Assign {
	set := c.fieldsOf(a)
	if len(b.only) == 0 || len(set) != 1 || set[0].Col != "*" {
		return set
	}
	v := set[0].Val
	set = nil
	for _, col := range b.only {
		set = append(set, effect.Assign{Col: col, Val: path(v, col)})
	}
	return set
}

// gormStore is Create, or Save, which writes every column of what it is given.
func (c *apiCall) gormStore(b *build, tx string, dest *val, m string) *val {
	if b.model == nil {
		b.model = dest
	}
	d := c.e.deref(dest)
	mode := effect.Insert
	if m == "Save" {
		mode = effect.Update
		if d != nil && d.kind == structVal && d.fields["ID"] == nil && d.fields["Id"] == nil {
			mode = effect.Insert // a new row
		}
		b.pk = true
	}
	bind := c.write(b, tx, mode, c.limited(b, dest))
	if mode == effect.Insert && dest != nil && dest.kind == pointerVal && d.kind == plain && d.v.Kind == effect.PathValue && d.v.Root() == d.v.Name && d.v.Name != "in" {
		v := effect.Var(bind, "id")
		c.e.emit(effect.Step{Op: effect.Let, Name: d.v.Name + ".id", Val: &v})
	}
	return c.done(bind)
}

// firstOrCreate is a read, and an insert when nothing was found: two statements.
func (c *apiCall) firstOrCreate(b *build, tx string, dest *val, create bool) *val {
	b.model = typeOnly(dest)
	if len(c.args) > 1 {
		c.where(b, c.args[1:])
	}
	bind := c.read(b, tx, "", effect.Read)
	if create {
		k := c.compile(b, tx)
		cond := effect.Apply("!", effect.Var(bind, "found"))
		set := append([]effect.Assign(nil), k.key...)
		for _, w := range k.where {
			if w.Op == "==" {
				set = append(set, effect.Assign{Col: w.Col, Val: w.Val})
			}
		}
		body := c.e.branch(func() {
			nb := &build{lib: "gorm", model: b.model, table: b.table}
			c.write(nb, tx, effect.Insert, set)
		})
		c.e.emit(effect.Step{Op: effect.If, Pos: c.pos(), Val: &cond, Body: body})
	}
	c.e.fill(dest, plainVal(effect.Var(bind)), c.at)
	return c.done(bind)
}
