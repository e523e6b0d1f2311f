package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/play/app"
)

func TestExpand(t *testing.T) {
	v := Vars{"port": {Text: "80"}, "postgres.url": {Text: "postgres://x?a=$$"}, "empty": {}}
	for text, want := range map[string]string{
		"":                         "",
		"a${port}b${port}":         "a80b80",
		"${postgres.url}":          "postgres://x?a=$$", // values are not looked into
		"$$ $$$$ $ $5 $${port} $a": "$ $$ $ $5 ${port} $a",
		"<${empty}>":               "<>",
	} {
		if got, err := Expand(text, v); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	for _, bad := range []string{"${prot}", "${", "${}", "${port"} {
		_, err := Expand("x "+bad, v)
		if e, ok := errors.AsType[*VarError](err); !ok || e.Text != "x "+bad {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func full(t *testing.T) (*Scenario, Vars) {
	t.Helper()
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse("testdata/full.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.BaseVars("/w w")
	if err != nil {
		t.Fatal(err)
	}
	return s, v.With(Vars{"port": {Text: "81"}, "postgres.url": {Text: "postgres://gate"}, "sid": {Text: "s1"},
		"account": {Text: "a/7", JSON: `"a/7"`}, "token": {Text: "Bearer x&y"}})
}

func TestApplicationOptions(t *testing.T) {
	s, v := full(t)
	dir, err := os.Getwd() // testdata/.. as dir says
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Application.Options(v)
	if err != nil {
		t.Fatal(err)
	}
	want := app.Options{Command: []string{"/w w/my server", "--port", "81"}, Dir: dir,
		Env: []string{"DATABASE_URL=postgres://gate", "DEBUG=true", "LEVEL=3"}}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("got  %+v\nwant %+v", o, want)
	}
	if b, err := s.Application.Build.Expand(v); err != nil || !slices.Equal(b, []string{"go", "build", "-o", "/w w/my server", "."}) {
		t.Errorf("build %q, %v", b, err)
	}
	if p, err := s.Application.Ready.Probe(v); err != nil || p != (app.Probe{Method: "GET", Path: "/healthz", Status: 204}) {
		t.Errorf("probe %+v, %v", p, err)
	}
	delete(v, "postgres.url")
	if _, err := s.Application.Options(v); !errors.As(err, new(*VarError)) {
		t.Errorf("without a value: %v", err)
	}
	v["dir"] = app.Value{Text: filepath.Dir(dir)}
	if d, err := s.Application.WorkDir(v); err != nil || d != filepath.Dir(filepath.Dir(dir)) {
		t.Errorf("dir %q, %v", d, err)
	}
}

func TestHTTPExpand(t *testing.T) {
	s, v := full(t)
	var got []app.Request
	for _, r := range s.Requests {
		req, err := r.Expand(v)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, req)
	}
	want := []app.Request{
		{Method: "POST", Path: "/accounts/a%2F7/withdraw?by=Bearer+x%26y",
			Header:  map[string]string{"Content-Type": "application/json", "Authorization": "Bearer x&y"},
			Cookies: map[string]string{"sid": "s1"}, Body: []byte(`{"to":"a/7","note":"for a/7"}`)},
		{Method: "PUT", Path: "/note", Header: map[string]string{"Content-Type": "text/plain; charset=utf-8"},
			Cookies: map[string]string{}, Body: []byte("plain Bearer x&y")},
		{Method: "POST", Path: "/form", Header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
			Cookies: map[string]string{}, Body: []byte("a=1+%26+2&b=a%2F7")},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestHTTPExpandDetails(t *testing.T) {
	v := Vars{"loc": {Text: "/orders/7?x=1"}, "n": {Text: "7", JSON: "7"}, "s": {Text: `q"\`, JSON: `"q\"\\"`}, "bad": {Text: "a\nb"}}
	h := HTTP{Request: Line{"GET", "${loc}&y=${s}"}, Headers: map[string]string{"content-type": "application/vnd.x+json"},
		JSON: `{"a":"${n}","b":"${s}","${n}":"n=${n}","c":["\"${n}\\","$$5",1.50,null],"${s}":{}}`}
	r, err := h.Expand(v)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"a":7,"b":"q\"\\","7":"n=7","c":["\"7\\","$5",1.50,null],"q\"\\":{}}`
	if string(r.Body) != want || r.Path != "/orders/7?x=1&y=q%22%5C" {
		t.Errorf("got %s %s\nwant %s", r.Path, r.Body, want)
	}
	if len(r.Header) != 1 || r.Header["Content-Type"] != "application/vnd.x+json" {
		t.Errorf("headers %q", r.Header)
	}
	for name, h := range map[string]HTTP{
		"header": {Request: Line{"GET", "/"}, Headers: map[string]string{"X": "${bad}"}},
		"cookie": {Request: Line{"GET", "/"}, Cookies: map[string]string{"x": "${bad}"}},
		"path":   {Request: Line{"GET", "${n}/a"}},
		"value":  {Request: Line{"GET", "/"}, JSON: `["${none}"]`},
	} {
		if _, err := h.Expand(v); err == nil || !strings.Contains(err.Error(), "fill in") {
			t.Errorf("%s: %v", name, err)
		}
	}
	i, err := Invariant{SQL: "SELECT ${n} > 0", Request: Line{}}.Expand(v)
	if err != nil || i.SQL != "SELECT 7 > 0" {
		t.Errorf("invariant %+v, %v", i, err)
	}
}
