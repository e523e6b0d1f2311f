package golang

import (
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/golang/knowledge"
	"github.com/holdfast-dev/holdfast/review/sql"
)

// xorm knows sessions and engines of xorm. A session carries its statement and
// its transaction in itself, so the receiver changes in place.
func (c *apiCall) xorm() (*val, bool) {
	if c.recv == nil || !knowledge.Xorm(typeName(recvTypeOrAny(c.f))) && !knowledge.Xorm(typeName(c.recv.typ)) {
		return nil, false
	}
	if c.recv.kind != handleVal {
		return nil, false
	}
	b := c.buildOf("xorm")
	tx := txOf(c.recv)
	switch m := c.method(); m {
	case "NewSession", "Context":
		n := *c.recv
		n.typ = c.f.Signature().Results().At(0).Type()
		n.query = nil
		return &n, true
	case "Begin":
		bind := c.e.fresh("tx")
		c.e.emit(effect.Step{Op: effect.Begin, Pos: c.pos(), Bind: bind, OnErr: effect.OnBind})
		c.recv.tx, c.recv.v = bind, effect.Var(bind)
		return c.result(bind), true
	case "Commit", "Rollback":
		r, ok := c.transaction()
		c.recv.tx, c.recv.v = "", effect.Lit("nil")
		return r, ok
	case "Close":
		return unknown(), true
	case "Transaction":
		if len(c.args) > 0 {
			return c.inTx(c.recv, c.args[0], nil), true
		}
	default:
		if !c.xormChain(b, m) {
			return c.xormRun(b, tx)
		}
	}
	return c.again(b), true
}

// xormChain takes the methods that only put the statement together.
func (c *apiCall) xormChain(b *build, m string) bool {
	switch m {
	case "ID":
		b.conds = append(b.conds, buildCond{col: "id", op: "==", val: c.arg(0)})
	case "Where", "And":
		c.where(b, c.args)
	case "Or", "In", "NotIn":
		col, _ := constString(c.arg(0))
		b.conds = append(b.conds, buildCond{col: strings.ToLower(col), op: "==", val: effect.Unknown()})
	case "Table":
		if text, ok := constString(c.arg(0)); ok {
			b.table = text
		} else if len(c.args) > 0 {
			b.model = typeOnly(c.args[0])
		}
	case "Cols", "MustCols", "AllCols", "Omit", "OrderBy", "Asc", "Desc", "Limit", "Join", "NoAutoCondition", "UseBool", "Nullable", "Distinct", "GroupBy", "NoAutoTime", "Alias", "Select":
		if m == "Cols" {
			for _, a := range c.args {
				if s, ok := constString(a.v); ok {
					b.only = append(b.only, strings.ToLower(s))
				}
			}
		}
	case "ForUpdate":
		b.lock = "update"
	case "Incr", "Decr":
		if col, ok := constString(c.arg(0)); ok {
			n := effect.Int(1)
			if len(c.args) > 1 {
				n = c.arg(1)
				if len(c.args[1].elems) > 0 {
					n = c.args[1].elems[0].v
				}
			}
			op := map[string]string{"Incr": "+", "Decr": "-"}[m]
			b.set = append(b.set, effect.Assign{Col: strings.ToLower(col), Val: effect.Apply(op, effect.Col(word(strings.ToLower(col))), n)})
		}
	case "SetExpr":
		if col, ok := constString(c.arg(0)); ok {
			v := effect.Unknown()
			if text, ok := constString(c.arg(1)); ok {
				v = c.textValue(text, nil)
			}
			b.set = append(b.set, effect.Assign{Col: strings.ToLower(col), Val: v})
		}
	case "SQL":
		if text, ok := sqlText(c.arg(0)); ok {
			b.raw, b.rawArgs = text, c.spread(c.args[1:])
		}
	default:
		return false
	}
	return true
}

func (c *apiCall) xormRun(b *build, tx string) (*val, bool) {
	var dest *val
	if len(c.args) > 0 {
		dest = c.args[0]
	}
	switch c.method() {
	case "Get", "Find", "FindAndCount", "Exist", "Count", "Sum", "SumInt", "Rows", "Iterate":
		if b.raw != "" {
			r := c.run(b.raw, b.rawArgs, tx, "query", nil)
			c.fillFromQuery(dest, queryOf(r), false)
			return c.result(queryOf(r).bind, plainVal(effect.Var(queryOf(r).bind, "found"))), true
		}
		c.beanConditions(b, dest)
		if b.model == nil && b.table == "" {
			b.model = typeOnly(dest)
			if dest != nil && dest.kind == pointerVal {
				b.model.name = dest.cell.Name()
			}
		}
		op, out := effect.Read, "found"
		switch c.method() {
		case "Exist":
			op = effect.Check
		case "Count":
			b.agg, out = "count", "count"
		case "Sum", "SumInt":
			b.agg, out = "sum", "sum"
		}
		bind := c.read(b, tx, "", op)
		if op == effect.Read && b.agg == "" {
			c.e.fill(dest, plainVal(effect.Var(bind)), c.at)
		}
		return c.result(bind, plainVal(effect.Var(bind, out))), true
	case "Insert", "InsertOne":
		b.model = typeOnly(dest)
		bind := c.write(b, tx, effect.Insert, c.fieldsOf(dest))
		return c.result(bind, plainVal(effect.Var(bind, "rows"))), true
	case "Update":
		if b.model == nil && b.table == "" {
			b.model = typeOnly(dest)
		}
		set := b.set
		if len(set) == 0 {
			set = c.limited(b, dest)
		}
		if len(c.args) > 1 {
			c.where(b, c.args[1:])
		}
		bind := c.write(b, tx, effect.Update, set)
		return c.result(bind, plainVal(effect.Var(bind, "rows"))), true
	case "Delete":
		if dest != nil {
			c.beanConditions(b, dest)
			b.model = typeOnly(dest)
		}
		bind := c.write(b, tx, effect.Delete, nil)
		return c.result(bind, plainVal(effect.Var(bind, "rows"))), true
	case "Exec", "Query", "QueryString", "QueryInterface":
		args := c.args
		if len(args) == 1 && len(args[0].elems) > 0 { // variadic any with the text first
			args = args[0].elems
		}
		if len(args) == 0 {
			return c.withNoError(unknown()), true
		}
		if text, ok := sqlText(args[0].v); ok && sql.IsSQL(text) {
			return c.run(text, c.spread(args[1:]), tx, "query", nil), true
		}
		return c.withNoError(unknown()), true
	}
	return nil, false
}

// beanConditions: in xorm the set fields of the destination are conditions.
func (c *apiCall) beanConditions(b *build, dest *val) {
	d := c.e.deref(dest)
	if d != nil && d.kind == structVal {
		for _, f := range sortedKeys(d.fields) {
			b.conds = append(b.conds, buildCond{col: c.e.fieldColumn(d.typ, f), op: "==", val: d.fields[f].v})
		}
	}
}

// bun knows the query builders of bun and of squirrel, which look alike: a verb,
// Set and Where with text, and a method that sends.
func (c *apiCall) bun() (*val, bool) {
	isBun, isSq := strings.HasPrefix(c.id, "github.com/uptrace/bun."), strings.HasPrefix(c.id, "github.com/Masterminds/squirrel.")
	if !isBun && !isSq {
		return nil, false
	}
	m := c.method()
	if verb, ok := builderVerbs[m]; ok && (c.recv == nil || c.recv.kind == handleVal || c.recv.query == nil || c.recv.query.build == nil || c.recv.query.build.verb == "") {
		return c.newBuild(verb, isSq), true
	}
	if c.recv == nil || c.recv.query == nil || c.recv.query.build == nil {
		if isSq && c.f.Signature().Results().Len() == 1 {
			return c.squirrelValue()
		}
		return nil, false
	}
	b := c.buildOf("bun")
	if c.bunChain(b, m) {
		return c.again(b), true
	}
	return c.bunRun(b, m)
}

var builderVerbs = map[string]sql.Verb{"NewSelect": sql.Select, "NewInsert": sql.Insert, "NewUpdate": sql.Update, "NewDelete": sql.Delete, "Select": sql.Select, "Insert": sql.Insert, "Update": sql.Update, "Delete": sql.Delete}

func (c *apiCall) newBuild(verb sql.Verb, squirrel bool) *val {
	b := &build{lib: "bun", verb: verb}
	if squirrel {
		switch verb {
		case sql.Select:
			for _, a := range append([]*val(nil), c.spreadElems()...) {
				if s, ok := constString(a.v); ok {
					c.aggregate(b, s)
					b.cols = append(b.cols, strings.ToLower(s))
				}
			}
		default:
			b.table, _ = constString(c.arg(0))
		}
	}
	q := &val{kind: queryVal, query: &query{build: b}, v: effect.Unknown()}
	if c.recv != nil {
		q.query.tx = txOf(c.recv)
	}
	return q
}

// spreadElems are the arguments with a slice argument opened.
func (c *apiCall) spreadElems() []*val {
	if len(c.args) == 1 && len(c.args[0].elems) > 0 {
		return c.args[0].elems
	}
	return c.args
}

// squirrelValue are squirrel.Eq{...} (a map, handled as a literal) and Expr.
func (c *apiCall) squirrelValue() (*val, bool) {
	if c.method() == "Expr" && len(c.args) > 0 {
		if text, ok := constString(c.arg(0)); ok {
			return &val{kind: plain, query: &query{text: text}, elems: c.spread(c.args[1:])}, true
		}
	}
	return nil, false
}

func (c *apiCall) bunChain(b *build, m string) bool {
	switch m {
	case "Model":
		b.model = c.args[0]
	case "Table", "TableExpr", "ModelTableExpr", "From", "Into":
		if text, ok := constString(c.arg(0)); ok {
			b.table, _, _ = strings.Cut(text, " ")
		}
	case "Where":
		c.where(b, c.args)
	case "WhereOr", "WhereGroup", "Having":
		b.conds = append(b.conds, buildCond{col: "?", op: "==", val: effect.Unknown()})
	case "WherePK":
		b.pk = true
	case "Set":
		text, ok := constString(c.arg(0))
		switch {
		case ok && !strings.Contains(text, "="):
			b.set = append(b.set, effect.Assign{Col: strings.ToLower(text), Val: c.setValue(c.args[min(1, len(c.args)-1)])})
		case ok:
			col, expr, _ := strings.Cut(text, "=")
			b.set = append(b.set, effect.Assign{Col: strings.ToLower(strings.TrimSpace(col)), Val: c.textValue(expr, c.spread(c.args[1:]))})
		}
	case "SetMap":
		b.set = append(b.set, c.fieldsOf(c.args[0])...)
	case "Column", "Columns":
		for _, a := range c.spreadElems() {
			if s, ok := constString(a.v); ok {
				b.only = append(b.only, strings.ToLower(s))
			}
		}
		if b.verb == sql.Select {
			b.cols = append(b.cols, b.only...)
		}
	case "Values":
		for i, a := range c.spreadElems() {
			if i < len(b.only) {
				b.set = append(b.set, effect.Assign{Col: b.only[i], Val: c.e.deref(a).v})
			}
		}
	case "For", "Suffix":
		text, _ := constString(c.arg(0))
		switch up := strings.ToUpper(text); {
		case strings.Contains(up, "SKIP LOCKED"):
			b.lock = "skip"
		case strings.Contains(up, "UPDATE") && !strings.Contains(up, "DO UPDATE"):
			b.lock = "update"
		case strings.Contains(up, "DO NOTHING"):
			b.conflict = effect.Ignore
		case strings.Contains(up, "DO UPDATE"), strings.Contains(up, "DUPLICATE KEY"):
			b.conflict = effect.Upsert
		}
	case "On":
		text, _ := constString(c.arg(0))
		b.conflict = effect.Upsert
		if strings.Contains(strings.ToUpper(text), "NOTHING") {
			b.conflict = effect.Ignore
		}
	case "Ignore":
		b.conflict = effect.Ignore
	case "ColumnExpr":
		if text, ok := constString(c.arg(0)); ok {
			c.aggregate(b, text)
		}
	case "RunWith", "Conn":
		c.recv = &val{kind: queryVal, query: &query{build: b, tx: txOf(c.args[0])}}
	case "Order", "OrderExpr", "Limit", "Offset", "Relation", "Join", "LeftJoin", "InnerJoin", "Group", "GroupBy", "OrderBy", "Distinct", "ExcludeColumn", "Returning", "PlaceholderFormat", "Prefix", "OmitZero", "Value", "Apply", "ForceDelete", "WhereDeleted", "WhereAllWithDeleted":
	default:
		return false
	}
	return true
}

func (c *apiCall) bunRun(b *build, m string) (*val, bool) {
	tx := c.recv.query.tx
	switch m {
	case "ToSql", "MustSql":
		// The text goes to a call of database/sql or pgx; what it says is known here.
		q := &val{kind: queryVal, query: &query{build: b, tx: "?"}, v: effect.Unknown()}
		return tuple([]*val{q, {kind: plain, v: effect.Unknown()}, unknown()}), true
	case "Exec", "ExecContext", "Scan", "ScanContext", "Query", "QueryContext", "QueryRow", "QueryRowContext", "Exists", "Count", "ScanAndCount":
		return c.runBuild(b, tx, m), true
	}
	return c.withNoError(c.recv), true
}

// sendBuild runs a statement that a builder has put together.
func (c *apiCall) sendBuild(b *build, tx, m string) *query {
	q := &query{done: true, tx: tx}
	switch b.verb {
	case sql.Insert:
		set := b.set
		if len(set) == 0 {
			set = c.fieldsOf(b.model)
		}
		b.model = typeOnly(b.model)
		q.bind = c.write(b, tx, effect.Insert, set)
	case sql.Update:
		set := b.set
		if len(set) == 0 {
			set = c.limited(b, b.model)
		}
		if !b.pk {
			b.model = typeOnly(b.model)
		}
		q.bind = c.write(b, tx, effect.Update, set)
	case sql.Delete:
		if !b.pk {
			b.model = typeOnly(b.model)
		}
		q.bind = c.write(b, tx, effect.Delete, nil)
	default:
		op, missing := effect.Read, "error"
		dest := b.model
		if !b.pk {
			b.model = typeOnly(b.model)
			if dest != nil && dest.kind == pointerVal {
				b.model.name = dest.cell.Name()
			}
		}
		if isSlice(destType(dest)) || strings.HasPrefix(m, "Query") && !strings.HasPrefix(m, "QueryRow") {
			missing = ""
		}
		switch m {
		case "Exists":
			op, missing = effect.Check, ""
		case "Count":
			b.agg, missing = "count", ""
		}
		q.bind = c.read(b, tx, missing, op)
		if m == "Scan" || m == "ScanContext" {
			c.e.fillRead(dest, q.bind, b.agg, c.at)
		}
		for _, col := range b.cols {
			field := col
			if b.agg != "" {
				field = b.agg
			}
			q.cols = append(q.cols, plainVal(effect.Var(q.bind, word(field[strings.LastIndexByte(field, '.')+1:]))))
		}
	}
	return q
}

// runBuild runs it and gives what the sending method gives.
func (c *apiCall) runBuild(b *build, tx, m string) *val {
	q := c.sendBuild(b, tx, m)
	v := &val{kind: queryVal, query: q, v: effect.Var(q.bind)}
	switch m {
	case "Exists":
		return c.result(q.bind, plainVal(effect.Var(q.bind, "found")))
	case "Count":
		return c.result(q.bind, plainVal(effect.Var(q.bind, "count")))
	case "Scan", "ScanContext":
		args := c.args
		if len(args) > 0 && args[0].kind == requestVal || m == "ScanContext" {
			args = args[1:]
		}
		for i, d := range args {
			col := plainVal(effect.Var(q.bind))
			if i < len(q.cols) {
				col = q.cols[i]
			} else if b.agg != "" {
				col = plainVal(effect.Var(q.bind, b.agg))
			}
			c.e.fill(d, col, c.at)
		}
		return c.result(q.bind)
	}
	return c.result(q.bind, v)
}
