package golang

import (
	"go/ast"
	"go/types"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/sql"
)

// query is a statement whose result is still to be looked at, or that is still
// being built.
type query struct {
	text  string
	stmt  *sql.Stmt
	tx    string
	bind  string
	cols  []*val // what Scan gives, by position
	done  bool   // its effects are in the program
	lazy  bool   // prepared: text and tx only
	build *build
}

// queryBind is the variable of an executed query.
func (e *ev) queryBind(q *query) string { return q.bind }

// sqlText is the text of a value, with holes for what is only known at run time.
func sqlText(v effect.Value) (string, bool) {
	if s, ok := constString(v); ok {
		return s, true
	}
	if v.Kind == effect.ApplyValue && v.Name == "concat" {
		var b strings.Builder
		known := false
		for _, a := range v.Args {
			if s, ok := constString(a); ok {
				b.WriteString(s)
				known = true
			} else {
				b.WriteString(sql.Hole)
			}
		}
		return b.String(), known
	}
	return "", false
}

var execMethods = map[string]string{
	"Exec": "exec", "ExecContext": "exec", "MustExec": "exec", "MustExecContext": "exec", "NamedExec": "exec", "NamedExecContext": "exec",
	"Query": "query", "QueryContext": "query", "Queryx": "query", "QueryxContext": "query", "NamedQuery": "query", "NamedQueryContext": "query",
	"QueryRow": "row", "QueryRowContext": "row", "QueryRowx": "row", "QueryRowxContext": "row",
	"Get": "get", "GetContext": "get", "Select": "select", "SelectContext": "select",
	"Prepare": "prepare", "PrepareContext": "prepare", "Preparex": "prepare", "PreparexContext": "prepare", "PrepareNamed": "prepare", "PrepareNamedContext": "prepare",
	"NewRaw": "raw", "Queue": "queue",
}

// sqlCall knows database/sql, pgx, sqlx, bun's raw statements, and every
// interface that has their methods (sqlc's DBTX and its kin).
func (c *apiCall) sqlCall() (*val, bool) {
	if c.recv != nil && c.recv.kind == queryVal && c.recv.query.build == nil {
		return c.queryMethod()
	}
	if r, ok := c.transaction(); ok {
		return r, true
	}
	switch c.id {
	case "database/sql.Named":
		return &val{kind: plain, v: c.arg(1), name: ":" + strings.Trim(c.arg(0).Name, `"`)}, true
	case "database/sql.Open", "github.com/jmoiron/sqlx.Open", "github.com/jmoiron/sqlx.Connect", "github.com/jackc/pgx.Connect", "github.com/jackc/pgx/pgxpool.New", "github.com/jmoiron/sqlx.MustConnect":
		return c.withNoError(&val{kind: handleVal, v: effect.Lit("nil"), typ: c.f.Signature().Results().At(0).Type()}), true
	case "github.com/jmoiron/sqlx.GetContext", "github.com/jmoiron/sqlx.SelectContext", "github.com/jmoiron/sqlx.Get", "github.com/jmoiron/sqlx.Select":
		return c.packageQuery()
	case "github.com/jackc/pgx.CollectRows", "github.com/jackc/pgx.CollectOneRow", "github.com/jackc/pgx.CollectExactlyOneRow", "github.com/jackc/pgx.ForEachRow":
		if len(c.args) > 0 && c.args[0].kind == queryVal {
			return c.result(c.args[0].query.bind, plainVal(effect.Var(c.args[0].query.bind))), true
		}
		return c.withNoError(unknown()), true
	}
	how := execMethods[c.method()]
	if how == "" || c.recv == nil {
		return nil, false
	}
	h := c.recv
	if h.kind != handleVal && !types.IsInterface(recvTypeOrAny(c.f)) {
		return nil, false
	}
	return c.statement(h, how)
}

func recvTypeOrAny(f *types.Func) types.Type {
	if t := recvType(f); t != nil {
		return t
	}
	return types.Typ[types.Int]
}

// packageQuery is sqlx.Get(q, dest, query, args...).
func (c *apiCall) packageQuery() (*val, bool) {
	args := c.args
	if strings.HasSuffix(c.id, "Context") {
		args = args[1:]
	}
	if len(args) < 3 {
		return nil, false
	}
	m := *c
	m.args = args[1:]
	how := "get"
	if strings.Contains(c.id, ".Select") {
		how = "select"
	}
	return m.statement(args[0], how)
}

// statement finds the text among the arguments: the first string.
func (c *apiCall) statement(h *val, how string) (*val, bool) {
	at := -1
	for i, a := range c.args {
		if a == nil {
			continue
		}
		if i < len(c.at.Args) && isString(c.argType(i)) {
			at = i
			break
		}
	}
	if at < 0 || at > 2 {
		return nil, false
	}
	if q := c.args[at].query; q != nil && q.build != nil { // put together by a query builder
		b := q.build.clone()
		m := map[string]string{"exec": "Exec", "row": "QueryRow", "get": "QueryRow"}[how]
		if m == "" {
			m = "Query"
		}
		bq := c.sendBuild(b, txOf(h), m)
		v := &val{kind: queryVal, query: bq, v: effect.Var(bq.bind)}
		if how == "row" {
			return v, true
		}
		if (how == "get" || how == "select") && at > 0 {
			c.e.fillRead(c.args[at-1], bq.bind, b.agg, c.at)
			return c.result(bq.bind), true
		}
		return c.result(bq.bind, v), true
	}
	text, ok := sqlText(c.args[at].v)
	if !ok || !sql.IsSQL(text) {
		if h.kind != handleVal {
			return nil, false
		}
		return c.unknownStatement(h, how), true
	}
	rest := c.spread(c.args[at+1:])
	tx := txOf(h)
	if how == "prepare" {
		return c.withNoError(&val{kind: queryVal, v: effect.Unknown(), query: &query{text: text, tx: tx, lazy: true}}), true
	}
	var dest *val
	if (how == "get" || how == "select") && at > 0 {
		dest = c.args[at-1]
	}
	c.on = h
	return c.run(text, rest, tx, how, dest), true
}

// oneConnection reports whether statements on the handle all go to one connection,
// so that a BEGIN among them is a transaction of those that follow.
func oneConnection(h *val) bool {
	if h == nil || h.kind != handleVal || h.typ == nil {
		return false
	}
	switch n := strings.TrimPrefix(typeName(h.typ), "*"); {
	case n == "database/sql.Conn":
		return true
	case strings.HasPrefix(n, "github.com/jackc/pgx"):
		return strings.HasSuffix(n, ".Conn")
	}
	return false
}

func (c *apiCall) argType(i int) types.Type {
	// c.args may be a tail of the call's arguments
	j := i + len(c.at.Args) - len(c.args)
	if j < 0 || j >= len(c.at.Args) {
		return nil
	}
	return c.e.fr.info.TypeOf(c.at.Args[j])
}

// spread opens a last argument given as `args...`.
func (c *apiCall) spread(args []*val) []*val {
	if n := len(args); n > 0 && c.at.Ellipsis.IsValid() && args[n-1] != nil {
		last := args[n-1]
		if len(last.elems) > 0 {
			return append(append([]*val(nil), args[:n-1]...), last.elems...)
		}
		if last.v.Kind == effect.PathValue {
			return args[:n-1]
		}
	}
	return args
}

// unknownStatement is a statement whose text is not known: it may do anything,
// so nothing is said of it but that it runs.
func (c *apiCall) unknownStatement(h *val, how string) *val {
	bind := c.bind("q")
	q := &query{bind: bind, tx: txOf(h), done: true}
	switch how {
	case "exec":
		return c.withNoError(&val{kind: queryVal, query: q, v: effect.Unknown()})
	case "get", "select":
		return unknown()
	}
	return c.withNoError(&val{kind: queryVal, query: q, v: effect.Unknown()})
}

// run puts a statement's effects into the program.
func (c *apiCall) run(text string, args []*val, tx, how string, dest *val) *val {
	stmts, err := sql.Parse(text)
	if err != nil || len(stmts) == 0 {
		c.e.b.notParsed(c.pos(), err)
		return c.unknownStatement(&val{kind: handleVal, tx: tx}, how)
	}
	t := &translation{c: c, args: args, tx: tx, note: c.e.w.text([]byte(strings.ReplaceAll(text, sql.Hole, "…")))}
	var q *query
	for i, s := range stmts {
		q = t.statement(s, how, i == len(stmts)-1)
	}
	qv := &val{kind: queryVal, query: q, v: effect.Var(q.bind)}
	switch how {
	case "get", "select":
		c.fillFromQuery(dest, q, how == "select")
		return plainVal(effect.Var(q.bind, "err"))
	case "exec", "query":
		return c.result(q.bind, qv)
	}
	return qv
}

// fillFromQuery gives a destination the row that was read. A struct takes the
// whole row; a single value the single column.
func (c *apiCall) fillFromQuery(dest *val, q *query, many bool) {
	if dest == nil {
		return
	}
	v := plainVal(effect.Var(q.bind))
	if !many && len(q.cols) == 1 && dest.cell != nil && structOf(dest.cell.Type()) == nil {
		v = q.cols[0]
	}
	c.e.fill(dest, v, c.at)
}

// queryMethod are the methods of rows, results, statements and commands.
func (c *apiCall) queryMethod() (*val, bool) {
	q := c.recv.query
	if q.lazy {
		how := execMethods[c.method()]
		if how == "" {
			return c.withNoError(unknown()), true
		}
		args := c.args
		if len(args) > 0 && strings.HasSuffix(c.method(), "Context") {
			args = args[1:]
		}
		return c.run(q.text, c.spread(args), q.tx, how, nil), true
	}
	switch c.method() {
	case "Scan":
		return c.scan(q), true
	case "StructScan", "MapScan", "ScanStruct":
		if len(c.args) > 0 {
			c.e.fill(c.args[0], plainVal(effect.Var(q.bind)), c.at)
		}
		return plainVal(effect.Var(q.bind, "err")), true
	case "Next", "NextResultSet":
		return plainVal(effect.Apply("more", effect.Var(q.bind))), true
	case "RowsAffected", "MatchedCount":
		n := plainVal(effect.Var(q.bind, "rows"))
		if c.f.Signature().Results().Len() == 2 { // its error is that of a driver without the feature
			return tuple([]*val{n, plainVal(effect.Lit("nil"))}), true
		}
		return n, true
	case "LastInsertId":
		return c.withNoError(plainVal(effect.Var(q.bind, "id"))), true
	case "Err", "Close":
		if c.f.Signature().Results().Len() == 0 {
			return unknown(), true
		}
		if c.method() == "Close" {
			return unknown(), true
		}
		return plainVal(effect.Var(q.bind, "err")), true
	case "Result", "Int", "Int64", "Bool", "Bytes", "Text", "Float64", "Uint64", "Time":
		return c.result(q.bind, plainVal(c.recv.v)), true
	case "Val":
		return plainVal(c.recv.v), true
	case "Columns", "ColumnTypes", "Values":
		return c.withNoError(unknown()), true
	}
	if c.f.Signature().Results().Len() == 1 && isErrorType(c.f.Signature().Results().At(0).Type()) {
		return plainVal(effect.Var(q.bind, "err")), true
	}
	return nil, false
}

// scan gives the destinations the columns by position.
func (c *apiCall) scan(q *query) *val {
	args := c.spread(c.args)
	for i, d := range args {
		v := unknown()
		switch {
		case i < len(q.cols):
			v = q.cols[i]
		case len(q.cols) == 1 && q.cols[0].v.String() == q.bind:
			v = q.cols[0]
		}
		c.scanInto(d, i, v)
	}
	return plainVal(effect.Var(q.bind, "err"))
}

// scanInto assigns to &x or &x.f; the latter is a place that the evaluated
// argument no longer shows, so the syntax is asked.
func (c *apiCall) scanInto(d *val, i int, v *val) {
	if d != nil && d.kind == pointerVal {
		c.e.fill(d, v, c.at)
		return
	}
	if i < len(c.at.Args) {
		if u, ok := ast.Unparen(c.at.Args[i]).(*ast.UnaryExpr); ok {
			c.e.store(u.X, v, c.at)
			return
		}
	}
	c.e.fill(d, v, c.at)
}

// source is the text of a call, for the reader.
func (e *ev) source(n ast.Node) string { return e.w.nodeText(n) }
