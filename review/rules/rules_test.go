package rules_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/rules"
	"github.com/holdfast-dev/holdfast/review/witness"
)

var update = flag.Bool("update", false, "rewrite docs/rules.md")

func load(t *testing.T) *rules.Set {
	t.Helper()
	s, err := rules.Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// classes lists the rules that a program breaks, notes and low confidence
// left out unless asked for.
func classes(t *testing.T, s *rules.Set, program string, all bool) []string {
	t.Helper()
	p, err := effect.Parse(program)
	if err != nil {
		t.Fatal(err)
	}
	if p.Schema.Tables == nil {
		p.Schema.Tables = map[string]*effect.Table{}
	}
	n := 0
	for i := range p.Entries {
		p.Entries[i].Body.Walk(func(st *effect.Step) bool {
			n++
			if st.Pos.IsZero() {
				st.Pos = effect.Pos{File: "x.go", Line: n}
			}
			// Every table is known, and has no index unless the program says so.
			if st.On != nil && st.On.Kind == effect.TableKind && p.Schema.Tables[st.On.Name] == nil {
				p.Schema.Tables[st.On.Name] = &effect.Table{Name: st.On.Name}
			}
			return true
		})
	}
	pr := witness.New(p, witness.Options{Notes: all})
	var found []string
	for i := range pr.Entries {
		ws := append(pr.Alone(i), pr.External(i)...)
		for j := i; j < len(pr.Entries); j++ {
			ws = append(ws, pr.Pair(i, j)...)
		}
		for _, w := range ws {
			f := s.Classify(w)
			if f == nil || !all && (f.Severity == rules.Note || f.Confidence == rules.Low) {
				continue
			}
			if f.Pos.IsZero() || f.Message == "" || f.Fix == "" || strings.ContainsAny(f.Fix, "{}") && f.Rule.ID != "HF201" {
				t.Errorf("%s is not filled in: %+v", f.Rule.ID, f)
			}
			if len(w.Events) == 0 {
				t.Errorf("%s has no schedule", f.Rule.ID)
			}
			found = append(found, f.Rule.ID)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// TestPairs plays the racy and the right program of each rule: the racy one
// gives the rule (and what the file says beside it), the right one nothing.
func TestPairs(t *testing.T) {
	s := load(t)
	for _, r := range s.All() {
		if r.ID == "HF180" {
			continue // about tests, not about schedules; see package review
		}
		t.Run(r.ID, func(t *testing.T) {
			b, err := os.ReadFile("testdata/" + r.ID + ".txt")
			if err != nil {
				t.Fatalf("a rule needs its racy and its right program: %v", err)
			}
			racy, right := 0, 0
			for _, c := range strings.Split(string(b), "=== ")[1:] {
				name, program, _ := strings.Cut(c, "\n")
				got := classes(t, s, program, r.Severity == rules.Note)
				switch {
				case strings.HasPrefix(name, "right"):
					right++
					if len(got) > 0 && (r.Severity != rules.Note || slices.Contains(got, r.ID)) {
						t.Errorf("%s: found %v", name, got)
					}
				case strings.HasPrefix(name, "racy"):
					racy++
					if !slices.Contains(got, r.ID) {
						t.Errorf("%s: found %v", name, got)
					}
				default:
					t.Errorf("case %q: say racy or right", name)
				}
			}
			if racy == 0 || right == 0 {
				t.Errorf("%d racy and %d right programs", racy, right)
			}
		})
	}
}

// TestShapes plays the shapes of defects that were met in real repositories,
// each with the rules that it must give (one of them, at least), and the way it
// was put right, which must give nothing.
func TestShapes(t *testing.T) {
	s := load(t)
	b, err := os.ReadFile("testdata/shapes.txt")
	if err != nil {
		t.Fatal(err)
	}
	racy, right := 0, 0
	for _, c := range strings.Split(string(b), "=== ")[1:] {
		name, program, _ := strings.Cut(c, "\n")
		t.Run(name, func(t *testing.T) {
			got := classes(t, s, program, false)
			if strings.HasPrefix(name, "right ") {
				right++
				if len(got) > 0 {
					t.Errorf("found %v", got)
				}
				return
			}
			racy++
			for _, id := range strings.Fields(name) {
				if s.Get(id) != nil && slices.Contains(got, id) {
					return
				}
			}
			t.Errorf("found %v", got)
		})
	}
	if racy < 35 || right < 15 {
		t.Errorf("%d racy and %d right shapes", racy, right)
	}
}

// TestUnknownSchema: a check before an insert into a table that no schema file
// shows is no finding of the default tier, because a unique index may be there.
func TestUnknownSchema(t *testing.T) {
	p, err := effect.Parse(`entry shorten http {
  l := check table:links[target = in.target]
  if l.found {
    return
  }
  write insert table:links set(target = in.target, code = fresh())
}
`)
	if err != nil {
		t.Fatal(err)
	}
	ws := witness.New(p, witness.Options{}).Pair(0, 0)
	if len(ws) != 1 {
		t.Fatal(len(ws), "witnesses")
	}
	if f := load(t).Classify(ws[0]); f.Confidence != rules.Low {
		t.Errorf("confidence %s", f.Confidence)
	}
}

// TestPage: docs/rules.md is what the data says.
func TestPage(t *testing.T) {
	const file = "../../docs/rules.md"
	want := load(t).Page()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/rules.md is not what review/rules/docs says: go test ./review/rules -update")
	}
}

// TestFingerprint: it stays when lines move and differs between rules.
func TestFingerprint(t *testing.T) {
	s := load(t)
	print := func(line int) string {
		p, err := effect.Parse(fmt.Sprintf(`entry w http @a.go:%d {
  a := read table:t[id = in.id] cols(n) @a.go:%d
  write update table:t[id = in.id] set(n = a.n + in.x) @a.go:%d
}
`, line, line+1, line+2))
		if err != nil {
			t.Fatal(err)
		}
		ws := witness.New(p, witness.Options{}).Pair(0, 0)
		if len(ws) != 1 {
			t.Fatal(len(ws), "witnesses")
		}
		f := s.Classify(ws[0])
		if f.Pos.Line != line+2 {
			t.Errorf("at %v", f.Pos)
		}
		return f.Fingerprint()
	}
	if print(10) != print(200) {
		t.Error("moved lines change the fingerprint")
	}
}
