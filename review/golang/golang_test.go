package golang

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/front"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// analyse runs the front end on packages of the test data module.
func analyse(t *testing.T, patterns ...string) *front.Result {
	t.Helper()
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Options{Env: []string{"GOFLAGS=-mod=vendor", "GOWORK=off"}}).Analyze(t.Context(), front.Request{Dir: dir, Patterns: patterns})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func dump(t *testing.T, p *effect.Program) string {
	t.Helper()
	text := effect.Format(p)
	if _, err := effect.Parse(text); err != nil {
		t.Errorf("the program's text can not be read back: %v\n%s", err, text)
	}
	return text
}

func TestDump(t *testing.T) {
	if os.Getenv("DUMP") == "" {
		t.Skip()
	}
	r := analyse(t, os.Getenv("DUMP"))
	t.Log(r.Problems)
	t.Log("\n" + dump(t, r.Program))
}
