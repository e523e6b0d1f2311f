package golang

import (
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/sql"
)

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
