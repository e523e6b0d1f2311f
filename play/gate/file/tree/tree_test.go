package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/play/oracle"
)

func sample() State {
	return State{
		"a.json":    {Mode: 0o644, Data: []byte(`{"n": 1}`)},
		"sub":       {Mode: fs.ModeDir | 0o750},
		"sub/b.txt": {Mode: 0o600, Data: []byte("text")},
		"sub/link":  {Mode: fs.ModeSymlink | 0o777, Data: []byte("b.txt")},
		"c.yaml":    {Mode: 0o640, Data: []byte("n: 2\n")},
	}
}

func TestRestore(t *testing.T) {
	dir := t.TempDir()
	if err := sample().Restore(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	state, err := Capture(dir, Options{})
	if err != nil || state.Digest() != sample().Digest() {
		t.Fatalf("restored %v: %v", state, err)
	}
	path := func(p string) string { return filepath.Join(dir, p) }
	before, err := os.Stat(path("a.json"))
	if err != nil {
		t.Fatal(err)
	}
	// Everything that can differ: content, mode, type, missing, more.
	for _, err := range []error{
		os.WriteFile(path("a.json"), []byte("longer than before"), 0o644),
		os.Chmod(path("c.yaml"), 0o777),
		os.RemoveAll(path("sub")),
		os.WriteFile(path("sub"), []byte("a file now"), 0o600),
		os.MkdirAll(path("more/and/more"), 0o755),
		os.WriteFile(path("ignored.log"), []byte("stays"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Ignore: []string{"*.log"}}
	if err := state.Restore(dir, o); err != nil {
		t.Fatal(err)
	}
	again, err := Capture(dir, o)
	if err != nil || again.Digest() != state.Digest() {
		t.Errorf("restored %v: %v", again, err)
	}
	after, err := os.Stat(path("a.json"))
	if err != nil || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("a.json is another file or has another time: %v", err)
	}
	if _, err := os.Stat(path("ignored.log")); err != nil {
		t.Error(err)
	}
}

func TestBound(t *testing.T) {
	dir := t.TempDir()
	if err := sample().Restore(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	_, err := Capture(dir, Options{MaxBytes: 10})
	if big, ok := errors.AsType[*TooBigError](err); !ok || big.Max != 10 {
		t.Errorf("error %v", err)
	}
}

func TestTables(t *testing.T) {
	s := sample()
	s["tmp83741"] = Node{Mode: 0o600, Data: []byte{0xff, 0}}
	tables := s.Tables(func(p string) string { return strings.Replace(p, "83741", "A1", 1) })
	byName := map[string]oracle.Table{}
	for _, table := range tables {
		byName[table.Name] = table
	}
	if got := len(byName[FilesTable].Rows); got != len(s) {
		t.Errorf("%d rows of files", got)
	}
	for name, want := range map[string]struct {
		typ     oracle.Type
		content string
	}{"a.json": {oracle.JSON, `{"n": 1}`}, "c.yaml": {oracle.JSON, `{"n":2}`}, "sub/b.txt": {oracle.Plain, "text"}} {
		table := byName[FileTable(name)]
		if len(table.Rows) != 1 || table.Columns[0].Type != want.typ || *table.Rows[0][0] != want.content {
			t.Errorf("%s: %+v", name, table)
		}
	}
	if table, ok := byName[FileTable("tmpA1")]; !ok || !strings.HasPrefix(*table.Rows[0][0], "2 bytes") {
		t.Errorf("the left-over file: %+v", table)
	}
}

func TestTorn(t *testing.T) {
	s := sample()
	if torn := s.Torn(); torn != nil {
		t.Errorf("torn %v", torn)
	}
	s["a.json"] = Node{Mode: 0o644, Data: []byte(`{"n": `)}
	s["c.yaml"] = Node{Mode: 0o644, Data: []byte("a: [1")}
	if torn := s.Torn(); strings.Join(torn, " ") != "a.json c.yaml" {
		t.Errorf("torn %v", torn)
	}
}
