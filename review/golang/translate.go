package golang

import (
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/sql"
)

// translation turns the statements of one call into steps.
type translation struct {
	c     *apiCall
	args  []*val
	tx    string
	note  string
	binds map[string]string // alias or name of a table -> variable of its read
	ctes  map[string]bool
	ins   map[string]effect.Value // values of an insert, for excluded.x
	table string                  // whose stored columns the values of a write mention
	alias string
}

// statement emits one statement and gives its result.
func (t *translation) statement(s *sql.Stmt, how string, last bool) *query {
	if t.binds == nil {
		t.binds, t.ctes = map[string]string{}, map[string]bool{}
	}
	for _, cte := range s.CTEs {
		t.ctes[cte.Name] = true
		q := t.statement(cte.Stmt, "query", false)
		t.binds[cte.Name] = q.bind
	}
	fallback := string(s.Verb)
	if s.Table != "" && s.Table != "?" {
		fallback = s.Table
	}
	bind := ""
	if last {
		bind = t.c.bind(fallback)
	} else {
		bind = t.c.e.fresh(fallback)
	}
	q := &query{stmt: s, tx: t.tx, bind: bind, done: true}
	switch s.Verb {
	case sql.Select:
		t.selectStmt(s, q, how)
	case sql.Insert:
		t.insert(s, q)
	case sql.Update:
		t.update(s, q)
	case sql.Delete:
		t.delete(s, q)
	case sql.Begin:
		t.emit(effect.Step{Op: effect.Begin, Bind: bind, Iso: s.Iso})
		if oneConnection(t.c.on) {
			t.c.on.tx = bind
		}
	case sql.Commit:
		t.emit(effect.Step{Op: effect.Commit, Bind: bind, Tx: t.ended()})
	case sql.Rollback:
		t.emit(effect.Step{Op: effect.Rollback, Bind: bind, Tx: t.ended()})
	case sql.LockTbl:
		t.emit(effect.Step{Op: effect.Lock, Bind: bind, On: &effect.Resource{Kind: effect.AdvisoryKind, Name: "table:" + s.Table}, Tx: t.tx, Shared: s.Lock == "share"})
	}
	return q
}

func (t *translation) emit(s effect.Step) {
	s.Pos = t.c.pos()
	s.Note = t.note
	if s.OnErr == "" {
		s.OnErr = effect.OnBind
	}
	t.c.e.emit(s)
}

// isKey says whether an equality on a column says which row is meant.
func (t *translation) isKey(table, col string) bool { return t.c.e.b.isKey(table, col) }

// isKey: the columns of the primary key and of unique constraints where a schema
// is known, and the names that everybody gives such columns.
func (b *builder) isKey(table, col string) bool {
	if tb := b.schema.Tables[table]; tb != nil {
		for _, c := range tb.Primary {
			if c == col {
				return true
			}
		}
		for _, u := range tb.Unique {
			for _, c := range u.Cols {
				if c == col {
					return true
				}
			}
		}
		for _, f := range tb.ForeignKeys {
			for _, c := range f.Cols {
				if c == col {
					return true
				}
			}
		}
	}
	switch col {
	case "id", "key", "name", "code", "uuid", "email", "slug", "username", "token", "path", "hash", "guid", "ref", "sha":
		return true
	}
	return hasSuffixAny(col, "_id", "_key", "_uuid", "_code", "_no", "_name", "_hash", "_token")
}

// conditions splits a WHERE into the key of a table and further conditions.
// A condition that can not be written so stands as an unknown value of its
// column: it may keep the row out.
func (t *translation) conditions(table, alias string, es []*sql.Expr, single bool) (key []effect.Assign, where []effect.Cond) {
	mine := func(e *sql.Expr) bool {
		return e.Kind == sql.Col && (e.Table == "" && single || e.Table == alias && alias != "" || e.Table == table)
	}
	for _, e := range es {
		switch {
		case e.Kind == sql.Op && len(e.Args) == 2 && compareOp(e.Name) != "":
			l, r, op := e.Args[0], e.Args[1], compareOp(e.Name)
			if !mine(l) && mine(r) {
				l, r, op = r, l, flip(op)
			}
			if !mine(l) {
				continue
			}
			v := t.value(r)
			if op == "==" && t.isKey(table, l.Name) && !isNil(v) && !sameColumn(v, l.Name) {
				key = append(key, effect.Assign{Col: l.Name, Val: v})
			} else {
				where = append(where, effect.Cond{Col: l.Name, Op: op, Val: v})
			}
		case e.Kind == sql.Op && e.Name == "in" && len(e.Args) == 2 && mine(e.Args[0]):
			v := effect.Unknown()
			if r := e.Args[1]; r.Kind == sql.Param || r.Kind == sql.Const || r.Kind == sql.HoleExpr {
				v = t.value(r)
			}
			if t.isKey(table, e.Args[0].Name) {
				key = append(key, effect.Assign{Col: e.Args[0].Name, Val: v})
			} else {
				where = append(where, effect.Cond{Col: e.Args[0].Name, Op: "==", Val: v})
			}
		case mine(e):
			where = append(where, effect.Cond{Col: e.Name, Op: "==", Val: effect.Lit("true")})
		case e.Kind == sql.Op && e.Name == "not" && len(e.Args) == 1 && mine(e.Args[0]):
			where = append(where, effect.Cond{Col: e.Args[0].Name, Op: "==", Val: effect.Lit("false")})
		default:
			seen := map[string]bool{}
			e.Walk(func(x *sql.Expr) {
				if mine(x) && !seen[x.Name] {
					seen[x.Name] = true
					where = append(where, effect.Cond{Col: x.Name, Op: "==", Val: effect.Unknown()})
				}
			})
		}
	}
	return key, where
}

// sameColumn says whether a value is the same column of a row read before: then
// the condition asks whether it is still so. An id does not change, it only says
// which row.
func sameColumn(v effect.Value, col string) bool {
	if col == "id" || hasSuffixAny(col, "_id", "uuid") || v.Kind != effect.PathValue || v.Root() == "in" {
		return false
	}
	return strings.HasSuffix(v.Name, "."+col)
}

func compareOp(op string) string {
	switch op {
	case "=", "is", "<=>":
		return "=="
	case "<>", "is not":
		return "!="
	case "<", "<=", ">", ">=":
		return op
	}
	return ""
}

func flip(op string) string {
	switch op {
	case "<":
		return ">"
	case "<=":
		return ">="
	case ">":
		return "<"
	case ">=":
		return "<="
	}
	return op
}

// param is the argument of a placeholder.
func (t *translation) param(name string) effect.Value {
	at := func(i int) effect.Value {
		if i < 0 || i >= len(t.args) || t.args[i] == nil {
			return effect.Unknown()
		}
		return t.c.e.deref(t.args[i]).v
	}
	if n, err := strconv.Atoi(strings.TrimLeft(name, "$?")); err == nil {
		return at(n - 1)
	}
	word := strings.TrimLeft(name, ":@$")
	for i, a := range t.args {
		a = t.c.e.deref(a)
		if a == nil {
			continue
		}
		if a.name == ":"+word {
			return a.v
		}
		if f := a.fields[word]; f != nil {
			return f.v
		}
		if a.kind == structVal {
			for _, n := range sortedKeys(a.fields) {
				if t.c.e.fieldColumn(a.typ, n) == snake(word) {
					return a.fields[n].v
				}
			}
		}
		if a.kind == plain && a.v.Kind == effect.PathValue && i == 0 {
			return path(a.v, snake(word))
		}
	}
	return effect.Unknown()
}

// value turns an expression into a symbolic value.
func (t *translation) value(e *sql.Expr) effect.Value {
	if e == nil {
		return effect.Unknown()
	}
	switch e.Kind {
	case sql.Const:
		return constOf(e.Name)
	case sql.Param:
		return t.param(e.Name)
	case sql.Col:
		return t.column(e)
	case sql.Op:
		return t.operator(e)
	case sql.Call:
		return t.call(e)
	}
	return effect.Unknown()
}

func constOf(lit string) effect.Value {
	if lit == "nil" || lit == "true" || lit == "false" || lit != "" && lit[0] == '"' {
		return effect.Lit(lit)
	}
	if _, err := strconv.ParseFloat(lit, 64); err == nil && !strings.ContainsAny(lit, "eExX_+") {
		return effect.Lit(lit)
	}
	return effect.Unknown()
}

func (t *translation) column(e *sql.Expr) effect.Value {
	if e.Table == "excluded" {
		if v, ok := t.ins[e.Name]; ok {
			return v
		}
		return effect.Unknown()
	}
	if b := t.binds[e.Table]; b != "" && e.Table != "" {
		return effect.Var(b, word(e.Name))
	}
	if e.Table == "" || e.Table == t.table || e.Table == t.alias {
		if t.table == "" {
			if len(t.binds) == 1 {
				for _, b := range t.binds {
					return effect.Var(b, word(e.Name))
				}
			}
			return effect.Unknown()
		}
		return effect.Col(word(e.Name))
	}
	return effect.Unknown()
}

func (t *translation) operator(e *sql.Expr) effect.Value {
	args := make([]effect.Value, len(e.Args))
	for i, a := range e.Args {
		args[i] = t.value(a)
	}
	switch e.Name {
	case "+", "-", "*", "/":
		if len(args) == 1 {
			return effect.Apply("-", effect.Int(0), args[0])
		}
		return effect.Apply(e.Name, args...)
	case "not":
		return effect.Apply("!", args...)
	case "and":
		return effect.Apply("&&", args...)
	case "or":
		return effect.Apply("||", args...)
	case "||":
		return effect.Apply("append", args...)
	}
	if op := compareOp(e.Name); op != "" && len(args) == 2 {
		return effect.Apply(op, args...)
	}
	return effect.Apply("sql", args...)
}

func (t *translation) call(e *sql.Expr) effect.Value {
	switch e.Name {
	case "now", "current_timestamp", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "unix_timestamp", "datetime", "sysdate", "utc_timestamp", "julianday":
		return effect.Now()
	case "gen_random_uuid", "uuid_generate_v4", "uuid", "nextval", "random", "rand", "last_insert_rowid":
		return effect.Fresh()
	case "values": // MySQL: what the insert would have put in
		if len(e.Args) == 1 && e.Args[0].Kind == sql.Col {
			if v, ok := t.ins[e.Args[0].Name]; ok {
				return v
			}
		}
		return effect.Unknown()
	case "any", "coalesce", "ifnull":
		if len(e.Args) > 0 {
			v := t.value(e.Args[0])
			if e.Name == "any" || v.Kind != effect.UnknownValue {
				if len(e.Args) > 1 && v.Kind == effect.PathValue && v.Root() != "col" {
					return effect.Apply(e.Name, v, t.value(e.Args[1]))
				}
				return v
			}
		}
		return effect.Unknown()
	}
	args := make([]effect.Value, 0, len(e.Args))
	for _, a := range e.Args {
		args = append(args, t.value(a))
	}
	return effect.Apply(word(e.Name), args...)
}

// reads emits the reads of sub-queries in an expression; what they give is not
// followed further.
func (t *translation) reads(es ...*sql.Expr) {
	for _, e := range es {
		for _, s := range e.Subqueries() {
			sub := &translation{c: t.c, args: t.args, tx: t.tx, note: t.note, ctes: t.ctes}
			sub.statement(s, "sub", false)
		}
	}
}

func (t *translation) update(s *sql.Stmt, q *query) {
	t.table, t.alias = s.Table, s.Alias
	t.joined(s)
	for _, a := range s.Set {
		t.reads(a.Val)
	}
	t.reads(s.Where)
	step := effect.Step{Op: effect.Write, Mode: effect.Update, Bind: q.bind, Tx: t.tx}
	key, where := t.conditions(s.Table, s.Alias, s.Where.Conjuncts(), true)
	step.On = &effect.Resource{Kind: effect.TableKind, Name: s.Table, Key: key}
	step.Where = where
	step.Set = t.sets(s.Set)
	if s.Incomplete && len(step.Set) == 0 {
		step.Set = []effect.Assign{{Col: "*", Val: effect.Unknown()}}
	}
	q.cols = t.resultColumns(s, q.bind)
	t.emit(step)
}

func (t *translation) sets(as []sql.Assign) []effect.Assign {
	var out []effect.Assign
	for _, a := range as {
		col := a.Col
		if col == "?" {
			col = "*"
		}
		v := t.value(a.Val)
		if subs := a.Val.Subqueries(); len(subs) > 0 {
			v = effect.Unknown()
		}
		out = append(out, effect.Assign{Col: col, Val: v})
	}
	return out
}

// joined emits the reads of further tables, so that their columns have a name.
func (t *translation) joined(s *sql.Stmt) {
	conds := append(s.Where.Conjuncts(), flatten(s.On)...)
	for _, r := range s.Joined {
		if t.ctes[r.Name] || r.Name == s.Table {
			if b := t.binds[r.Name]; b != "" && r.Alias != "" {
				t.binds[r.Alias] = b
			}
			continue
		}
		key, where := t.conditions(r.Name, r.Alias, conds, false)
		bind := t.c.e.fresh(r.Name)
		t.emit(effect.Step{Op: effect.Read, Bind: bind, On: &effect.Resource{Kind: effect.TableKind, Name: r.Name, Key: key}, Where: where, Tx: t.tx, OnErr: effect.OnReturn})
		t.binds[r.Name] = bind
		if r.Alias != "" {
			t.binds[r.Alias] = bind
		}
	}
}

func flatten(es []*sql.Expr) []*sql.Expr {
	var out []*sql.Expr
	for _, e := range es {
		out = append(out, e.Conjuncts()...)
	}
	return out
}

func (t *translation) delete(s *sql.Stmt, q *query) {
	t.table, t.alias = s.Table, s.Alias
	t.joined(s)
	t.reads(s.Where)
	key, where := t.conditions(s.Table, s.Alias, s.Where.Conjuncts(), true)
	q.cols = t.resultColumns(s, q.bind)
	t.emit(effect.Step{Op: effect.Write, Mode: effect.Delete, Bind: q.bind, Tx: t.tx, On: &effect.Resource{Kind: effect.TableKind, Name: s.Table, Key: key}, Where: where})
}

func (t *translation) insert(s *sql.Stmt, q *query) {
	t.table, t.alias = "", ""
	step := effect.Step{Op: effect.Write, Mode: effect.Insert, Bind: q.bind, Tx: t.tx}
	cols := s.InsertCols
	if len(cols) == 0 {
		if tb := t.c.e.b.schema.Tables[s.Table]; tb != nil {
			cols = tb.Columns
		}
	}
	t.ins = map[string]effect.Value{}
	var set []effect.Assign
	guarded := ""
	row := []*sql.Expr(nil)
	if len(s.Values) > 0 {
		row = s.Values[0]
	} else if s.Source != nil {
		guarded = t.source(s.Source)
		for _, c := range s.Source.Columns {
			row = append(row, c.Expr)
		}
	}
	for i, e := range row {
		t.reads(e)
		if i < len(cols) {
			v := t.value(e)
			t.ins[cols[i]] = v
			set = append(set, effect.Assign{Col: cols[i], Val: v})
		}
	}
	var key []effect.Assign
	for _, a := range set {
		if t.isKey(s.Table, a.Col) {
			key = append(key, a)
		}
	}
	step.Set = set
	t.table, t.alias = s.Table, s.Alias
	if c := s.OnConflict; c != nil {
		switch {
		case c.Nothing:
			step.Mode = effect.Ignore
		case c.Replace:
			step.Mode = effect.Put
		default:
			step.Mode = effect.Upsert
			step.Set = t.sets(c.Set)
			_, step.Where = t.conditions(s.Table, s.Alias, c.Where.Conjuncts(), true)
		}
		if step.Mode == effect.Upsert {
			key = without(key, step.Set) // what the conflict changes does not say which row it is
		}
		if len(c.Cols) > 0 {
			key = nil
			for _, col := range c.Cols {
				if v, ok := t.ins[col]; ok {
					key = append(key, effect.Assign{Col: col, Val: v})
				}
			}
		}
	}
	step.On = &effect.Resource{Kind: effect.TableKind, Name: s.Table, Key: key}
	q.cols = t.resultColumns(s, q.bind)
	if guarded == "" {
		t.emit(step)
		return
	}
	cond := effect.Apply("!", effect.Var(guarded, "found"))
	body := t.c.e.branch(func() { t.emit(step) })
	t.c.e.emit(effect.Step{Op: effect.If, Pos: t.c.pos(), Val: &cond, Body: body})
}

// without leaves out the columns that are set.
func without(key, set []effect.Assign) []effect.Assign {
	out := key[:0:0]
	for _, k := range key {
		changed := false
		for _, a := range set {
			changed = changed || a.Col == k.Col
		}
		if !changed {
			out = append(out, k)
		}
	}
	return out
}

// source emits what INSERT ... SELECT reads. For the form with WHERE NOT EXISTS
// it gives the variable of that check: within one statement the check is still
// taken from a snapshot, so two of them can both find nothing.
func (t *translation) source(s *sql.Stmt) string {
	guard := ""
	for _, e := range s.Where.Conjuncts() {
		if e.Kind == sql.Op && e.Name == "not" && len(e.Args) == 1 && e.Args[0].Kind == sql.Call && e.Args[0].Name == "exists" {
			for _, sub := range e.Args[0].Subqueries() {
				st := &translation{c: t.c, args: t.args, tx: t.tx, note: t.note, ctes: t.ctes}
				q := st.statement(sub, "check", false)
				guard = q.bind
			}
		}
	}
	if s.Table != "" && !t.ctes[s.Table] {
		st := &translation{c: t.c, args: t.args, tx: t.tx, note: t.note, ctes: t.ctes, binds: t.binds}
		q := st.statement(s, "sub", false)
		t.binds[s.Table] = q.bind
		if s.Alias != "" {
			t.binds[s.Alias] = q.bind
		}
	}
	return guard
}

var aggregates = map[string]string{"count": "count", "sum": "sum", "max": "max", "min": "min", "avg": "avg", "exists": "exists", "array_agg": "list", "json_agg": "list", "group_concat": "list", "string_agg": "list"}

func (t *translation) selectStmt(s *sql.Stmt, q *query, how string) {
	if t.lockCalls(s, q) {
		return
	}
	if s.Table == "" {
		t.existsOnly(s, q)
		return
	}
	t.binds[s.Table] = q.bind
	if s.Alias != "" {
		t.binds[s.Alias] = q.bind
	}
	step := effect.Step{Op: effect.Read, Bind: q.bind, Tx: t.tx, Lock: s.Lock}
	if how == "row" || how == "get" {
		step.Missing = "error"
	}
	t.table = ""
	conds := append(s.Where.Conjuncts(), flatten(s.On)...)
	single := len(s.Joined) == 0
	key, where := t.conditions(s.Table, s.Alias, conds, single)
	step.On = &effect.Resource{Kind: effect.TableKind, Name: s.Table, Key: key}
	step.Where = where
	for _, c := range s.Columns {
		e := c.Expr
		switch {
		case e.Kind == sql.Star:
			step.Cols = append(step.Cols, "*")
		case e.Kind == sql.Col && (single || e.Table == s.Table || e.Table == s.Alias):
			step.Cols = append(step.Cols, e.Name)
		default:
			e.Walk(func(x *sql.Expr) {
				if x.Kind == sql.Call && aggregates[x.Name] != "" && step.Agg == "" {
					step.Agg = aggregates[x.Name]
				}
				if x.Kind == sql.Col && (single || x.Table == s.Table || x.Table == s.Alias) {
					step.Cols = append(step.Cols, x.Name)
				}
			})
		}
	}
	if step.Agg != "" {
		step.Missing = "" // an aggregate always gives a row
	}
	if how == "check" || len(s.Columns) == 1 && s.Columns[0].Expr.Kind == sql.Const {
		step.Op = effect.Check
	}
	if !t.ctes[s.Table] {
		t.emit(step)
	}
	t.joined(s)
	t.reads(s.Where)
	q.cols = t.resultColumns(s, q.bind)
}

// existsOnly is SELECT EXISTS(SELECT ...), or a SELECT of expressions.
func (t *translation) existsOnly(s *sql.Stmt, q *query) {
	for _, c := range s.Columns {
		subs := c.Expr.Subqueries()
		if c.Expr.Kind == sql.Call && c.Expr.Name == "exists" && len(subs) == 1 {
			inner := &translation{c: t.c, args: t.args, tx: t.tx, note: t.note, ctes: t.ctes}
			iq := inner.statement(subs[0], "check", false)
			*q = *iq
			q.cols = []*val{plainVal(effect.Var(iq.bind, "found"))}
			return
		}
		t.reads(c.Expr)
		q.cols = append(q.cols, plainVal(t.value(c.Expr)))
	}
}

// lockCalls are the functions that take and give back advisory locks.
func (t *translation) lockCalls(s *sql.Stmt, q *query) bool {
	for _, c := range s.Columns {
		e := c.Expr
		if e.Kind != sql.Call {
			continue
		}
		step := effect.Step{Op: effect.Lock, Bind: q.bind, On: &effect.Resource{Kind: effect.AdvisoryKind, Name: "pg"}}
		for i, a := range e.Args {
			if e.Name == "get_lock" && i == 1 {
				break
			}
			step.On.Key = append(step.On.Key, effect.Assign{Col: "key" + strings.Repeat("2", i), Val: t.value(a)})
		}
		switch n := e.Name; {
		case strings.HasPrefix(n, "pg_advisory_xact_lock"):
			step.Tx = t.tx
		case strings.HasPrefix(n, "pg_try_advisory_xact_lock"):
			step.Tx, step.Try = t.tx, true
		case strings.HasPrefix(n, "pg_try_advisory_lock"):
			step.Try = true
		case strings.HasPrefix(n, "pg_advisory_lock"):
		case strings.HasPrefix(n, "pg_advisory_unlock"):
			step.Op = effect.Unlock
		case n == "get_lock":
			step.On.Name, step.Try = "mysql", true
		case n == "release_lock":
			step.On.Name, step.Op = "mysql", effect.Unlock
		case n == "pg_notify":
			step = effect.Step{Op: effect.Send, Bind: q.bind, On: &effect.Resource{Kind: effect.TopicKind, Name: "pg_notify"}, Tx: t.tx}
		default:
			continue
		}
		step.Shared = strings.HasSuffix(e.Name, "_shared")
		t.emit(step)
		q.cols = []*val{plainVal(effect.Var(q.bind, "ok"))}
		return true
	}
	return false
}

// resultColumns are the values that a scan of the result gives, by position.
func (t *translation) resultColumns(s *sql.Stmt, bind string) []*val {
	was, table := t.binds, t.table
	t.binds = map[string]string{}
	for k, v := range was {
		t.binds[k] = v
	}
	if s.Verb != sql.Select {
		t.binds[s.Table] = bind
		if s.Alias != "" {
			t.binds[s.Alias] = bind
		}
	}
	t.table = ""
	defer func() { t.binds, t.table = was, table }()
	var out []*val
	for _, c := range s.Columns {
		e := c.Expr
		var v effect.Value
		switch {
		case e.Kind == sql.Star:
			if tb := t.c.e.b.schema.Tables[s.Table]; tb != nil && len(s.Joined) == 0 {
				for _, col := range tb.Columns {
					out = append(out, plainVal(effect.Var(bind, word(col))))
				}
				continue
			}
			v = effect.Var(bind)
		case e.Kind == sql.Const:
			v = effect.Var(bind, "found")
		case e.Kind == sql.Col && e.Table == "":
			v = effect.Var(bind, word(e.Name))
		case e.Kind == sql.Call && aggregates[e.Name] != "":
			v = effect.Var(bind, aggregates[e.Name])
		case e.Kind == sql.Call && (e.Name == "coalesce" || e.Name == "ifnull") && len(e.Args) > 0 && e.Args[0].Kind == sql.Call && aggregates[e.Args[0].Name] != "":
			v = effect.Var(bind, aggregates[e.Args[0].Name])
		default:
			v = t.bare(e, bind)
		}
		out = append(out, plainVal(v))
	}
	return out
}

// bare gives columns without a qualifier the main table's variable.
func (t *translation) bare(e *sql.Expr, bind string) effect.Value {
	if e.Kind == sql.Op || e.Kind == sql.Call {
		args := make([]effect.Value, 0, len(e.Args))
		for _, a := range e.Args {
			args = append(args, t.bare(a, bind))
		}
		if e.Kind == sql.Op && (e.Name == "+" || e.Name == "-" || e.Name == "*" || e.Name == "/") && len(args) == 2 {
			return effect.Apply(e.Name, args...)
		}
		if e.Kind == sql.Call && (e.Name == "coalesce" || e.Name == "ifnull") && len(args) > 0 {
			return args[0]
		}
		if op := compareOp(e.Name); op != "" && len(args) == 2 {
			return effect.Apply(op, args...)
		}
		return effect.Apply(word(e.Name), args...)
	}
	if e.Kind == sql.Col && e.Table == "" {
		return effect.Var(bind, word(e.Name))
	}
	return t.value(e)
}

// ended is the transaction that a COMMIT or ROLLBACK ends. The handle keeps it:
// the other way out of a branch ends the same one.
func (t *translation) ended() string {
	if oneConnection(t.c.on) && t.tx != "" {
		return t.tx
	}
	return "?"
}
