package golang

import (
	"go/ast"
	"go/types"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// kind tells apart the values that the evaluator knows more of than their
// symbolic expression.
type kind uint8

const (
	plain      kind = iota // only v
	handleVal              // a database handle; tx is the transaction's variable, empty for the outer handle
	sharedVal              // an object that outlives the call: name "pkg.Type" or "pkg.variable"
	stateVal               // a variable of such an object: name "pkg.Type.field", key for an element of a map
	mutexVal               // a lock in the process
	funcVal                // a function: lit or decl, with bound receiver
	structVal              // a composite literal: fields
	pointerVal             // the address of a local variable: cell
	fileVal                // an open file
	writerVal              // wraps another value whose file it writes: bufio.NewWriter(f)
	queryVal               // a statement that is built or whose result is still to be read
	tupleVal               // several results
	requestVal             // an HTTP request, a router context, a message
	errorVal               // a known error variable: name
	typeVal                // a type, or a package
)

// val is an abstract value.
type val struct {
	kind   kind
	v      effect.Value
	tx     string
	name   string
	key    []effect.Assign
	fields map[string]*val // by Go field name
	elems  []*val
	cell   *types.Var
	lit    *ast.FuncLit
	info   *types.Info // of lit
	decl   *types.Func
	recv   *val
	file   *file
	query  *query
	typ    types.Type
}

// file is an open file.
type file struct {
	path    effect.Value
	on      *effect.Resource
	written bool
	append  bool
	temp    bool
	bind    string
}

func plainVal(v effect.Value) *val { return &val{v: v} }

func unknown() *val { return &val{} }

// special says that the evaluator knows something of the value that the
// symbolic expression does not carry.
func (a *val) special() bool {
	if a == nil {
		return false
	}
	switch a.kind {
	case plain, errorVal, typeVal:
		return false
	case structVal:
		for _, f := range a.fields {
			if f.special() {
				return true
			}
		}
		return false
	}
	return true
}

// shape is a description of a value that two calls can share; ok is false when
// it belongs to this call only.
func (a *val) shape() (string, bool) {
	if a == nil {
		return "p", true
	}
	switch a.kind {
	case plain, errorVal, typeVal:
		return "p", true
	case handleVal:
		if a.tx == "" {
			return "h", true
		}
		return "t", true
	case sharedVal:
		return "s:" + a.name, true
	case requestVal:
		if a.v.Kind == effect.PathValue {
			return "r:" + a.v.Name, true
		}
	case stateVal, mutexVal:
		if len(a.key) == 0 {
			return "v:" + a.name, true
		}
	}
	return "", false
}

// snake is the column name of a Go field without a tag: UserID is user_id.
func snake(name string) string {
	var b strings.Builder
	rs := []rune(name)
	isUp := func(i int) bool { return i >= 0 && i < len(rs) && rs[i] >= 'A' && rs[i] <= 'Z' }
	isLow := func(i int) bool {
		return i >= 0 && i < len(rs) && (rs[i] >= 'a' && rs[i] <= 'z' || rs[i] >= '0' && rs[i] <= '9')
	}
	for i, r := range rs {
		if isUp(i) {
			if i > 0 && (isLow(i-1) || isUp(i-1) && isLow(i+1)) {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// column is the name under which a field is stored: the tag of the mapper that
// names one, or the name in snake case, which is what GORM, bun and sqlc do.
func column(f *types.Var, owner types.Type) string {
	tag := fieldTag(f, owner)
	for _, part := range strings.Split(tag.Get("gorm"), ";") {
		if c, ok := strings.CutPrefix(strings.TrimSpace(part), "column:"); ok {
			return word(strings.ToLower(c))
		}
	}
	if x := tag.Get("xorm"); strings.Count(x, "'") == 2 {
		return word(strings.ToLower(strings.Split(x, "'")[1]))
	}
	for _, k := range []string{"db", "bun", "json", "yaml", "form", "uri", "dynamodbav", "bson", "firestore"} {
		name, _, _ := strings.Cut(tag.Get(k), ",")
		if name != "" && name != "-" && !strings.Contains(name, ":") {
			return word(snake(name))
		}
	}
	return snake(f.Name())
}

// path extends a value by a field.
func path(v effect.Value, field string) effect.Value {
	switch {
	case v.Kind == effect.PathValue:
		return effect.Value{Kind: effect.PathValue, Name: v.Name + "." + word(field)}
	case v.Kind == effect.UnknownValue:
		return v
	case v.Kind == effect.ConstValue && v.Name == "nil":
		return effect.Unknown()
	}
	return effect.Apply("field", v, effect.Str(field))
}

// word makes a name that the text form takes for one word.
func word(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			b.WriteByte(c)
		} else {
			b.WriteByte('_')
		}
	}
	if b.Len() == 0 {
		return "_"
	}
	return b.String()
}

// concat joins strings, with constants melted together.
func concat(vs ...effect.Value) effect.Value {
	var out []effect.Value
	add := func(v effect.Value) {
		if v.Kind == effect.ConstValue && len(out) > 0 && out[len(out)-1].Kind == effect.ConstValue {
			a, err1 := strconv.Unquote(out[len(out)-1].Name)
			b, err2 := strconv.Unquote(v.Name)
			if err1 == nil && err2 == nil {
				out[len(out)-1] = effect.Str(a + b)
				return
			}
		}
		out = append(out, v)
	}
	for _, v := range vs {
		if v.Kind == effect.ApplyValue && v.Name == "concat" {
			for _, a := range v.Args {
				add(a)
			}
			continue
		}
		add(v)
	}
	if len(out) == 1 {
		return out[0]
	}
	return effect.Apply("concat", out...)
}

func isConst(v effect.Value) bool { return v.Kind == effect.ConstValue }

func isNil(v effect.Value) bool { return v.Kind == effect.ConstValue && v.Name == "nil" }

// constString is the text of a string constant.
func constString(v effect.Value) (string, bool) {
	if v.Kind != effect.ConstValue || v.Name == "" || v.Name[0] != '"' {
		return "", false
	}
	s, err := strconv.Unquote(v.Name)
	return s, err == nil
}

// values are the symbolic values of several.
func values(vs []*val) []effect.Value {
	out := make([]effect.Value, len(vs))
	for i, a := range vs {
		if a != nil {
			out[i] = a.v
		}
	}
	return out
}
