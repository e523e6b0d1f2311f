package scenario

import (
	_ "embed"
	"fmt"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed scenario.schema.json
var schema string

//go:embed template.yaml
var template string

// Schema is the JSON Schema (draft 2020-12) of scenario files.
func Schema() []byte { return []byte(schema) }

// Template is a commented scenario to start from. It is itself a valid one.
func Template() []byte { return []byte(template) }

// Load reads a scenario file and checks that the files and the environment
// variables that it names are there. Mistakes in the file are *[Error]s, joined
// in the order of their lines.
func Load(path string) (*Scenario, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	s, d := parse(path, data)
	for _, f := range d.files {
		if placeholder.MatchString(f.value) {
			continue // it may be made by the build
		}
		if _, err := os.Stat(s.Path(f.value)); err != nil {
			d.fail(f.node, f.key, "%q is taken as the name of a file beside the scenario, since it has no blank and no semicolon: %v", f.value, err)
		}
	}
	for _, t := range d.texts {
		if where, _ := scopeOf(t.key); where == verbatim {
			continue
		}
		for _, m := range placeholder.FindAllStringSubmatch(t.value, -1) {
			name, ok := strings.CutPrefix(m[1], "env.")
			if !ok || name == "" {
				continue
			}
			if _, set := os.LookupEnv(name); !set {
				d.fail(t.node, t.key, "the environment variable %s is not set: set it, or write the value in place of ${env.%s}", name, name)
			}
		}
	}
	if err := joined(d.errs); err != nil {
		return nil, err
	}
	return s, nil
}

// Parse reads a scenario from a text. name is the file's name for messages, and
// its folder becomes Scenario.Dir. Mistakes are *[Error]s, joined in the order
// of their lines.
func Parse(name string, data []byte) (*Scenario, error) {
	s, d := parse(name, data)
	if err := joined(d.errs); err != nil {
		return nil, err
	}
	return s, nil
}

func parse(name string, data []byte) (*Scenario, *decoder) {
	s := blank(name)
	d := &decoder{file: name, at: map[string]*yaml.Node{}}
	top := d.document(data)
	if top == nil {
		return s, d
	}
	d.at[""] = top
	d.value(top, reflectOf(s), "")
	s.fill()
	c := checker{decoder: d, s: s}
	c.check()
	return s, d
}

// reflectOf is the value that a pointer points to, to be filled.
func reflectOf[T any](p *T) reflect.Value { return reflect.ValueOf(p).Elem() }
