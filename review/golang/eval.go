package golang

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// Bounds on what one entry point is followed into. Beyond them a call is opaque.
const (
	maxDepth = 14
	maxSteps = 2500
)

// ev evaluates the body of one entry point, or of one function for its summary.
// It walks the syntax, not SSA: the effect program is structured, and rebuilding
// loops, deferred calls and error paths from a flow graph would lose exactly the
// places that a finding has to name.
type ev struct {
	b     *builder
	w     *world
	out   *effect.Block
	env   map[types.Object]*val
	names map[string]int
	keys  map[string]effect.Value // of objects that were read, by variable
	facts map[string]bool         // a value's text: true is known not nil, false is known nil
	fr    *frame
	steps int
	// loop is the innermost loop's variables that are kept in the program itself.
	loose  map[types.Object]int
	failed bool // an error was answered on this path
	spawn  int
}

// frame is one function that is being evaluated.
type frame struct {
	up      *frame
	fn      *declared
	lit     *ast.FuncLit
	info    *types.Info
	sig     *types.Signature
	results []*types.Var // named results
	defers  []deferred
	returns [][]*val
	depth   int
	http    bool // has no error result and answers a client
	last    ast.Stmt
}

type deferred struct {
	call *ast.CallExpr
	recv *val // of a method, evaluated at the defer
	args []*val
}

func newEv(b *builder) *ev {
	return &ev{b: b, w: b.w, env: map[types.Object]*val{}, names: map[string]int{}, keys: map[string]effect.Value{}, facts: map[string]bool{}, loose: map[types.Object]int{}}
}

func (e *ev) emit(s effect.Step) {
	e.steps++
	*e.out = append(*e.out, s)
}

// fresh makes a variable name that the program does not use yet.
func (e *ev) fresh(name string) string {
	name = word(name)
	switch name {
	case "in", "col", "nil", "true", "false", "_":
		name = "v" + name
	}
	if c := name[0]; c >= '0' && c <= '9' {
		name = "v" + name
	}
	e.names[name]++
	if n := e.names[name]; n > 1 {
		return name + "_" + strconv.Itoa(n)
	}
	return name
}

func (e *ev) branch(f func()) effect.Block {
	was := e.out
	var b effect.Block
	e.out = &b
	f()
	e.out = was
	return b
}

func (e *ev) pos(n ast.Node) effect.Pos { return e.w.pos(n.Pos()) }

func (e *ev) obj(id *ast.Ident) types.Object {
	if o := e.fr.info.Defs[id]; o != nil {
		return o
	}
	return e.fr.info.Uses[id]
}

// set gives a local variable a value. A variable that differs between the ways
// that lead to a point lives in the program as a let.
func (e *ev) set(o types.Object, a *val) {
	if o == nil {
		return
	}
	if e.loose[o] > 0 && !a.special() {
		name := e.varName(o)
		e.let(name, a.v)
		a = plainVal(effect.Var(name))
	}
	e.env[o] = a
}

// varName is the name of a variable in the program; one per object.
func (e *ev) varName(o types.Object) string {
	if n, ok := e.b.objNames[o]; ok {
		if _, used := e.names[strings.TrimSuffix(n, ".err")]; used {
			return n
		}
	}
	n := e.fresh(o.Name())
	if isErrorType(o.Type()) {
		n += ".err" // as the errors of steps are called
	}
	e.b.objNames[o] = n
	return n
}

// let assigns a variable of the program. Values that mention its old content are
// saved first.
func (e *ev) let(name string, v effect.Value) {
	if v.Kind == effect.PathValue && v.Name == name {
		return
	}
	e.save(name)
	e.emit(effect.Step{Op: effect.Let, Name: name, Val: &v})
}

func (e *ev) save(name string) {
	for o, a := range e.env {
		if a == nil || a.special() || a.v.Kind != effect.ApplyValue && !deeper(a.v, name) || !mentions(a.v, name) {
			continue
		}
		n := e.fresh(o.Name())
		v := a.v
		e.emit(effect.Step{Op: effect.Let, Name: n, Val: &v})
		e.env[o] = plainVal(effect.Var(n))
	}
}

// deeper says whether v is a path into the variable (not the variable itself,
// which simply changes with it).
func deeper(v effect.Value, name string) bool {
	return v.Kind == effect.PathValue && v.Name != rootOf(name)
}

func rootOf(name string) string {
	v := effect.Var(name)
	return v.Root()
}

// mentions says whether the value reads what an assignment to name changes.
func mentions(v effect.Value, name string) bool {
	found := false
	v.Paths(func(p string) {
		found = found || p == name || len(p) > len(name) && p[:len(name)] == name && p[len(name)] == '.'
	})
	return found
}

// terminated says whether control can not reach the end of the block.
func terminated(b effect.Block) bool {
	if len(b) == 0 {
		return false
	}
	switch s := &b[len(b)-1]; s.Op {
	case effect.Return, effect.Break, effect.Continue:
		return true
	case effect.If:
		return terminated(s.Body) && terminated(s.Else)
	case effect.Loop:
		return s.Val == nil && s.Max == 0 && !breaks(s.Body)
	}
	return false
}

// breaks says whether a loop's body leaves the loop by a break.
func breaks(b effect.Block) bool {
	for i := range b {
		if b[i].Op == effect.Break || b[i].Op == effect.If && (breaks(b[i].Body) || breaks(b[i].Else)) {
			return true
		}
	}
	return false
}

// fork evaluates two ways and joins what they leave in the variables.
func (e *ev) fork(pos effect.Pos, cond effect.Value, then, other func()) {
	if cond.Kind == effect.ConstValue && (cond.Name == "true" || cond.Name == "false") {
		if cond.Name == "true" {
			then()
		} else if other != nil {
			other()
		}
		return
	}
	base, facts, failed := e.env, e.facts, e.failed
	defers := len(e.fr.defers)
	e.env, e.facts = maps.Clone(base), maps.Clone(facts)
	e.assume(cond, true)
	a := e.branch(then)
	envA, failA := e.env, e.failed
	thenDefers := e.fr.defers
	e.fr.defers = append([]deferred(nil), e.fr.defers[:defers]...)
	e.env, e.facts, e.failed = maps.Clone(base), maps.Clone(facts), failed
	e.assume(cond, false)
	var b effect.Block
	if other != nil {
		b = e.branch(other)
	}
	envB, failB := e.env, e.failed
	ta, tb := terminated(a), terminated(b)
	e.facts, e.failed = facts, failed
	switch {
	case ta && !tb:
		e.env, e.failed = envB, failB
		e.facts = maps.Clone(facts)
		e.assume(cond, false)
	case tb && !ta:
		e.env, e.failed = envA, failA
		e.facts = maps.Clone(facts)
		e.assume(cond, true)
	default:
		e.env = e.join(base, envA, envB, &a, &b)
	}
	if !ta && len(thenDefers) > len(e.fr.defers) {
		e.fr.defers = thenDefers
	}
	if len(a) == 0 && len(b) == 0 {
		// what was decided may still be an error that is passed over
		if !isErrCheck(cond) {
			return
		}
	}
	e.emit(effect.Step{Op: effect.If, Pos: pos, Val: &cond, Body: a, Else: b})
}

// isErrCheck says whether the condition looks at an error.
func isErrCheck(v effect.Value) bool {
	found := false
	v.Paths(func(p string) { found = found || len(p) > 4 && p[len(p)-4:] == ".err" })
	return found
}

// join merges the variables of two ways.
func (e *ev) join(base, envA, envB map[types.Object]*val, a, b *effect.Block) map[types.Object]*val {
	out := maps.Clone(base)
	for o := range base {
		x, y := envA[o], envB[o]
		switch {
		case x == y:
			out[o] = x
		case x == nil || y == nil:
			out[o] = unknown()
		case x.special():
			out[o] = x
		case y.special():
			out[o] = y
		case x.v.String() == y.v.String() && x.kind == y.kind:
			out[o] = x
		default:
			name := e.varName(o)
			vx, vy := x.v, y.v
			for _, way := range []struct {
				blk *effect.Block
				v   *effect.Value
			}{{a, &vx}, {b, &vy}} {
				if !terminated(*way.blk) && !(way.v.Kind == effect.PathValue && way.v.Name == name) {
					*way.blk = append(*way.blk, effect.Step{Op: effect.Let, Name: name, Val: way.v})
				}
			}
			out[o] = plainVal(effect.Var(name))
		}
	}
	return out
}

// assume records what a condition says of nil-ness on the way it opens.
func (e *ev) assume(c effect.Value, holds bool) {
	if c.Kind != effect.ApplyValue {
		return
	}
	switch c.Name {
	case "!":
		e.assume(c.Args[0], !holds)
	case "&&":
		if holds {
			e.assume(c.Args[0], true)
			e.assume(c.Args[1], true)
		}
	case "||":
		if !holds {
			e.assume(c.Args[0], false)
			e.assume(c.Args[1], false)
		}
	case "==", "!=":
		if len(c.Args) != 2 {
			return
		}
		equal := (c.Name == "==") == holds
		if isNil(c.Args[1]) {
			e.facts[c.Args[0].String()] = !equal
		} else if equal && isConst(c.Args[1]) {
			e.facts[c.Args[0].String()] = true
			e.facts[c.Args[0].String()+"=="+c.Args[1].Name] = true
		}
	}
}

// answered says whether an error other than "not there" is being handled.
func (e *ev) errorInHand() bool {
	for k, nonNil := range e.facts {
		if nonNil && len(k) > 4 && k[len(k)-4:] == ".err" && !e.facts[k+`=="notfound"`] {
			return true
		}
	}
	return false
}

// assigned are the variables that are assigned in the nodes and declared outside
// of them.
func (e *ev) assigned(nodes ...ast.Node) []types.Object {
	var out []types.Object
	seen := map[types.Object]bool{}
	add := func(x ast.Expr) {
		for {
			switch y := x.(type) {
			case *ast.ParenExpr:
				x = y.X
				continue
			case *ast.IndexExpr: // m[k] = v changes m
				x = y.X
				continue
			case *ast.Ident:
				o := e.obj(y)
				if o != nil && !seen[o] {
					if _, ok := e.env[o]; ok {
						seen[o] = true
						out = append(out, o)
					}
				}
			}
			return
		}
	}
	for _, n := range nodes {
		if n == nil {
			continue
		}
		ast.Inspect(n, func(n ast.Node) bool {
			switch s := n.(type) {
			case *ast.AssignStmt:
				for _, l := range s.Lhs {
					add(l)
				}
			case *ast.IncDecStmt:
				add(s.X)
			case *ast.RangeStmt:
				if s.Tok == token.ASSIGN {
					add(s.Key)
					add(s.Value)
				}
			case *ast.UnaryExpr:
				if s.Op == token.AND {
					add(s.X)
				}
			}
			return true
		})
	}
	return out
}
