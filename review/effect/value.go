package effect

import (
	"fmt"
	"strconv"
	"strings"
)

// ValueKind is the kind of a symbolic value.
type ValueKind uint8

// The kinds of values. The zero Value is Unknown: what a front end forgets to
// fill in can not become a derivation.
const (
	UnknownValue ValueKind = iota
	ConstValue             // Name is the literal as written: "used" with quotes, 3, nil, true
	PathValue              // Name is a path: in.amount, a.balance, col.n
	ApplyValue             // Name is an operator or function
)

// Value is a symbolic value. In JSON and text it is its expression.
type Value struct {
	Kind ValueKind
	Name string
	Args []Value
}

// Str is a string constant.
func Str(s string) Value { return Value{Kind: ConstValue, Name: strconv.Quote(s)} }

// Int is an integer constant.
func Int(n int64) Value { return Value{Kind: ConstValue, Name: strconv.FormatInt(n, 10)} }

// Lit is a literal as written: 3, 1.5, true, false, nil, or a quoted string.
func Lit(s string) Value { return Value{Kind: ConstValue, Name: s} }

// In is an input of the entry point.
func In(name string) Value { return Value{Kind: PathValue, Name: "in." + name} }

// Var is a bound variable, or with fields a part of it.
func Var(name string, fields ...string) Value {
	return Value{Kind: PathValue, Name: strings.Join(append([]string{name}, fields...), ".")}
}

// Col is the stored column at the moment of a write.
func Col(name string) Value { return Value{Kind: PathValue, Name: "col." + name} }

// Apply is an operator or function on values.
func Apply(name string, args ...Value) Value {
	return Value{Kind: ApplyValue, Name: name, Args: args}
}

// Unknown is the value nobody knows.
func Unknown() Value { return Value{} }

// Fresh is a value that is different each time (uuid, temporary name).
func Fresh() Value { return Apply("fresh") }

// Now is the clock.
func Now() Value { return Apply("now") }

// Root is the first element of a path: "in", "col" or a variable; empty for
// other values.
func (v Value) Root() string {
	if v.Kind != PathValue {
		return ""
	}
	root, _, _ := strings.Cut(v.Name, ".")
	return root
}

// Paths calls visit for each path in the value.
func (v Value) Paths(visit func(path string)) {
	if v.Kind == PathValue {
		visit(v.Name)
	}
	for _, a := range v.Args {
		a.Paths(visit)
	}
}

// Uses says whether the value derives from the variable.
func (v Value) Uses(variable string) bool {
	found := false
	v.Paths(func(p string) {
		root, _, _ := strings.Cut(p, ".")
		found = found || root == variable
	})
	return found
}

// precedence of the operators that are written between their arguments.
func precedence(op string) int {
	switch op {
	case "||":
		return 1
	case "&&":
		return 2
	case "==", "!=", "<", "<=", ">", ">=":
		return 3
	case "+", "-":
		return 4
	case "*", "/":
		return 5
	}
	return 0
}

func (v Value) String() string { return v.text(0) }

func (v Value) text(outer int) string {
	switch v.Kind {
	case UnknownValue:
		return "?"
	case ConstValue, PathValue:
		return v.Name
	}
	if p := precedence(v.Name); p > 0 && len(v.Args) == 2 {
		s := v.Args[0].text(p) + " " + v.Name + " " + v.Args[1].text(p+1)
		if p < outer {
			return "(" + s + ")"
		}
		return s
	}
	if v.Name == "!" && len(v.Args) == 1 {
		return "!" + v.Args[0].text(6)
	}
	args := make([]string, len(v.Args))
	for i, a := range v.Args {
		args[i] = a.text(0)
	}
	return v.Name + "(" + strings.Join(args, ", ") + ")"
}

// MarshalText gives the expression.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText parses an expression.
func (v *Value) UnmarshalText(b []byte) error {
	p := newScanner(string(b))
	val, err := p.expr(0)
	if err == nil && p.tok != "" {
		err = fmt.Errorf("expression %q: %q is left over", b, p.tok)
	}
	*v = val
	return err
}

// MustExpr parses an expression and panics when it is none: for constants in
// front ends and tests.
func MustExpr(s string) Value {
	var v Value
	if err := v.UnmarshalText([]byte(s)); err != nil {
		panic(err)
	}
	return v
}
