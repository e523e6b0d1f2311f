package scenario

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/play/app"
)

var update = flag.Bool("update", false, "rewrite the expected errors in testdata")

// TestErrors reads each file of testdata/errors and compares all that is said
// about it with the text in the .want file beside it.
func TestErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no test data", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(name, data)
			checkErrors(t, name, data, err)
			got := err.Error() + "\n"
			want := strings.TrimSuffix(file, ".yaml") + ".want"
			if *update {
				if err := os.WriteFile(want, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			b, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(b) {
				t.Errorf("got\n%swant\n%s", got, b)
			}
		})
	}
}

// checkErrors asserts what holds for every error of Parse.
func checkErrors(t *testing.T, name string, data []byte, err error) {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("not a join of errors: %v", err)
	}
	last, lines := 1, len(lineBreak.Split(string(data), -1))
	for _, err := range joined.Unwrap() {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			t.Fatalf("%T: %v", err, err)
		}
		if e.File != name || e.Column < 1 || e.Msg == "" || e.Line < last || e.Line > lines {
			t.Errorf("after line %d: %+v", last, *e)
		}
		last = e.Line
	}
}

func TestParse(t *testing.T) {
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse("testdata/full.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	source := func(s string) app.Source {
		src, err := app.ParseSource(s)
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
	body := "plain ${token}"
	one := 1
	want := &Scenario{
		File: "testdata/full.yaml", Dir: "testdata",
		Name: "full", Description: "Every key once.\n",
		Application: Application{
			Build:     Words{"go", "build", "-o", "${work}/my server", "."},
			Command:   Words{"${work}/my server", "--port", "${port}"},
			Dir:       "..",
			Env:       map[string]string{"DATABASE_URL": "${postgres.url}", "LEVEL": "3", "DEBUG": "true"},
			Instances: 2,
			Ready:     Ready{Request: Line{"GET", "/healthz"}, Status: 204, Timeout: 1500 * time.Millisecond},
			Restart:   RestartAlways,
		},
		Postgres: &Postgres{
			Server: "postgres://u:p@127.0.0.1:5432/", Database: "shop",
			Schema: SQLs{{File: "schema.sql"}, {Text: "CREATE TABLE t (id int)"}},
			Seed:   SQLs{{Text: "INSERT INTO t VALUES (1); -- $$ stays\n"}},
			TLS:    true,
		},
		Setup: []Setup{{
			HTTP:    HTTP{Request: Line{"POST", "/accounts"}, JSON: `{"name":"alice","big":12345678901234567890123,"price":10.00,"hex":31,"day":"2026-01-02","tags":[null,true,"x"]}`},
			Expect:  201,
			Capture: Captures{"account": source("$.id"), "token": source("header.Authorization"), "sid": source("cookie.sid")},
		}},
		Requests: []Request{
			{Name: "alice withdraws", HTTP: HTTP{
				Request: Line{"POST", "/accounts/${account}/withdraw?by=${token}"},
				Headers: map[string]string{"Authorization": "${token}"}, Cookies: map[string]string{"sid": "${sid}"},
				JSON: `{"to":"${account}","note":"for ${account}"}`,
			}, Instance: &one, Times: 2},
			{HTTP: HTTP{Request: Line{"PUT", "/note"}, Body: &body}, Times: 1},
			{HTTP: HTTP{Request: Line{"POST", "/form"}, Form: map[string]string{"a": "1 & 2", "b": "${account}"}}, Times: 1},
		},
		Observe: Observe{Tables: []string{"accounts"}, Ignore: []string{"accounts.updated_at", "audit"}, Headers: []string{}},
		Noise:   Noise{Columns: []string{"accounts.note"}, JSON: []string{"$.request_id"}, IDs: []string{"a.id"}, Times: []string{"public.a.at"}},
		Invariants: []Invariant{
			{Name: "no negative balance", SQL: "SELECT bool_and(balance >= 0) FROM accounts"},
			{Name: "check", Request: Line{"GET", "/check"}, Expect: 200},
		},
		Budgets: Budgets{Schedules: 5, Time: time.Minute, Step: 2 * time.Second, Run: 10 * time.Second},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", dump(t, got), dump(t, want))
	}
	var actors []string
	for _, a := range got.Actors() {
		actors = append(actors, a.Name+" to "+string(rune('0'+a.Instance)))
	}
	if s := strings.Join(actors, ", "); s != "alice withdraws (1) to 1, alice withdraws (2) to 1, C to 0, D to 1" {
		t.Errorf("actors: %s", s)
	}
}

func dump(t *testing.T, v any) string {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestDefaults(t *testing.T) {
	s, err := Parse("a/b.yaml", []byte("application: {command: 'x ${port}', ready: GET /up}\nrequests: [{request: GET /, times: 2}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Scenario{
		File: "a/b.yaml", Dir: "a", Name: "b",
		Application: Application{Command: Words{"x", "${port}"}, Dir: ".", Instances: 1, Restart: RestartOnDoubt,
			Ready: Ready{Request: Line{"GET", "/up"}, Status: 200, Timeout: 30 * time.Second}},
		Requests: []Request{{HTTP: HTTP{Request: Line{"GET", "/"}}, Times: 2}},
		Observe:  Observe{Responses: true, Headers: []string{"Location", "ETag"}},
		Budgets:  Budgets{Schedules: 10_000, Time: time.Minute, Step: 2 * time.Second, Run: 10 * time.Second},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %s", dump(t, s))
	}
	if a := s.Actors(); a[0].Name != "A" || a[1].Name != "B" {
		t.Errorf("actors %+v", a)
	}
}

func TestAccepts(t *testing.T) {
	if s := (Setup{Expect: 409}); s.Accepts(200) || !s.Accepts(409) {
		t.Error("an expected status")
	}
	if s := (Setup{}); !s.Accepts(302) || s.Accepts(400) {
		t.Error("no expected status")
	}
}

// TestLoad has what Parse alone can not know: files and the environment.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "s.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const text = `application:
  command: ./server ${port} ${postgres.url}
  env: {TOKEN: "${env.HOLDFAST_TEST_TOKEN}"}
postgres:
  schema: [schema.sql, "${work}/made.sql"]
  seed: SELECT 1
requests:
  - {request: POST /a, times: 2, json: ["${env.HOLDFAST_TEST_UNSET}"]}
  - {request: POST /b, name: "${env.HOLDFAST_TEST_UNSET} is no placeholder here", wrong: 1}
`
	write(text)
	t.Setenv("HOLDFAST_TEST_TOKEN", "t")
	_, err := Load(file)
	want := regexp.MustCompile(`^\S+s\.yaml:5:12: postgres\.schema\[0\]: "schema\.sql" is taken as the name of a file .*no such file or directory
\S+s\.yaml:8:\d+: requests\[0\]\.json: the environment variable HOLDFAST_TEST_UNSET is not set: .*
\S+s\.yaml:9:\d+: requests\[1\]\.wrong: unknown key "wrong"; .*$`)
	if err == nil || !want.MatchString(err.Error()) {
		t.Errorf("got %v", err)
	}

	if err := os.WriteFile(filepath.Join(dir, "schema.sql"), []byte("CREATE"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "made.sql"), []byte("MADE"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOLDFAST_TEST_UNSET", "set")
	write(strings.Replace(text, ", wrong: 1", "", 1))
	s, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.BaseVars(dir)
	if err != nil {
		t.Fatal(err)
	}
	sql, err := s.ReadSQL(append(s.Postgres.Schema, s.Postgres.Seed...), v)
	if err != nil || !reflect.DeepEqual(sql, []string{"CREATE", "MADE", "SELECT 1"}) {
		t.Errorf("SQL %q, %v", sql, err)
	}
	if _, err := Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"times", "times", 0}, {"tmes", "times", 1}, {"tiems", "times", 1}, {"", "env", 3}, {"prot", "port", 1}, {"ütf", "utf", 1}, {"ca", "abc", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%s to %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// FuzzParse holds the two promises that a caller builds on: every mistake is an
// *Error with a place in the file, and what is accepted is also valid by the
// schema and can be listed.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "testdata/errors/*.yaml", "template.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	schema := compiled(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("f.yaml", data)
		if err != nil {
			checkErrors(t, "f.yaml", data, err)
			return
		}
		if n := len(s.Actors()); n < minActors || n > maxActors {
			t.Errorf("%d actors", n)
		}
		if err := schema.Validate(document(t, data)); err != nil {
			t.Errorf("accepted, but not by the schema: %v", err)
		}
	})
}
