package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/play/explore"
)

// node of EXPLAIN's JSON. Extra has all texts in it, for the functions named.
type node struct {
	Type      string `json:"Node Type"`
	Operation string `json:"Operation"`
	Relation  string `json:"Relation Name"`
	Schema    string `json:"Schema"`
	Alias     string `json:"Alias"`
	Filter    string `json:"Filter"`
	IndexCond string `json:"Index Cond"`
	Recheck   string `json:"Recheck Cond"`
	Plans     []node `json:"Plans"`
	Targets   []node `json:"Target Tables"`
}

// effect is what one statement does, apart from its transaction.
type effect struct {
	unknown string // the reason, when it can not be told
	reads   []explore.Access
	locks   []explore.Access // Lock, of rows that are written
	holds   []explore.Access // Lock or Share that end without publishing
	writes  []explore.Access // Write: seen at once, whatever the transaction does
	// advisory locks end in their own way.
	advisory   []explore.Access
	changes    []string
	splittable bool
	snapshot   bool // it takes a snapshot: it plans something
}

// touches reports whether the statement touches anything at all.
func (e *effect) touches() bool {
	return e.unknown != "" || len(e.reads)+len(e.locks)+len(e.holds)+len(e.writes)+len(e.advisory) > 0
}

// reader turns one plan into an effect.
type reader struct {
	cat  *catalog
	toks []token
	out  *effect
	seen map[string]bool // tables whose cascades have been followed
}

func (c *catalog) read(plan []byte, toks []token) *effect {
	var plans []struct {
		Plan node `json:"Plan"`
	}
	out := &effect{snapshot: true}
	if err := json.Unmarshal(plan, &plans); err != nil {
		out.unknown = fmt.Sprintf("its plan can not be read: %v", err)
		return out
	}
	r := &reader{cat: c, toks: toks, out: out, seen: map[string]bool{}}
	for _, p := range plans {
		r.visit(p.Plan, "")
	}
	r.functions(plan)
	out.writes = distinct(out.writes)
	return out
}

func distinct(accesses []explore.Access) []explore.Access {
	seen := map[string]bool{}
	return slices.DeleteFunc(accesses, func(a explore.Access) bool {
		again := seen[a.String()]
		seen[a.String()] = true
		return again
	})
}

// object is the name of a relation in footprints; ok is false for the system's.
func object(n node) (name string, ok bool) {
	switch n.Schema {
	case "public":
		return n.Relation, true
	case "pg_catalog", "information_schema", "pg_toast", "_holdfast", "_holdfast_snapshot":
		return "", false
	case "":
		return "", false
	}
	if strings.HasPrefix(n.Schema, "pg_temp") {
		return "", false // of this session alone
	}
	return n.Schema + "." + n.Relation, true
}

// visit adds what a node and those below it touch. lock is the strength that a
// LockRows above gives, "" without one.
func (r *reader) visit(n node, lock string) {
	switch {
	case n.Type == "LockRows":
		lock = r.strength()
	case n.Type == "ModifyTable":
		r.modify(n)
	case n.Type == "Foreign Scan":
		r.out.unknown = "foreign table " + n.Relation
	case n.Relation != "" && strings.HasSuffix(n.Type, "Scan"):
		r.scan(n, lock)
	}
	for _, p := range n.Plans {
		r.visit(p, lock)
	}
}

// strength of the row locks of a SELECT: shared only where no clause is
// exclusive.
func (r *reader) strength() string {
	for i, t := range r.toks {
		if t.is("for") && i+1 < len(r.toks) && r.toks[i+1].is("update", "no") {
			return "lock"
		}
	}
	return "share"
}

func (r *reader) scan(n node, lock string) {
	name, ok := object(n)
	if !ok {
		return
	}
	where := r.conditions(n)
	name = r.cat.root(name)
	r.out.reads = append(r.out.reads, explore.Access{Mode: explore.Read, Object: name, Where: where})
	switch lock {
	case "lock":
		r.out.holds = append(r.out.holds, explore.Access{Mode: explore.Lock, Object: name, Where: where})
	case "share":
		r.out.holds = append(r.out.holds, explore.Access{Mode: explore.Share, Object: name, Where: where})
	}
}

// conditions that every row of a scan satisfies; nil for none.
func (r *reader) conditions(n node) map[string]string {
	if r.cat.fuzzy {
		return nil
	}
	where := map[string]string{}
	for _, c := range []string{n.IndexCond, n.Filter, n.Recheck} {
		equalities(c, n.Alias, where)
	}
	if len(where) == 0 {
		return nil
	}
	return where
}

// modify adds what writing a table does.
func (r *reader) modify(n node) {
	targets := n.Targets
	if len(targets) == 0 {
		targets = []node{n}
	}
	var scans []node
	collect(n.Plans, &scans)
	for _, t := range targets {
		name, ok := object(t)
		if !ok {
			continue
		}
		where := r.targetWhere(n.Operation, t, scans)
		r.write(name, n.Operation, where)
	}
	r.out.splittable = r.out.splittable || r.splits(n.Operation, targets, scans)
}

// collect lists the scans of relations below.
func collect(plans []node, into *[]node) {
	for _, p := range plans {
		if p.Relation != "" && strings.HasSuffix(p.Type, "Scan") {
			*into = append(*into, p)
		}
		collect(p.Plans, into)
	}
}

// targetWhere is what is known of the rows that an UPDATE or DELETE changes:
// what its own scan of the target requires, less what it assigns.
func (r *reader) targetWhere(operation string, t node, scans []node) map[string]string {
	if operation != "Update" && operation != "Delete" {
		return nil
	}
	var own []node
	for _, s := range scans {
		if s.Relation == t.Relation && s.Schema == t.Schema && s.Alias == t.Alias {
			own = append(own, s)
		}
	}
	if len(own) != 1 {
		return nil
	}
	where := r.conditions(own[0])
	if operation == "Update" {
		maps.DeleteFunc(where, func(column, _ string) bool { return assigned(r.toks, column) })
	}
	return where
}

// splits reports whether the statement decides under its snapshot what it does
// not lock by a unique key.
func (r *reader) splits(operation string, targets, scans []node) bool {
	own := 0
	for _, s := range scans {
		if _, ok := object(s); ok {
			own++
		}
	}
	if own == 0 {
		return false
	}
	if operation == "Insert" || operation == "Merge" || own > 1 || len(targets) > 1 {
		return true
	}
	name, _ := object(scans[0])
	t := r.cat.tables[name]
	if t == nil {
		return true
	}
	where := r.conditions(scans[0])
	return !slices.ContainsFunc(t.unique, func(columns []string) bool {
		return !slices.ContainsFunc(columns, func(c string) bool { return where[c] == "" })
	})
}

// write adds a change of a table with what hangs on it.
func (r *reader) write(name, operation string, where map[string]string) {
	out := r.out
	t := r.cat.tables[name]
	if operation == "Update" && t != nil && (t.odd || slices.ContainsFunc(t.guarded, func(c string) bool { return assigned(r.toks, c) })) {
		// The new values may collide with those of any other row.
		where = nil
	}
	out.locks = append(out.locks, explore.Access{Mode: explore.Lock, Object: r.cat.root(name), Where: where})
	if root := r.cat.root(name); !slices.Contains(out.changes, root) {
		out.changes = append(out.changes, root)
	}
	if t == nil {
		out.unknown = "table " + name + " is not in the catalog that was read"
		return
	}
	if t.trigger {
		out.unknown = "table " + name + " has triggers or rules"
	}
	if operation != "Delete" {
		for _, p := range t.parents {
			out.holds = append(out.holds, explore.Access{Mode: explore.Share, Object: p + "#key"})
		}
	}
	if operation == "Insert" || operation == "Merge" {
		for _, s := range t.sequences {
			out.writes = append(out.writes, explore.Access{Mode: explore.Write, Object: "sequence:" + s})
		}
	}
	if len(t.children) == 0 {
		return
	}
	keyed := operation != "Update" || slices.ContainsFunc(t.keys, func(k string) bool { return assigned(r.toks, k) })
	if !keyed {
		return
	}
	out.locks = append(out.locks, explore.Access{Mode: explore.Lock, Object: name + "#key", Where: where})
	if operation != "Insert" {
		r.cascade(t, operation)
	}
}

// cascade follows foreign keys to the tables that refer to a changed row.
func (r *reader) cascade(t *table, operation string) {
	key := t.name + " " + operation
	if r.seen[key] {
		return
	}
	r.seen[key] = true
	for _, c := range t.children {
		action := c.onDelete
		if operation != "Delete" {
			action = c.onUpdate
		}
		if !changes(action) {
			r.out.reads = append(r.out.reads, explore.Access{Mode: explore.Read, Object: c.table})
			continue
		}
		next := "Update"
		if action == 'c' && operation == "Delete" {
			next = "Delete"
		}
		r.write(c.table, next, nil)
		if sub := r.cat.tables[c.table]; sub != nil {
			r.cascade(sub, next)
		}
	}
}

// functions looks for calls in the plan's texts: of sequences, advisory locks
// and functions whose effects are not known.
func (r *reader) functions(plan []byte) {
	var any any
	if json.Unmarshal(plan, &any) == nil {
		walk(any, r.calls)
	}
}

func walk(v any, f func(string)) {
	switch x := v.(type) {
	case string:
		if strings.Contains(x, "(") {
			f(x)
		}
	case []any:
		for _, e := range x {
			walk(e, f)
		}
	case map[string]any:
		for key, e := range x {
			if key == "Function Name" {
				if s, ok := e.(string); ok {
					f(s + "(")
				}
			}
			walk(e, f)
		}
	}
}

func (r *reader) calls(expression string) {
	toks := tokens(expression)
	for i, t := range toks {
		if name(t) == "" || i+1 >= len(toks) || !toks[i+1].is("(") {
			continue
		}
		f := strings.ToLower(t.text)
		switch {
		case f == "nextval" || f == "setval":
			if sequence, ok := argument(toks, i+2); ok {
				r.out.writes = append(r.out.writes, explore.Access{Mode: explore.Write, Object: "sequence:" + sequence})
			} else {
				r.out.unknown = f + " of a computed sequence"
			}
		case strings.HasPrefix(f, "pg_advisory") || strings.HasPrefix(f, "pg_try_advisory"):
			r.out.advisory = append(r.out.advisory, advisory(f, toks[i+1:]))
		case r.cat.suspects[f] != "":
			r.out.unknown = r.cat.suspects[f]
		}
	}
}

// argument is a text constant cast to regclass, as in nextval('s'::regclass).
func argument(toks []token, i int) (string, bool) {
	if i >= len(toks) || toks[i].kind != text {
		return "", false
	}
	return strings.TrimPrefix(strings.ReplaceAll(unquote(toks[i].text), `"`, ""), "public."), true
}

// advisory is the access of an advisory lock function. Its key restricts the
// access where it is one constant.
func advisory(f string, args []token) explore.Access {
	a := explore.Access{Mode: explore.Lock, Object: "advisory lock"}
	switch {
	case strings.HasPrefix(f, "pg_try"):
		a.Mode = explore.Write
	case strings.Contains(f, "unlock"):
		a.Mode = explore.Unlock
	case strings.HasSuffix(f, "_shared"):
		a.Mode = explore.Share
	}
	if end := closing(args, 0); end > 1 {
		if key, ok := constant(args[1:end]); ok {
			a.Where = map[string]string{"key": key}
		}
	}
	return a
}
