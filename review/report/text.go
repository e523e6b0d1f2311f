package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/rules"
)

// TextOptions of the text form.
type TextOptions struct {
	Width int  // columns; 0 is 100
	Color bool // ANSI colours for severities and the verdict
	Paths bool // list every write path, also those with a guard
}

// Text writes the report for people.
func Text(w io.Writer, r *Report, o TextOptions) error {
	if o.Width == 0 {
		o.Width = 100
	}
	t := &texter{o: o}
	for _, f := range r.Findings {
		t.finding(f, r.Removed[f.Fingerprint()])
	}
	t.paths(r)
	for _, p := range r.Problems {
		t.printf("not analysed: %s: %s\n", p.Pos, p.Text)
	}
	for _, b := range r.Bad {
		t.printf("%s: suppression comment: %s\n", b.Pos, b.Why)
	}
	t.summary(r)
	_, err := io.WriteString(w, t.b.String())
	return err
}

type texter struct {
	b strings.Builder
	o TextOptions
}

func (t *texter) printf(format string, args ...any) { fmt.Fprintf(&t.b, format, args...) }

func (t *texter) color(code, s string) string {
	if !t.o.Color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (t *texter) finding(f *rules.Finding, removed string) {
	code := map[rules.Severity]string{rules.Blocking: "1;31", rules.ShouldFix: "1;33", rules.Note: "1;34"}[f.Severity]
	t.printf("%s  %s  %s  %s\n", f.Pos, t.color(code, string(f.Severity)), f.Rule.ID, f.Rule.Title)
	t.para("  ", short(people(f.Message), maxOutcome))
	if f.Leads != "" {
		t.printf("  lets through: %s\n", f.Leads)
	}
	if removed != "" {
		t.para("  ", "This change removed the protection: "+removed)
	}
	if w := f.Witness; w != nil {
		if w.Crossed {
			t.para("  ", "B has the keys of A the other way round.")
		}
		t.printf("\n%s\n", table(w, t.o.Width))
		for _, e := range w.Expected {
			t.para("  right: ", short(people(e), maxOutcome))
		}
		t.para("  wrong: ", short(people(w.Got), maxOutcome))
	}
	t.para("  fix:   ", f.Fix)
	refs := append([]string{f.Rule.CWE}, f.Rule.ASVS...)
	t.printf("  confidence %s; %s; holdfast review --explain %s\n\n", f.Confidence, strings.Join(refs, ", "), f.Rule.ID)
}

// para writes a paragraph, later lines under the text of the first.
func (t *texter) para(lead, text string) {
	for i, l := range wrap(text, t.o.Width-len(lead)) {
		if i > 0 {
			lead = strings.Repeat(" ", len(lead))
		}
		t.printf("%s%s\n", lead, l)
	}
}

// paths lists the write paths: each has a finding or the line that guards it.
func (t *texter) paths(r *Report) {
	if !t.o.Paths || len(r.Paths) == 0 {
		return
	}
	t.printf("write paths\n")
	for _, p := range r.Paths {
		state := p.Finding
		if state == "" {
			state = "ok - " + p.Guard
			if p.GuardPos != (effect.Pos{}) && p.GuardPos != p.Pos {
				state += " (" + p.GuardPos.String() + ")"
			}
		}
		t.para(fmt.Sprintf("  %s  ", p.Pos), fmt.Sprintf("%s: %s %s: %s", p.Entry, p.What, p.Resource, state))
	}
	t.printf("\n")
}

func (t *texter) summary(r *Report) {
	count := map[rules.Severity]int{}
	for _, f := range r.Findings {
		count[f.Severity]++
	}
	guarded := 0
	for _, p := range r.Paths {
		if p.Finding == "" {
			guarded++
		}
	}
	t.printf("%s, %s: %s; %s", plural(r.Entries, "entry point", "entry points"), plural(len(r.Paths), "write path", "write paths"),
		plural(guarded, "guarded", "guarded"), plural(len(r.Paths)-guarded, "with a finding", "with a finding"))
	t.printf("\nfindings: %d blocking, %d should fix, %d %s", count[rules.Blocking], count[rules.ShouldFix], count[rules.Note], "notes")
	if r.Notes > 0 {
		t.printf(" (%d more with --notes)", r.Notes)
	}
	if r.Baselined > 0 {
		t.printf(", %d in the baseline", r.Baselined)
	}
	if r.Ignored > 0 {
		t.printf(", %d suppressed", r.Ignored)
	}
	if r.Diff != "" {
		t.printf("; compared with %s", r.Diff)
	}
	code := "1;32"
	if r.Blocking() {
		code = "1;31"
	}
	t.printf("\n%s\n", t.color(code, r.Verdict()))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
