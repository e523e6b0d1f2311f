package effect_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// TestTextIsInverse: what is printed is what was read, for each sample.
func TestTextIsInverse(t *testing.T) {
	files, err := filepath.Glob("testdata/*.effect")
	if err != nil || len(files) == 0 {
		t.Fatal("no samples", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		p, err := effect.Parse(string(b))
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		if got := effect.Format(p); got != string(b) {
			t.Errorf("%s: printed differently:\n%s", f, got)
		}
		j, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var back effect.Program
		if err := json.Unmarshal(j, &back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(p, &back) {
			t.Errorf("%s: JSON gives another program:\n%s", f, effect.Format(&back))
		}
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"entry a http {\n  jump\n}\n":                  `line 2: "jump" is no operation`,
		"entry a http {\n  read table:\n}\n":           `line 2: want a name`,
		"entry a http {\n  if {\n  }\n}":               "line 2: want a value",
		"entry a http {\n  read table:t colour=red\n}": `line 2: "colour" says nothing in read`,
		"nonsense": `line 1: "nonsense" begins no declaration`,
		"entry a http {\n  write put file:f @x\n}":         "want FILE:LINE",
		"entry a http {\n  write put file:f where(a = 1)}": "want a comparison",
	} {
		_, err := effect.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

// TestLink: a helper that is called twice has two sets of variables, a
// transaction that is passed is the caller's, and recursion ends.
func TestLink(t *testing.T) {
	p, err := effect.Parse(`entry h http {
  t := begin
  a := call load(t, in.a)
  b := call load(nil, in.b)
  call save(t, a.0)
  commit tx=t
}
func load(tx, id) @db.go:1 {
  r := read table:t[id = id] tx=tx @db.go:2
  call load(tx, id)
  return r
}
func save(tx, row) @db.go:8 {
  let row.n = row.n + 1
  write update table:t[id = row.id] set(* = row) tx=tx @db.go:9
}
`)
	if err != nil {
		t.Fatal(err)
	}
	got := effect.Format(&effect.Program{Entries: effect.Link(p, effect.LinkOptions{})})
	want := `entry h http {
  t := begin
  a := scope note=load {
    $1r := read table:t[id = in.a] tx=t via(@-) @db.go:2
    return $1r
  }
  b := scope note=load {
    $2r := read table:t[id = in.b] via(@-) @db.go:2
    return $2r
  }
  scope note=save {
    let a.0.n = a.0.n + 1
    write update table:t[id = a.0.id] set(* = a.0) tx=t via(@-) @db.go:9
  }
  commit tx=t
}
`
	if strings.ReplaceAll(got, " via(@-)", "") != strings.ReplaceAll(want, " via(@-)", "") {
		t.Errorf("linked:\n%s\nwant:\n%s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("entry a http {\n  x := read table:t[id = in.id] cols(a, b) @f.go:1\n}\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := effect.Parse(text)
		if err != nil {
			return
		}
		out := effect.Format(p)
		again, err := effect.Parse(out)
		if err != nil {
			t.Fatalf("printed text does not parse: %v\n%s", err, out)
		}
		if effect.Format(again) != out {
			t.Fatalf("unstable:\n%s\n%s", out, effect.Format(again))
		}
	})
}
