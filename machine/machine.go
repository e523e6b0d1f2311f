package machine

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// State is the name of a state, as it is stored.
type State string

// Transition is one allowed step.
type Transition struct {
	From, To State
	// Name labels the step in diagrams: "pay". It may be empty.
	Name string
}

// Table declares a machine.
type Table struct {
	// Name is for messages and diagrams.
	Name string
	// States are all states.
	States []State
	// Initial are the states in which a thing may begin.
	Initial []State
	// Final are the states that nothing leaves.
	Final       []State
	Transitions []Transition
}

// Machine is a table that was checked. It does not change and is safe for
// concurrent use.
type Machine struct {
	table Table
	next  map[State][]State
}

// TableError says what is wrong with a table.
type TableError struct {
	Name     string
	Problems []string
}

func (e *TableError) Error() string {
	return fmt.Sprintf("state machine %q is refused: %s", e.Name, strings.Join(e.Problems, "; "))
}

// New checks a table. *[TableError] lists all that is wrong with it:
//
//   - a name that is empty or not printable, a state that is declared twice or
//     used without being declared, no initial state;
//   - a transition that is there twice, leaves a final state, or leads to where it
//     starts: the guard of such a one could not tell the first of two callers
//     from the second, and both would succeed;
//   - a state that cannot be reached, or that nothing leaves although it is not
//     final.
func New(t Table) (*Machine, error) {
	c := &checker{table: t, known: map[State]bool{}, next: map[State][]State{}}
	c.names()
	c.transitions()
	if len(c.problems) == 0 {
		c.graph()
	}
	if len(c.problems) > 0 {
		return nil, &TableError{Name: t.Name, Problems: c.problems}
	}
	t.States, t.Initial, t.Final, t.Transitions = slices.Clone(t.States), slices.Clone(t.Initial), slices.Clone(t.Final), slices.Clone(t.Transitions)
	return &Machine{table: t, next: c.next}, nil
}

// Must is New for tables in package variables; it panics on a table that is
// refused.
func Must(t Table) *Machine {
	m, err := New(t)
	if err != nil {
		panic(err)
	}
	return m
}

// checker collects what is wrong with a table.
type checker struct {
	table    Table
	known    map[State]bool
	next     map[State][]State
	problems []string
}

func (c *checker) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func printable(s string) bool {
	return s != "" && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func (c *checker) names() {
	if !printable(c.table.Name) {
		c.problem("its name is empty or not printable")
	}
	for _, s := range c.table.States {
		switch {
		case !printable(string(s)):
			c.problem("the state name %q is empty or not printable", s)
		case c.known[s]:
			c.problem("the state %q is declared twice", s)
		}
		c.known[s] = true
	}
	if len(c.table.Initial) == 0 {
		c.problem("there is no initial state")
	}
	for what, list := range map[string][]State{"initial": c.table.Initial, "final": c.table.Final} {
		seen := map[State]bool{}
		for _, s := range list {
			if !c.known[s] {
				c.problem("the %s state %q is not among the states", what, s)
			}
			if seen[s] {
				c.problem("the %s state %q is named twice", what, s)
			}
			seen[s] = true
		}
	}
}

func (c *checker) transitions() {
	for _, t := range c.table.Transitions {
		for _, s := range []State{t.From, t.To} {
			if !c.known[s] {
				c.problem("the transition %q → %q uses %q, which is not among the states", t.From, t.To, s)
			}
		}
		switch {
		case t.From == t.To:
			c.problem("the transition %q → %q leads to where it starts, so its guard would let two callers through", t.From, t.To)
		case slices.Contains(c.next[t.From], t.To):
			c.problem("the transition %q → %q is there twice", t.From, t.To)
		case slices.Contains(c.table.Final, t.From):
			c.problem("the transition %q → %q leaves a final state", t.From, t.To)
		}
		if t.Name != "" && !printable(t.Name) {
			c.problem("the name of the transition %q → %q is not printable", t.From, t.To)
		}
		c.next[t.From] = append(c.next[t.From], t.To)
	}
}

func (c *checker) graph() {
	reached := map[State]bool{}
	todo := slices.Clone(c.table.Initial)
	for len(todo) > 0 {
		s := todo[0]
		todo = todo[1:]
		if !reached[s] {
			reached[s] = true
			todo = append(todo, c.next[s]...)
		}
	}
	for _, s := range c.table.States {
		if !reached[s] {
			c.problem("the state %q cannot be reached from an initial state", s)
		}
		if len(c.next[s]) == 0 && !slices.Contains(c.table.Final, s) {
			c.problem("nothing leaves the state %q; declare it final if that is meant", s)
		}
	}
}

// Name is the machine's name.
func (m *Machine) Name() string { return m.table.Name }

// States are all states, in the order of the table.
func (m *Machine) States() []State { return slices.Clone(m.table.States) }

// Allows says whether the table has the transition.
func (m *Machine) Allows(from, to State) bool { return slices.Contains(m.next[from], to) }

// Next are the states that the table allows after s.
func (m *Machine) Next(s State) []State { return slices.Clone(m.next[s]) }

// Final says whether nothing leaves s.
func (m *Machine) Final(s State) bool { return slices.Contains(m.table.Final, s) }

// initial checks the state in which a thing begins; empty means the only one.
func (m *Machine) initial(s State) (State, error) {
	if s == "" && len(m.table.Initial) == 1 {
		return m.table.Initial[0], nil
	}
	if slices.Contains(m.table.Initial, s) {
		return s, nil
	}
	return "", &IllegalError{Machine: m.table.Name, To: s, Allowed: slices.Clone(m.table.Initial)}
}

func (m *Machine) allow(from, to State) error {
	if m.Allows(from, to) {
		return nil
	}
	return &IllegalError{Machine: m.table.Name, From: from, To: to, Allowed: m.Next(from)}
}
