package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Inventory writes the race inventory as Markdown: each shared resource in
// scope, who reads and writes it, and what guards it.
func Inventory(w io.Writer, r *Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Race inventory of %s\n\n", r.Module)
	b.WriteString("| resource | writers | readers | race class | mechanism | the second one | tests that reach a writer |\n|---|---|---|---|---|---|---|\n")
	for _, x := range r.Resources {
		class := strings.Join(x.Class, ", ")
		if class == "" {
			class = "none found"
		}
		tests := strings.Join(x.Tests, ", ")
		if tests == "" {
			tests = "none found"
		}
		fmt.Fprintf(&b, "| %s %s | %s | %s | %s | %s | %s | %s |\n", x.Kind, cell(x.Name), accesses(x.Writers), accesses(x.Readers), class,
			cell(strings.Join(x.Guards, "; ")), cell(strings.Join(x.Conflict, "; ")), cell(tests))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func accesses(as []Access) string {
	out := make([]string, len(as))
	for i, a := range as {
		out[i] = fmt.Sprintf("%s (%s)", cell(a.Entry), a.Pos)
	}
	return strings.Join(out, "<br>")
}

func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(s)
}

// InventoryJSON writes the race inventory as JSON.
func InventoryJSON(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		Module    string     `json:"module,omitempty"`
		Resources []Resource `json:"resources"`
	}{r.Module, r.Resources})
}
