//go:build unix

package machine_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/machine"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// orders is the table of the tests.
func orders() machine.Table {
	return machine.Table{
		Name:    "order",
		States:  []machine.State{"new", "paid", "in transit", "delivered", "cancelled"},
		Initial: []machine.State{"new"},
		Final:   []machine.State{"delivered", "cancelled"},
		Transitions: []machine.Transition{
			{From: "new", To: "paid", Name: "pay"},
			{From: "new", To: "cancelled", Name: "cancel"},
			{From: "paid", To: "in transit", Name: `hand over: "fragile"; #1`},
			{From: "paid", To: "new", Name: "refund"},
			{From: "in transit", To: "delivered"},
		},
	}
}

func order(t *testing.T) *machine.Machine {
	t.Helper()
	m, err := machine.New(orders())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTable(t *testing.T) {
	m := order(t)
	if !m.Allows("new", "paid") || m.Allows("paid", "cancelled") || m.Allows("", "") || !m.Final("delivered") || m.Final("new") ||
		m.Name() != "order" || len(m.States()) != 5 || fmt.Sprint(m.Next("new")) != "[paid cancelled]" {
		t.Errorf("the machine is not its table: %+v", m)
	}
	// A machine does not share memory with the table it was made of, nor with
	// what it returns.
	table := orders()
	m = machine.Must(table)
	table.Transitions[0].To = "delivered"
	table.Final[0] = "new"
	m.Next("new")[0] = "delivered"
	m.States()[0] = "x"
	if m.Allows("new", "delivered") || m.Final("new") || m.States()[0] != "new" || strings.Contains(m.DOT(), `"new" -> "delivered"`) {
		t.Error("the machine changes with somebody else's slices")
	}
}

// Everything that is wrong with a table is refused when it is declared.
func TestIllegalTables(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*machine.Table)
		want   string
	}{
		{"no name", func(m *machine.Table) { m.Name = "" }, "its name is empty"},
		{"no states", func(m *machine.Table) { *m = machine.Table{Name: "x"} }, "there is no initial state"},
		{"no initial state", func(m *machine.Table) { m.Initial = nil }, "there is no initial state"},
		{"unknown initial state", func(m *machine.Table) { m.Initial = []machine.State{"nwe"} }, `the initial state "nwe" is not among`},
		{"unknown final state", func(m *machine.Table) { m.Final[0] = "delivred" }, `the final state "delivred" is not among`},
		{"final twice", func(m *machine.Table) { m.Final = append(m.Final, "delivered") }, `"delivered" is named twice`},
		{"unknown from", func(m *machine.Table) { m.Transitions[0].From = "nwe" }, `uses "nwe", which is not among`},
		{"unknown to", func(m *machine.Table) { m.Transitions[0].To = "payed" }, `uses "payed", which is not among`},
		{"empty state", func(m *machine.Table) { m.States = append(m.States, "") }, `the state name "" is empty`},
		{"control character", func(m *machine.Table) { m.States = append(m.States, "a\nb") }, `not printable`},
		{"state twice", func(m *machine.Table) { m.States = append(m.States, "paid") }, `"paid" is declared twice`},
		{"transition twice", func(m *machine.Table) {
			m.Transitions = append(m.Transitions, machine.Transition{From: "new", To: "paid", Name: "again"})
		}, `"new" → "paid" is there twice`},
		{"to itself", func(m *machine.Table) {
			m.Transitions = append(m.Transitions, machine.Transition{From: "paid", To: "paid"})
		}, `leads to where it starts`},
		{"out of a final state", func(m *machine.Table) {
			m.Transitions = append(m.Transitions, machine.Transition{From: "cancelled", To: "new"})
		}, `leaves a final state`},
		{"unreachable", func(m *machine.Table) { m.States = append(m.States, "lost"); m.Final = append(m.Final, "lost") }, `"lost" cannot be reached`},
		{"an island", func(m *machine.Table) {
			m.States = append(m.States, "a", "b")
			m.Transitions = append(m.Transitions, machine.Transition{From: "a", To: "b"}, machine.Transition{From: "b", To: "a"})
		}, `"a" cannot be reached from an initial state; the state "b" cannot`},
		{"dead end", func(m *machine.Table) { m.Final = m.Final[1:] }, `nothing leaves the state "delivered"`},
		{"unprintable label", func(m *machine.Table) { m.Transitions[0].Name = "a\x00" }, `the name of the transition`},
	} {
		table := orders()
		c.change(&table)
		m, err := machine.New(table)
		var refused *machine.TableError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || m != nil {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Must does not panic")
		}
	}()
	machine.Must(machine.Table{})
}

func TestExports(t *testing.T) {
	table := orders()
	// A state whose name is a word of Mermaid.
	table.States = append(table.States, "end")
	table.Final = append(table.Final, "end")
	table.Transitions = append(table.Transitions, machine.Transition{From: "paid", To: "end"})
	m := machine.Must(table)
	for name, got := range map[string]string{"order.mmd": m.Mermaid(), "order.dot": m.DOT()} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || string(want) != got {
			t.Errorf("%s differs (-update rewrites it), %v:\n%s", path, err, got)
		}
	}
}

// kinds of things to try on each pair of states.
func pairs(m *machine.Machine) (out [][2]machine.State) {
	for _, from := range m.States() {
		for _, to := range m.States() {
			out = append(out, [2]machine.State{from, to})
		}
	}
	slices.SortFunc(out, func(a, b [2]machine.State) int { return strings.Compare(string(a[0]+a[1]), string(b[0]+b[1])) })
	return out
}
