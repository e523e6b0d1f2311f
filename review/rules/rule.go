package rules

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed docs/*.md
var docs embed.FS

// Severity of a finding.
type Severity string

// Severities. Notes are off by default.
const (
	Blocking  Severity = "blocking"
	ShouldFix Severity = "should fix"
	Note      Severity = "note"
)

// Rule is one class of defects.
type Rule struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Severity Severity `json:"severity"` // the highest it reaches
	CWE      string   `json:"cwe"`
	ASVS     []string `json:"asvs,omitempty"`
	Fix      string   `json:"-"` // advice with {name}, {col}, {key}, {void} to fill in
	Text     string   `json:"-"` // paragraphs
}

// Set is the rules by ID.
type Set struct {
	byID map[string]*Rule
	ids  []string
}

// Load reads the rules that are built in.
func Load() (*Set, error) {
	files, err := fs.Glob(docs, "docs/*.md")
	if err != nil {
		return nil, err
	}
	s := &Set{byID: map[string]*Rule{}}
	for _, f := range files {
		b, err := docs.ReadFile(f)
		if err != nil {
			return nil, err
		}
		id := strings.TrimSuffix(strings.TrimPrefix(f, "docs/"), ".md")
		r, err := parse(id, string(b))
		if err != nil {
			return nil, fmt.Errorf("rule documentation %s: %w", f, err)
		}
		s.byID[id] = r
		s.ids = append(s.ids, id)
	}
	slices.Sort(s.ids)
	return s, nil
}

func parse(id, text string) (*Rule, error) {
	head, body, ok := strings.Cut(text, "\n\n")
	if !ok {
		return nil, fmt.Errorf("no empty line after the head")
	}
	r := &Rule{ID: id, Text: strings.TrimSpace(body)}
	for line := range strings.SplitSeq(head, "\n") {
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			return nil, fmt.Errorf("line %q: want NAME: VALUE", line)
		}
		switch name {
		case "title":
			r.Title = value
		case "severity":
			r.Severity = Severity(value)
		case "cwe":
			r.CWE = value
		case "asvs":
			if value != "-" {
				r.ASVS = strings.Fields(value)
			}
		case "fix":
			r.Fix = value
		default:
			return nil, fmt.Errorf("unknown field %q", name)
		}
	}
	if r.Title == "" || r.Severity == "" || r.CWE == "" || r.Fix == "" {
		return nil, fmt.Errorf("title, severity, cwe and fix are required")
	}
	return r, nil
}

// Get gives a rule, or nil.
func (s *Set) Get(id string) *Rule { return s.byID[id] }

// All lists the rules by ID.
func (s *Set) All() []*Rule {
	out := make([]*Rule, len(s.ids))
	for i, id := range s.ids {
		out[i] = s.byID[id]
	}
	return out
}

// Explain is the documentation of one rule as Markdown.
func (r *Rule) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s: %s\n\n", r.ID, r.Title)
	fmt.Fprintf(&b, "Severity: %s. %s", r.Severity, r.CWE)
	if len(r.ASVS) > 0 {
		fmt.Fprintf(&b, ", OWASP ASVS 5 %s", strings.Join(r.ASVS, ", "))
	}
	fmt.Fprintf(&b, ".\n\n%s\n", r.Text)
	return b.String()
}

// Page is docs/rules.md.
func (s *Set) Page() string {
	var b strings.Builder
	b.WriteString("# Rules of holdfast review\n\n")
	b.WriteString("Generated from review/rules/docs by `go test ./review/rules -update`. Each finding of\n" +
		"these rules comes with the schedule that breaks the code; `holdfast review --explain ID`\n" +
		"prints one entry. Severities are the highest a rule reaches: a schedule that is possible\n" +
		"but unusual is one step lower. Notes are shown with `--notes`.\n\n")
	b.WriteString("| rule | title | severity | references |\n|---|---|---|---|\n")
	for _, r := range s.All() {
		refs := strings.Join(append([]string{r.CWE}, r.ASVS...), ", ")
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s |\n", r.ID, anchor(r), r.Title, r.Severity, refs)
	}
	for _, r := range s.All() {
		b.WriteString("\n" + r.Explain())
	}
	return b.String()
}

// anchor is the heading's anchor as Markdown renderers make it.
func anchor(r *Rule) string {
	var b strings.Builder
	for _, c := range strings.ToLower(r.ID + ": " + r.Title) {
		switch {
		case c == ' ' || c == '-':
			b.WriteByte('-')
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			b.WriteRune(c)
		}
	}
	return b.String()
}
