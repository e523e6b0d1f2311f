package witness_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/witness"
)

var update = flag.Bool("update", false, "rewrite the expected parts of testdata")

// TestCases plays each program of testdata and compares what is found. A file
// holds cases: "=== name", the program, "---", the witnesses. A case whose name
// begins with "right" must find nothing.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, c := range strings.Split(string(b), "=== ")[1:] {
			name, rest, _ := strings.Cut(c, "\n")
			program, want, _ := strings.Cut(rest, "---\n")
			got := ""
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+name, func(t *testing.T) {
				got = find(t, program, strings.Contains(name, "temporary") || strings.Contains(name, "removed"))
				if strings.HasPrefix(name, "right") && got != "" {
					t.Errorf("found:\n%s", got)
				}
				if !strings.HasPrefix(name, "right") && got == "" {
					t.Error("nothing found")
				}
				if !*update && got != strings.TrimSpace(want) {
					t.Errorf("got:\n%s\nwant:\n%s", got, want)
				}
			})
			fmt.Fprintf(&out, "=== %s\n%s---\n%s\n", name, program, got)
		}
		if *update {
			text := strings.ReplaceAll(out.String(), "\n\n=== ", "\n=== ")
			text = strings.ReplaceAll(text, "\n=== ", "\n\n=== ")
			if err := os.WriteFile(file, []byte(strings.TrimRight(text, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// find lists the witnesses of a program, each with its schedule.
func find(t *testing.T, program string, leftovers bool) string {
	t.Helper()
	p, err := effect.Parse(program)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range p.Entries {
		p.Entries[i].Body.Walk(func(s *effect.Step) bool {
			n++
			if s.Pos.IsZero() {
				s.Pos = effect.Pos{File: "x.go", Line: n}
			}
			return true
		})
	}
	pr := witness.New(p, witness.Options{})
	var all []*witness.Witness
	for i := range pr.Entries {
		all = append(all, pr.Alone(i)...)
		for j := i; j < len(pr.Entries); j++ {
			all = append(all, pr.Pair(i, j)...)
		}
		all = append(all, pr.External(i)...)
	}
	var b strings.Builder
	for _, w := range all {
		if w.Kind == witness.Leftover && !leftovers {
			continue // it would stand in every case with a temporary file
		}
		b.WriteString(show(w))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func show(w *witness.Witness) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", w.Kind)
	if w.On != nil {
		fmt.Fprintf(&b, " on %s:%s", w.On.Kind, w.On.Name)
	}
	if w.Derived {
		b.WriteString(", derived")
	}
	for _, v := range w.Voids {
		fmt.Fprintf(&b, ", %s", v.Kind)
	}
	b.WriteString("\n")
	for _, e := range w.Events {
		step := ""
		if e.Step != nil {
			step, _, _ = strings.Cut(effect.FormatStep(e.Step), " @")
			step = strings.TrimSuffix(step, " {") + ": "
		}
		fmt.Fprintf(&b, "  %s  %s%s%s\n", w.Actors[e.Actor].Name, strings.Repeat("          ", e.Actor), step, e.Result)
	}
	for _, e := range w.Expected {
		fmt.Fprintf(&b, "  good: %s\n", e)
	}
	fmt.Fprintf(&b, "  bad:  %s\n", w.Got)
	return b.String()
}

// TestSchedulesAreDeterministic: the same program gives the same witnesses.
func TestSchedulesAreDeterministic(t *testing.T) {
	b, err := os.ReadFile("testdata/rows.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\n")
	program, _, _ := strings.Cut(rest, "---\n")
	var got []string
	for range 5 {
		got = append(got, find(t, program, true))
	}
	if len(slices.Compact(got)) != 1 {
		t.Error("runs differ")
	}
}

// FuzzSearch: whatever a front end gives, the search ends without a panic.
func FuzzSearch(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range strings.Split(string(b), "=== ")[1:] {
			_, rest, _ := strings.Cut(c, "\n")
			program, _, _ := strings.Cut(rest, "---\n")
			f.Add(program)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := effect.Parse(text)
		if err != nil || len(p.Entries) > 4 {
			return
		}
		pr := witness.New(p, witness.Options{MaxRuns: 200})
		for i := range pr.Entries {
			pr.Alone(i)
			pr.External(i)
			pr.Entries[i].Body.Walk(func(s *effect.Step) bool {
				pr.GuardOf(i, s)
				return true
			})
		}
		for _, c := range pr.Candidates() {
			pr.Pair(c[0], c[1])
		}
	})
}
