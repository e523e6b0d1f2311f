package scenario

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("scenario.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("scenario.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// document is a YAML text as a schema sees it.
func document(t testing.TB, data []byte) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return plainJSON(v)
}

// plainJSON makes texts of moments, as the scenario does.
func plainJSON(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, v := range x {
			x[k] = plainJSON(v)
		}
	case []any:
		for i, v := range x {
			x[i] = plainJSON(v)
		}
	case time.Time:
		return x.String()
	}
	return v
}

func TestSchemaAcceptsExamples(t *testing.T) {
	schema := compiled(t)
	var files []string
	err := filepath.WalkDir("../../examples", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && e.Name() == "node_modules" {
			return filepath.SkipDir
		}
		if err == nil && filepath.Ext(path) == ".yaml" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatal("no examples", err)
	}
	for _, file := range append(files, "testdata/full.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(document(t, data)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if strings.HasPrefix(file, "testdata") {
			continue // its files are not there
		}
		if _, err := Load(file); err != nil {
			t.Error(err)
		}
	}
}

// structural are the test files with mistakes that a schema can see.
var structural = []string{"unknown-key", "wrong-type", "missing", "missing-all", "no-value", "duration", "number",
	"request-line", "command-list", "restart", "bodies", "postgres", "lists", "invariants", "not-a-mapping", "capture"}

func TestSchemaRefuses(t *testing.T) {
	schema := compiled(t)
	for _, name := range structural {
		data, err := os.ReadFile("testdata/errors/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(document(t, data)); err == nil {
			t.Errorf("the schema accepts %s", name)
		}
	}
}

// node is the part of a schema that the comparison with the Go types needs.
type node struct {
	Ref         string          `json:"$ref"`
	Description string          `json:"description"`
	Required    []string        `json:"required"`
	Properties  map[string]node `json:"properties"`
	Closed      *bool           `json:"additionalProperties"`
	Items       *node           `json:"items"`
	OneOf       []node          `json:"oneOf"`
	Minimum     *int            `json:"minimum"`
	Maximum     *int            `json:"maximum"`
	Defs        map[string]node `json:"$defs"`
}

// TestSchemaEqualsTypes compares keys, required keys and bounds with the tags of
// the Go types, and wants a description for each key.
func TestSchemaEqualsTypes(t *testing.T) {
	// additionalProperties may be a schema; only false is of interest.
	raw := regexp.MustCompile(`"additionalProperties": \{.*\}`).ReplaceAll(Schema(), []byte(`"additionalProperties": true`))
	var root node
	if err := json.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	compare(t, root, root, reflect.TypeFor[Scenario](), "scenario")
}

// follow resolves references and keeps the outermost description.
func follow(t *testing.T, root, n node) node {
	t.Helper()
	for n.Ref != "" {
		target := root
		for part := range strings.SplitSeq(strings.TrimPrefix(n.Ref, "#/"), "/") {
			switch part {
			case "$defs", "properties":
				continue
			}
			next, ok := target.Defs[part]
			if !ok {
				next, ok = target.Properties[part]
			}
			if !ok {
				t.Fatalf("no %s", n.Ref)
			}
			target = next
		}
		if n.Description != "" {
			target.Description = n.Description
		}
		n = target
	}
	return n
}

func compare(t *testing.T, root, n node, typ reflect.Type, at string) {
	t.Helper()
	var keys, required []string
	for _, f := range fields(typ) {
		keys = append(keys, f.key)
		if f.required {
			required = append(required, f.key)
		}
		p, ok := n.Properties[f.key]
		if !ok {
			continue // reported below
		}
		p = follow(t, root, p)
		where := at + "." + f.key
		if p.Description == "" {
			t.Errorf("%s has no description", where)
		}
		if number(p.Minimum) != f.min || number(p.Maximum) != f.max {
			t.Errorf("%s is from %s to %s, want %q to %q", where, number(p.Minimum), number(p.Maximum), f.min, f.max)
		}
		sub := typ.FieldByIndex(f.index).Type
		if sub.Kind() == reflect.Slice && sub.Elem().Kind() == reflect.Struct && p.Items != nil {
			sub, p = sub.Elem(), follow(t, root, *p.Items)
		}
		if sub.Kind() == reflect.Pointer {
			sub = sub.Elem()
		}
		for _, alt := range p.OneOf { // ready: a line or an object
			if alt = follow(t, root, alt); alt.Properties != nil {
				p = alt
			}
		}
		if sub.Kind() == reflect.Struct && len(fields(sub)) > 0 {
			compare(t, root, p, sub, where)
		}
	}
	slices.Sort(keys)
	slices.Sort(required)
	if got := slices.Sorted(maps.Keys(n.Properties)); !slices.Equal(got, keys) {
		t.Errorf("%s has the keys %v in the schema and %v in Go", at, got, keys)
	}
	if got := slices.Sorted(slices.Values(n.Required)); !slices.Equal(got, required) {
		t.Errorf("%s requires %v in the schema and %v in Go", at, got, required)
	}
	if n.Closed == nil || *n.Closed {
		t.Errorf("%s allows additional keys in the schema", at)
	}
}

func number(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

// commented is a line of the template that is a choice: # and, without a single
// blank in between, YAML.
var commented = regexp.MustCompile(`(?m)^( *)#( {2,}\S|\S)`)

// TestTemplate reads the template as it is and with every choice taken.
func TestTemplate(t *testing.T) {
	schema := compiled(t)
	all := commented.ReplaceAll(Template(), []byte("$1$2"))
	for name, text := range map[string][]byte{"as it is": Template(), "every choice": all} {
		s, err := Parse("holdfast.yaml", text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := schema.Validate(document(t, text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(s.Actors()) != 2 {
			t.Errorf("%s: %d actors", name, len(s.Actors()))
		}
	}
	// Every key of the format is shown, but for body and form, which exclude
	// json and are named in a comment.
	s, err := Parse("holdfast.yaml", all)
	if err != nil {
		t.Fatal(err)
	}
	unset(t, reflect.ValueOf(*s), "scenario")
}

func unset(t *testing.T, v reflect.Value, at string) {
	t.Helper()
	for _, f := range fields(v.Type()) {
		sub, where := v.FieldByIndex(f.index), at+"."+f.key
		shown := regexp.MustCompile(`\b` + f.key + `:`)
		if !shown.Match(Template()) {
			t.Errorf("%s is not in the template", where)
		}
		for sub.Kind() == reflect.Pointer && !sub.IsNil() {
			sub = sub.Elem()
		}
		if sub.Kind() == reflect.Slice && sub.Len() > 0 && sub.Index(0).Kind() == reflect.Struct {
			sub = sub.Index(0)
		}
		if sub.Kind() == reflect.Struct {
			unset(t, sub, where)
		}
	}
}
