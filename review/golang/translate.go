package golang

import (
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
			l, r, op := folded(e.Args[0]), folded(e.Args[1]), compareOp(e.Name)
			if !mine(l) && mine(r) {
				l, r, op = r, l, flip(op)
			}
			if !mine(l) {
				where = append(where, t.touched(e, mine)...)
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
			where = append(where, t.touched(e, mine)...)
		}
	}
	return key, where
}

// touched are conditions of unknown content on the columns that an expression
// looks at.
func (t *translation) touched(e *sql.Expr, mine func(*sql.Expr) bool) []effect.Cond {
	var out []effect.Cond
	seen := map[string]bool{}
	e.Walk(func(x *sql.Expr) {
		if mine(x) && !seen[x.Name] {
			seen[x.Name] = true
			out = append(out, effect.Cond{Col: x.Name, Op: "==", Val: effect.Unknown()})
		}
	})
	return out
}

// folded is an expression without the functions that only fold its text:
// lower(mail) = lower($1) asks for the mail.
func folded(e *sql.Expr) *sql.Expr {
	for e.Kind == sql.Call && len(e.Args) == 1 && (e.Name == "lower" || e.Name == "upper" || e.Name == "trim" || e.Name == "date") {
		e = e.Args[0]
	}
	return e
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

// ended is the transaction that a COMMIT or ROLLBACK ends. The handle keeps it:
// the other way out of a branch ends the same one.
func (t *translation) ended() string {
	if oneConnection(t.c.on) && t.tx != "" {
		return t.tx
	}
	return "?"
}
