package report

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/rules"
)

// NoScenarioError says that a finding can not be played over HTTP.
type NoScenarioError struct {
	Rule string
	Why  string
}

func (e *NoScenarioError) Error() string {
	return fmt.Sprintf("no scenario for %s: %s", e.Rule, e.Why)
}

// Scenario writes a starting scenario of `holdfast play` for a finding on an
// HTTP path: the requests are those of the actors, the values are to be filled
// in.
func Scenario(w io.Writer, f *rules.Finding, schema []string) error {
	var requests strings.Builder
	actors := f.Witness.Actors
	if len(actors) < 2 {
		return &NoScenarioError{f.Rule.ID, "its schedule has one actor and a fault"}
	}
	for _, a := range actors {
		method, path, ok := strings.Cut(a.Entry.Name, " ")
		if a.Entry.Kind != effect.HTTP || !ok || !strings.HasPrefix(path, "/") {
			return &NoScenarioError{f.Rule.ID, fmt.Sprintf("the method and path of %s are not known", a.Entry.Title())}
		}
		fmt.Fprintf(&requests, "  - name: %s\n    request: %s %s\n", a.Name, method, path)
		if method == "GET" || method == "DELETE" {
			continue
		}
		var fields []string
		for _, n := range inputs(a.Entry) {
			fields = append(fields, n+": 1")
		}
		fmt.Fprintf(&requests, "    json: {%s}\n", strings.Join(fields, ", "))
	}
	if len(schema) == 0 {
		schema = []string{"schema.sql"}
	}
	_, err := fmt.Fprintf(w, `# A starting point for %s at %s. Fill in the command, the data and the
# values of the requests, then: holdfast play FILE
name: %s at %s
description: >
  %s
application:
  build: go build -o ${work}/app .
  command: ${work}/app
  env:
    DATABASE_URL: ${postgres.url}
    PORT: ${port}
  ready: GET /
postgres:
  schema: [%s]
requests:
%s`, f.Rule.ID, f.Pos, f.Rule.ID, f.Pos.File, people(f.Message), strings.Join(schema, ", "), requests.String())
	return err
}

// inputs are the names of what a request carries, without the receiver of the
// value.
func inputs(e *effect.Entry) []string {
	names := map[string]bool{}
	add := func(v *effect.Value) {
		if v == nil {
			return
		}
		v.Paths(func(p string) {
			if rest, ok := strings.CutPrefix(p, "in."); ok {
				names[rest[strings.LastIndexByte(rest, '.')+1:]] = true
			}
		})
	}
	e.Body.Walk(func(s *effect.Step) bool {
		add(s.Val)
		for _, as := range slices.Concat(s.Set, keyOf(s.On)) {
			add(&as.Val)
		}
		for _, c := range s.Where {
			add(&c.Val)
		}
		return true
	})
	var out []string
	for n := range names {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

func keyOf(on *effect.Resource) []effect.Assign {
	if on == nil {
		return nil
	}
	return on.Key
}
