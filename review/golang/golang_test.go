package golang

import (
	"context"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/front"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// analyse runs the front end on a module. The test data has stubs of the
// libraries in its vendor folder, so nothing is downloaded.
func analyse(t *testing.T, dir string, patterns ...string) *front.Result {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Options{Env: []string{"GOFLAGS=", "GOWORK=off", "GOPROXY=off"}}).Analyze(t.Context(), front.Request{Dir: dir, Patterns: patterns})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestShapes compares the effects of each pair of programs in testdata with the
// reviewed text. Every shape has a racy and a right program.
func TestShapes(t *testing.T) {
	r := analyse(t, "testdata")
	for _, p := range r.Problems {
		t.Errorf("%s: %s", p.Pos, p.Text)
	}
	all := effect.Format(r.Program)
	if back, err := effect.Parse(all); err != nil || effect.Format(back) != all {
		t.Errorf("the text form does not come back as it was: %v", err)
	}
	shapes := map[string]*effect.Program{}
	shape := func(pos effect.Pos) *effect.Program {
		name, _, _ := strings.Cut(pos.File, "/")
		if shapes[name] == nil {
			shapes[name] = &effect.Program{Schema: effect.Schema{Tables: map[string]*effect.Table{}}, Funcs: map[string]*effect.Func{}}
		}
		return shapes[name]
	}
	for _, e := range r.Program.Entries {
		p := shape(e.Pos)
		p.Entries = append(p.Entries, e)
	}
	for id, f := range r.Program.Funcs {
		shape(f.Pos).Funcs[id] = f
	}
	for n, tb := range r.Program.Schema.Tables {
		shape(tb.Pos).Schema.Tables[n] = tb
	}
	shape(r.Program.Deploy.Pos).Deploy = r.Program.Deploy
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		golden(t, filepath.Join("testdata", "golden", name+".effect"), effect.Format(shapes[name]))
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%v (write it with go test ./review/golang -update, and read it)", err)
		return
	}
	if got != string(want) {
		t.Errorf("%s is not what the program gives now:\n%s", file, got)
	}
}

// module writes a module into a folder of its own.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.com/m\n\ngo 1.26\n"
	for n, text := range files {
		p := filepath.Join(dir, n)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestBrokenPackageIsReportedAndTheRestAnalysed(t *testing.T) {
	dir := module(t, map[string]string{
		"good/good.go":     "package good\n\nimport \"os\"\n\nfunc Save(b []byte) error { return os.WriteFile(\"state.json\", b, 0o644) }\n",
		"broken/broken.go": "package broken\n\nfunc F() int { return undefined }\n",
		"syntax/syntax.go": "package syntax\n\nfunc F( {\n",
	})
	r := analyse(t, dir)
	files := map[string]bool{}
	for _, p := range r.Problems {
		files[p.Pos.File] = true
		if p.Pos.Line == 0 || p.Text == "" {
			t.Errorf("a problem without a place or a text: %+v", p)
		}
	}
	if !files["broken/broken.go"] || !files["syntax/syntax.go"] || files["good/good.go"] {
		t.Errorf("problems: %+v", r.Problems)
	}
	if len(r.Program.Entries) != 1 || r.Program.Entries[0].ID != "example.com/m/good.Save" {
		t.Errorf("entries: %s", effect.Format(r.Program))
	}
}

func TestNothingToLoadIsAnError(t *testing.T) {
	dir := module(t, map[string]string{})
	_, err := New(Options{}).Analyze(t.Context(), front.Request{Dir: filepath.Join(dir, "no-such-folder")})
	if err == nil {
		t.Error("a folder that does not exist was analysed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir = module(t, map[string]string{"a.go": "package m\n"})
	if _, err := New(Options{}).Analyze(ctx, front.Request{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
}

func TestIgnores(t *testing.T) {
	dir := module(t, map[string]string{"a.go": "package m\n\n//holdfast:ignore lostupdate one writer by contract\nvar A int\n\nvar B int //holdfast:ignore lostupdate\n\n//holdfast:ignore\nvar C int\n\n// holdfast:ignore is not a directive\nvar D int\n"})
	got := analyse(t, dir).Ignores
	want := []front.Ignore{
		{Pos: effect.Pos{File: "a.go", Line: 3, Col: 1}, Rule: "lostupdate", Reason: "one writer by contract"},
		{Pos: effect.Pos{File: "a.go", Line: 6, Col: 11}, Rule: "lostupdate"},
		{Pos: effect.Pos{File: "a.go", Line: 8, Col: 1}},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
}

// TestRecursionEnds holds that circles of calls, and functions that call
// themselves through literals and interfaces, are cut.
func TestRecursionEnds(t *testing.T) {
	dir := module(t, map[string]string{"a.go": `package m

import "os"

type walker interface{ walk(n int) error }

type w struct{ next walker }

func (x *w) walk(n int) error {
	if n == 0 {
		return os.Remove("a")
	}
	return x.next.walk(n - 1)
}

func A(n int) error {
	f := func(n int) error { return nil }
	f = func(n int) error { return f(n - 1) }
	if err := f(n); err != nil {
		return err
	}
	return B(n)
}

func B(n int) error {
	if n > 3 {
		return A(n)
	}
	return (&w{}).walk(n)
}
`})
	r := analyse(t, dir)
	n := 0
	for _, e := range effect.Link(r.Program, effect.LinkOptions{}) {
		e.Body.Walk(func(s *effect.Step) bool {
			if s.Op == effect.Write && s.Mode == effect.Delete {
				n++
			}
			return true
		})
	}
	if n == 0 {
		t.Errorf("the removal was not reached:\n%s", effect.Format(r.Program))
	}
}

func TestTestsThatReachAnEntry(t *testing.T) {
	dir := module(t, map[string]string{
		"a.go": "package m\n\nimport (\n\t\"net/http\"\n\t\"os\"\n)\n\nfunc save(w http.ResponseWriter, r *http.Request) { os.Remove(\"a\") }\n\nfunc Routes() { http.HandleFunc(\"POST /items/{id}\", save) }\n",
		"a_test.go": `package m

import "testing"

// TestSaveConcurrent claims something that it does not do.
func TestSaveConcurrent(t *testing.T) { save(nil, nil) }

func TestByRoute(t *testing.T) {
	for range 2 {
		go post("/items/7")
	}
}

func post(string) {}

func TestOther(t *testing.T) {}
`,
	})
	r := analyse(t, dir)
	if len(r.Program.Entries) != 1 {
		t.Fatal(effect.Format(r.Program))
	}
	got := map[string]effect.TestRef{}
	for _, ref := range r.Program.Entries[0].Tests {
		got[ref.Name] = ref
	}
	if len(got) != 2 || !got["TestSaveConcurrent"].Claims || got["TestSaveConcurrent"].Parallel || !got["TestByRoute"].Parallel || got["TestByRoute"].Claims {
		t.Errorf("%+v", got)
	}
}

func TestSchemaInTheProgram(t *testing.T) {
	dir := module(t, map[string]string{
		"schema.sql": "CREATE TABLE a (id int PRIMARY KEY, b text);\n",
		"m.go": "package m\n\nvar up = []string{`CREATE UNIQUE INDEX a_b ON a (b)`, `\n-- more\nCREATE TABLE c (k text UNIQUE)`}\n\n" +
			"func down() string { return `ALTER TABLE c DROP CONSTRAINT c_k_key` }\n\n" +
			"type User struct {\n\tID    uint\n\tEmail string `gorm:\"uniqueIndex\"`\n\tOrg   string `gorm:\"uniqueIndex:org_name\"`\n\tName  string `gorm:\"column:nick;uniqueIndex:org_name\"`\n}\n\n" +
			"type Card struct {\n\tNo string `xorm:\"varchar(20) pk 'no'\"`\n\tSlug string `xorm:\"unique(s)\"`\n}\n\nfunc (Card) TableName() string { return \"cards_v2\" }\n",
	})
	r := analyse(t, dir)
	got := effect.Format(&effect.Program{Schema: r.Program.Schema})
	want := `table a (id, b) primary(id) unique a_b (b) @schema.sql:1
table c (k) unique(k) @m.go:5
table cards_v2 primary(no) unique s (slug) @m.go:16:6
table users primary(id) unique(email) unique org_name (org, nick) @m.go:11:2
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}

// TestCirclesAreFollowedOnce: eight functions that all call each other have
// thousands of ways through them; the program must not hold them all.
func TestCirclesAreFollowedOnce(t *testing.T) {
	var src strings.Builder
	src.WriteString("package m\n\nimport \"os\"\n")
	names := []string{"A", "B", "C", "D", "E", "F", "G", "H"}
	for _, n := range names {
		src.WriteString("\nfunc " + n + "(n int) error {\n\tswitch n {\n")
		for _, to := range names {
			src.WriteString("\tcase len(\"" + to + "\") + n:\n\t\treturn " + to + "(n - 1)\n")
		}
		src.WriteString("\t}\n\tx := n\n\tx++\n\t_ = x\n\treturn os.Remove(\"" + n + "\")\n}\n")
	}
	r := analyse(t, module(t, map[string]string{"a.go": src.String()}))
	steps := 0
	for _, e := range r.Program.Entries {
		e.Body.Walk(func(*effect.Step) bool { steps++; return true })
	}
	for _, f := range r.Program.Funcs {
		f.Body.Walk(func(*effect.Step) bool { steps++; return true })
	}
	if steps == 0 || steps > 500 {
		t.Errorf("%d steps", steps)
	}
}
