package report

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/oracle"
)

func ninety() *string { s := "90"; return &s }

func saved() Saved {
	return Saved{
		Holdfast: "0.1.0", Scenario: "../wallet/withdraw.yaml", Name: "withdraw", Kind: oracle.LostUpdate,
		Sentence: "One withdrawal was lost.", Pass: "between statements",
		Schedule: explore.Schedule{0, 1}, Steps: []string{"UPDATE accounts SET balance = 90 WHERE id <> 2", "COMMIT"},
		Outcome: oracle.Outcome{
			Tables:    []oracle.Table{{Name: "accounts", Columns: []oracle.Column{{Name: "balance", Type: oracle.Plain}}, Rows: [][]*string{{ninety()}, {nil}}}},
			Responses: []*oracle.Response{{Status: 200, Header: map[string]string{"Location": "/1"}, Body: "{}"}, nil},
		},
	}
}

func TestSavedRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "withdraw-1.json")
	if err := WriteSaved(path, saved()); err != nil {
		t.Fatal(err)
	}
	got, err := ReadSaved(path)
	if err != nil {
		t.Fatal(err)
	}
	want := saved()
	want.Format = SavedFormat
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("read %+v, wrote %+v", *got, want)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("files beside the saved one: %v", entries)
	}
}

// A write that fails leaves what was there, and no temporary file.
func TestSavedKeepsOldOnFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "withdraw-1.json")
	if err := os.Mkdir(path, 0o755); err != nil { // rename can not replace a folder
		t.Fatal(err)
	}
	var bad *SavedError
	if err := WriteSaved(path, saved()); !errors.As(err, &bad) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v does not name the file", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 || !entries[0].IsDir() {
		t.Errorf("left in the folder: %v", entries)
	}
	if err := WriteSaved(filepath.Join(dir, "none", "x.json"), saved()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing folder: %v", err)
	}
	s := saved()
	s.Steps = s.Steps[:1]
	if err := WriteSaved(filepath.Join(dir, "x.json"), s); err == nil {
		t.Error("wrote a schedule that ReadSaved refuses")
	}
}

func TestReadSavedErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.json")
	if err := WriteSaved(path, saved()); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, with, want string }{
		{"misspelt field", `"schedule"`, `"shedule"`, `s.json:10: unknown field "shedule"; known here: format, holdfast,`},
		{"wrong case", `"steps"`, `"Steps"`, `s.json:14: unknown field "Steps"`},
		{"unknown field below", `"status": 200`, `"stat": 200`, `s.json:40: unknown field "outcome.responses[0].stat"; known here: status,`},
		{"field twice", `"name": "withdraw"`, `"holdfast": "0.2"`, `s.json:5: "holdfast" is there twice`},
		{"other type", `"COMMIT"`, `7`, `s.json:16: "steps" can not be a number`},
		{"no comma", `"COMMIT"`, `"COMMIT" 1`, `s.json:16: it is no JSON: invalid character '1'`},
		{"newer format", `"format": 1`, `"format": 2`, `s.json:2: its format is 2 and this program reads format 1`},
		{"no format", `"format": 1,`, ``, `s.json:1: it has no "format"`},
		{"no scenario", `"../wallet/withdraw.yaml"`, `""`, `s.json:4: "scenario" is missing`},
		{"unknown kind", `"lost update"`, `"lost"`, `s.json:6: unknown kind "lost": use one`},
		{"labels missing", ",\n    \"COMMIT\"", ``, `s.json:14: "steps" has 1 labels and "schedule" has 2 choices`},
		{"negative actor", "    1\n", "    -1\n", `s.json:10: choice 2 of "schedule" is -1`},
		{"half a file", "\"outcome\": {", "\"outcome\": \x00", `it is no JSON`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(string(good), c.old, c.with, 1)
			if text == string(good) {
				t.Fatalf("nothing replaced in\n%s", good)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := ReadSaved(path)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error: %v\nwant:  %s\n%s", err, c.want, text)
			}
			var bad *SavedError
			if !errors.As(err, &bad) || bad.File != path || bad.Line < 1 {
				t.Errorf("error %#v names no file and line", err)
			}
		})
	}
	if _, err := ReadSaved(path + ".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	for n := range good { // cut off anywhere: an error, never half a schedule
		if n >= len(good)-2 {
			break
		}
		if err := os.WriteFile(path, good[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSaved(path); err == nil {
			t.Fatalf("the first %d of %d bytes were read as a whole file", n, len(good))
		}
	}
}

func TestSavedScenarioPath(t *testing.T) {
	dir := t.TempDir()
	path, scenario := filepath.Join(dir, ".holdfast", "s.json"), filepath.Join(dir, "wallet", "w.yaml")
	rel, err := RelativeScenario(path, scenario)
	if err != nil || rel != "../wallet/w.yaml" {
		t.Fatalf("relative path %q, %v", rel, err)
	}
	s := Saved{Scenario: rel}
	if got := s.ScenarioFile(path); got != scenario {
		t.Errorf("resolved to %s, want %s", got, scenario)
	}
	s.Scenario = "/abs/w.yaml"
	if got := s.ScenarioFile(path); got != "/abs/w.yaml" {
		t.Errorf("absolute path became %s", got)
	}
}
