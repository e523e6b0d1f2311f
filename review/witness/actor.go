package witness

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// actor is one instance of an entry point (or a thread that it started).
type actor struct {
	name    string // "A", "B"
	index   int    // column in the schedule
	process int
	code    *code
	run     *run
	pc      int
	env     map[string]*binding
	scopes  []scope
	loops   map[int]int
	txs     []*tx
	handles map[string]*row // open files by path
	rounds  int             // makes unknown and fresh values of loop rounds differ
	looked  bool            // it has run a step that looks (see looks)
	parent  *actor
	childOf string
	started *effect.Step
	kids    []*actor
	done    bool
	failed  bool // it answered with a failure
	acked   *effect.Step
	lost    map[string]*effect.Step // locks that were taken from it, unknown to it
}

type scope struct {
	end   int
	step  *effect.Step
	loops map[int]int
}

// binding is what a variable holds: a term, or a record that was read.
type binding struct {
	t   *term
	rec *record
}

// record is the local copy of something read, or the result of a write.
type record struct {
	row    *row
	data   data
	fields map[string]term // found, rows, ok, err, version, token, path, count
	agg    *term
}

func (a *actor) bind(name string, r *record) {
	if name == "" {
		return
	}
	a.env[name] = &binding{rec: r}
}

// lookup finds the variable that a path begins with and the rest of the path.
func (a *actor) lookup(path string) (*binding, string) {
	for end := len(path); end > 0; {
		if b := a.env[path[:end]]; b != nil {
			return b, strings.TrimPrefix(path[end:], ".")
		}
		end = strings.LastIndexByte(path[:end], '.')
	}
	return nil, ""
}

// eval gives a value as a term; cell gives the stored columns for `col.`.
func (a *actor) eval(v effect.Value) term { return a.evalOn(v, nil, nil) }

func (a *actor) evalOn(v effect.Value, r *row, d *data) term {
	switch v.Kind {
	case effect.ConstValue:
		return constant(v.Name)
	case effect.PathValue:
		return a.path(v.Name, r, d)
	case effect.ApplyValue:
		return a.application(v, r, d)
	}
	return a.unknown("?")
}

func (a *actor) unknown(what string) term {
	return single(&atom{key: fmt.Sprintf("%s.%s%d.%d", a.name, what, a.pc, a.rounds), kind: inputAtom})
}

func (a *actor) path(p string, r *row, d *data) term {
	root, rest, _ := strings.Cut(p, ".")
	switch root {
	case "in":
		return single(&atom{key: a.input(p), kind: inputAtom})
	case "col":
		if d != nil {
			return a.run.st.cell(r, *d, rest)
		}
		return a.unknown("col.")
	}
	b, field := a.lookup(p)
	switch {
	case b == nil:
		return single(&atom{key: a.name + "." + p, kind: inputAtom})
	case b.rec != nil:
		return a.field(b.rec, field)
	case field == "":
		return *b.t
	case field == "err" || field == "found":
		return a.unknown(field)
	}
	return apply("field", *b.t, constant(fmt.Sprintf("%q", field)))
}

// input names an input. What is used as a key is the same for all actors: those
// that do not meet do not race. A part of a key (the user of a vote, beside the
// post) may differ while they meet on something else.
func (a *actor) input(p string) string {
	if a.run.crossed && a.index == 1 {
		for _, c := range a.code.crosses {
			if p == c[0] {
				return c[1]
			}
			if p == c[1] {
				return c[0]
			}
		}
	}
	if sole, ok := a.code.keyIns[p]; ok && (sole || a.run.st.w.ask("B's "+p+" is that of A", true)) {
		return p
	}
	name, _, _ := strings.Cut(a.name, ".") // a thread has the inputs of who started it
	return name + "." + p
}

func (a *actor) field(rec *record, field string) term {
	st := a.run.st
	if field == "" {
		if rec.agg != nil {
			return *rec.agg
		}
		if v, ok := rec.fields["value"]; ok {
			return v
		}
		return st.whole(rec.row, rec.data)
	}
	if v, ok := rec.fields[field]; ok {
		return v
	}
	if rec.row == nil && len(rec.data.cols) == 0 {
		return nilTerm
	}
	if !rec.data.exists {
		if v, ok := rec.data.cols[field]; ok {
			return v
		}
		return nilTerm
	}
	return st.cell(rec.row, rec.data, field)
}

func (a *actor) application(v effect.Value, r *row, d *data) term {
	switch v.Name {
	case "fresh":
		return single(&atom{key: fmt.Sprintf("%s.new%d.%d", a.name, a.pc, a.rounds), kind: freshAtom})
	case "now":
		return a.unknown("now")
	case "&&", "||", "!":
		return boolean(a.cond(v, true))
	}
	if isCompare(v) {
		return boolean(a.cond(v, true))
	}
	args := make([]term, len(v.Args))
	for i, x := range v.Args {
		args[i] = a.evalOn(x, r, d)
	}
	if len(args) == 2 {
		switch v.Name {
		case "+":
			return args[0].plus(1, args[1])
		case "-":
			return args[0].plus(-1, args[1])
		case "*":
			for i := range args {
				if other := args[1-i]; len(args[i].parts) == 0 {
					return number(0).plus(args[i].c, other)
				}
			}
		}
	}
	return apply(v.Name, args...)
}

// cond decides a condition; want is the outcome that is tried first where it is
// open.
func (a *actor) cond(v effect.Value, want bool) bool {
	if v.Kind == effect.ApplyValue {
		switch {
		case v.Name == "!" && len(v.Args) == 1:
			return !a.cond(v.Args[0], !want)
		case v.Name == "&&" && len(v.Args) == 2:
			return a.cond(v.Args[0], want) && a.cond(v.Args[1], want)
		case v.Name == "||" && len(v.Args) == 2:
			return a.cond(v.Args[0], want) || a.cond(v.Args[1], want)
		case isCompare(v):
			return a.run.st.w.compare(v.Name, a.eval(v.Args[0]), a.eval(v.Args[1]), want)
		}
	}
	return a.run.st.w.truth(a.eval(v), want)
}

// assign is a Let.
func (a *actor) assign(s *effect.Step) {
	if s.Val == nil {
		return
	}
	if s.Val.Kind == effect.PathValue {
		if b, field := a.lookup(s.Val.Name); b != nil && field == "" && s.Val.Root() != "in" {
			a.env[s.Name] = b
			return
		}
	}
	v := a.eval(*s.Val)
	if b, field := a.lookup(s.Name); b != nil && b.rec != nil && field != "" {
		rec := *b.rec
		rec.data = rec.data.clone()
		if rec.data.cols == nil {
			rec.data.cols = map[string]term{}
		}
		rec.data.cols[field] = v
		b.rec = &rec
		return
	}
	a.env[s.Name] = &binding{t: &v}
}

// tx is the transaction a step runs on, or nil.
func (a *actor) tx(name string) *tx {
	owner := a
	for owner.parent != nil && name != "" && owner.find(name) == nil {
		owner = owner.parent
	}
	return owner.find(name)
}

func (a *actor) find(name string) *tx {
	if name == "" {
		return nil
	}
	for i := len(a.txs) - 1; i >= 0; i-- {
		t := a.txs[i]
		if !t.closed && (name == "?" || a.sameVar(t.name, name)) {
			return t
		}
	}
	return nil
}

// sameVar says whether a variable names the transaction, also through copies.
func (a *actor) sameVar(tx, name string) bool {
	if tx == name {
		return true
	}
	b := a.env[name]
	return b != nil && b == a.env[tx]
}

// key evaluates a resource's table name and key.
func (a *actor) key(r *effect.Resource) (string, []keyTerm) {
	table := tableOf(r, a.process)
	key := make([]keyTerm, len(r.Key))
	for i, k := range r.Key {
		key[i] = keyTerm{k.Col, a.run.st.w.resolve(a.eval(k.Val))}
	}
	return table, key
}

func tableOf(r *effect.Resource, process int) string {
	name := string(r.Kind) + ":" + r.Name
	if r.Kind == effect.VarKind || r.Kind == effect.MutexKind {
		name += fmt.Sprintf("@%d", process)
	}
	return name
}

// lockName names a lock with its key.
func (a *actor) lockName(r *effect.Resource) string {
	name, key := a.key(r)
	for _, k := range key {
		name += "[" + k.val.String() + "]"
	}
	return name
}
