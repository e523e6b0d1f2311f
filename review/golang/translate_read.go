package golang

import (
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/sql"
)

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
