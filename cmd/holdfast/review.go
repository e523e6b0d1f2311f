package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/atomicfile"
	"github.com/holdfast-dev/holdfast/review"
	"github.com/holdfast-dev/holdfast/review/effectfront"
	"github.com/holdfast-dev/holdfast/review/front"
	"github.com/holdfast-dev/holdfast/review/golang"
	"github.com/holdfast-dev/holdfast/review/report"
	"github.com/holdfast-dev/holdfast/review/rules"
)

// reviewFlags are the flags of review.
type reviewFlags struct {
	dir, diff, patch        string
	baseline, writeBaseline string
	explain, color          string
	scenario                string
	formats                 []string
	notes, inventory, paths bool
	strict                  bool
	parallel                int
}

func newReview() *cobra.Command {
	var f reviewFlags
	c := &cobra.Command{
		Use:   "review [PACKAGES]",
		Short: "Find races and data-integrity defects in code, each with its schedule",
		Long: `Review analyses Go packages (./... by default) and reports the defects above the
memory level in which concurrent writers lose data: lost updates, check-then-act,
double effects, torn files, protections without effect and others (--explain
lists them). Each finding comes with the schedule that breaks the code; without
one there is no finding. Folders of examples are reviewed only when they are named.

Exit codes: 0 nothing was found that blocks, 1 there are blocking findings (with
--strict: any), 2 it could not run.`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fl := c.Flags()
	fl.StringVar(&f.dir, "dir", "", "analyse the module in `FOLDER` instead of the current one")
	fl.StringVar(&f.diff, "diff", "", "report what is new against the git `REVISION`")
	fl.StringVar(&f.patch, "patch", "", "review the patch in `FILE` (- for standard input) against HEAD")
	fl.StringSliceVar(&f.formats, "format", []string{"text"}, "`FORMS` of the report, each FORM or FORM=FILE: text, json, sarif, github, junit, inventory, inventory-json")
	fl.StringVar(&f.baseline, "baseline", "", "leave out the findings that `FILE` knows")
	fl.StringVar(&f.writeBaseline, "write-baseline", "", "write the findings to `FILE` as known ones")
	fl.StringVar(&f.explain, "explain", "", "print the documentation of `RULE` (all: of every rule) and end")
	fl.StringVar(&f.scenario, "scenario", "", "write a starting scenario for the first finding on an HTTP path to `FILE`")
	fl.BoolVar(&f.notes, "notes", false, "report notes and findings of low confidence, too")
	fl.BoolVar(&f.inventory, "inventory", false, "print the race inventory instead of the findings")
	fl.BoolVar(&f.paths, "paths", true, "list every write path with its finding or its guard")
	fl.BoolVar(&f.strict, "strict", false, "exit with 1 for findings of any severity")
	fl.IntVar(&f.parallel, "parallel", 0, "`N` workers (0: one per processor)")
	fl.StringVar(&f.color, "color", "auto", "colours in the text: auto, always or never")
	return c
}

func (f *reviewFlags) run(cmd *cobra.Command, patterns []string) error {
	set, err := rules.Load()
	if err != nil {
		return err
	}
	if f.explain != "" {
		return explain(cmd.OutOrStdout(), set, f.explain)
	}
	if f.inventory {
		f.formats = []string{"inventory"}
	}
	outputs, err := f.outputs()
	if err != nil {
		return err
	}
	o, err := f.options(cmd, patterns)
	if err != nil {
		return err
	}
	r, err := review.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	for _, out := range outputs {
		if err := f.write(cmd.OutOrStdout(), out, r, set); err != nil {
			return err
		}
	}
	if f.scenario != "" {
		if err := writeScenario(f.scenario, r); err != nil {
			return err
		}
	}
	if f.writeBaseline != "" {
		var b bytes.Buffer
		if err := review.WriteBaseline(&b, r); err != nil {
			return err
		}
		if err := atomicfile.Write(f.writeBaseline, b.Bytes(), atomicfile.Options{}); err != nil {
			return err
		}
		return nil // what is known from now on is no failure
	}
	if r.Blocking() || f.strict && len(r.Findings) > 0 {
		return errFindings
	}
	return nil
}

// frontEnds are the languages that review knows.
func frontEnds() []front.FrontEnd {
	return []front.FrontEnd{golang.New(golang.Options{}), effectfront.FrontEnd{}}
}

func (f *reviewFlags) options(cmd *cobra.Command, patterns []string) (review.Options, error) {
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return review.Options{}, err
	}
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	o := review.Options{Dir: dir, Patterns: patterns, FrontEnds: frontEnds(), Notes: f.notes, Parallel: f.parallel,
		Version: version(), Baseline: f.baseline, Diff: f.diff}
	switch f.patch {
	case "":
	case "-":
		o.Patch, err = io.ReadAll(cmd.InOrStdin())
	default:
		o.Patch, err = os.ReadFile(f.patch)
	}
	return o, err
}

// output is one form of the report and where it goes; no file is standard
// output.
type output struct{ form, file string }

func (f *reviewFlags) outputs() ([]output, error) {
	if f.color != "auto" && f.color != "always" && f.color != "never" {
		return nil, fmt.Errorf("--color %q: use auto, always or never", f.color)
	}
	var out []output
	standard := 0
	for _, s := range f.formats {
		form, file, _ := strings.Cut(s, "=")
		if !slices.Contains([]string{"text", "json", "sarif", "github", "junit", "inventory", "inventory-json"}, form) {
			return nil, fmt.Errorf("--format %q: use text, json, sarif, github, junit, inventory or inventory-json, each with =FILE if it should not go to standard output", form)
		}
		if file == "" {
			standard++
		}
		out = append(out, output{form, file})
	}
	if standard > 1 {
		return nil, fmt.Errorf("--format %s: only one form can go to standard output; give the others a file (sarif=FILE)", strings.Join(f.formats, ","))
	}
	return out, nil
}

func (f *reviewFlags) write(stdout io.Writer, o output, r *report.Report, set *rules.Set) error {
	var b bytes.Buffer
	w := io.Writer(&b)
	if o.file == "" {
		w = stdout
	}
	var err error
	switch o.form {
	case "text":
		text := report.TextOptions{Paths: f.paths, Color: f.color == "always" || f.color == "auto" && isTerminal(w), Width: width(w)}
		err = report.Text(w, r, text)
	case "json":
		err = report.JSON(w, r)
	case "sarif":
		err = report.SARIF(w, r, set.All())
	case "github":
		err = report.GitHub(w, r)
	case "junit":
		err = report.JUnit(w, r)
	case "inventory":
		err = report.Inventory(w, r)
	case "inventory-json":
		err = report.InventoryJSON(w, r)
	}
	if err != nil || o.file == "" {
		return err
	}
	return atomicfile.Write(o.file, b.Bytes(), atomicfile.Options{})
}

// writeScenario writes the scenario of the first finding that can be played.
func writeScenario(file string, r *report.Report) error {
	err := error(&report.NoScenarioError{Rule: "any finding", Why: "nothing was found"})
	for _, x := range r.Findings {
		var b bytes.Buffer
		if err = report.Scenario(&b, x, nil); err == nil {
			return atomicfile.Write(file, b.Bytes(), atomicfile.Options{})
		}
	}
	return err
}

func explain(w io.Writer, set *rules.Set, id string) error {
	if id == "all" {
		_, err := io.WriteString(w, set.Page())
		return err
	}
	r := set.Get(strings.ToUpper(id))
	if r == nil {
		var ids []string
		for _, x := range set.All() {
			ids = append(ids, x.ID)
		}
		return fmt.Errorf("--explain %q: no such rule; there are %s", id, strings.Join(ids, ", "))
	}
	_, err := io.WriteString(w, r.Explain())
	return err
}
