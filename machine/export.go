package machine

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// plain are names that Mermaid takes as they are.
var plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// reserved are words of Mermaid's state diagrams.
var reserved = []string{"state", "note", "end", "direction", "class", "classdef", "style", "as", "fork", "join", "choice", "default", "accTitle", "accDescr"}

// Mermaid is the machine as a Mermaid state diagram, which GitHub and others
// draw inside Markdown.
func (m *Machine) Mermaid() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	ids := map[State]string{}
	for i, s := range m.table.States {
		id := string(s)
		if !plain.MatchString(id) || slices.ContainsFunc(reserved, func(w string) bool { return strings.EqualFold(w, id) }) {
			id = fmt.Sprintf("s%d_", i)
			fmt.Fprintf(&b, "    state \"%s\" as %s\n", mermaidText(string(s)), id)
		}
		ids[s] = id
	}
	for _, s := range m.table.Initial {
		fmt.Fprintf(&b, "    [*] --> %s\n", ids[s])
	}
	for _, t := range m.table.Transitions {
		label := ""
		if t.Name != "" {
			label = ": " + mermaidText(t.Name)
		}
		fmt.Fprintf(&b, "    %s --> %s%s\n", ids[t.From], ids[t.To], label)
	}
	for _, s := range m.table.Final {
		fmt.Fprintf(&b, "    %s --> [*]\n", ids[s])
	}
	return b.String()
}

// mermaidText writes what would end a label as Mermaid's character entities.
func mermaidText(s string) string {
	return strings.NewReplacer("#", "#35;", `"`, "#quot;", ";", "#59;", ":", "#58;", "<", "#lt;", ">", "#gt;").Replace(s)
}

// DOT is the machine as a Graphviz digraph.
func (m *Machine) DOT() string {
	quote := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	}
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n    rankdir=LR;\n    node [shape=box, style=rounded];\n", quote(m.table.Name))
	for i, s := range m.table.Initial {
		fmt.Fprintf(&b, "    \"start %d\" [shape=point];\n    \"start %d\" -> %s;\n", i, i, quote(string(s)))
	}
	for _, s := range m.table.States {
		style := ""
		if m.Final(s) {
			style = " [peripheries=2]"
		}
		fmt.Fprintf(&b, "    %s%s;\n", quote(string(s)), style)
	}
	for _, t := range m.table.Transitions {
		label := ""
		if t.Name != "" {
			label = " [label=" + quote(t.Name) + "]"
		}
		fmt.Fprintf(&b, "    %s -> %s%s;\n", quote(string(t.From)), quote(string(t.To)), label)
	}
	b.WriteString("}\n")
	return b.String()
}
