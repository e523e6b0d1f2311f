package file

import (
	"regexp"
	"testing"
)

func TestNames(t *testing.T) {
	n := newNames([]*regexp.Regexp{regexp.MustCompile(`~[a-z]+`)})
	create := func(owner string) mention { return mention{owner: owner} }
	for _, c := range []struct {
		path string
		m    mention
		want string
	}{
		{"", mention{}, "."},
		{"data.json", create("A"), "data.json"},
		{"report-2024.json", mention{owner: "A", exists: true}, "report-2024.json"},
		{"data.json.tmp", create("A"), "data.json.tmp"},
		{"data.json.48213", create("A"), "data.json.A1"},
		{"data.json.99107", create("A"), "data.json.A2"},
		{"data.json.73112", create("B"), "data.json.B1"},
		{"data.json.48213", create("B"), "data.json.A1"}, // the same file
		{"x.811.tmp", create("A"), "x.811.tmp"},
		{"y.811.tmp", mention{owner: "A", pid: 811}, "y.A1.tmp"},
		{"y.81.1796107074990.tmp", mention{owner: "A"}, "y.A2.tmp"},
		{"c.4711.1796107074990.tmp", create("A"), "c.A1.tmp"},
		{"tmpk3_x9z1q", create("B"), "B1"},
		{"f-0b9c2d1e-1a2b-4c3d-8e9f-001122334455", create("A"), "f-A1"},
		{"prefsabcdefgh.json", mention{owner: "A", temp: true}, "tmp-A1.json"},
		{"edit~qwerty", create("A"), "editA1"},
		{"tmpdir88123/data.json", create("A"), "A1/data.json"},
		{"sub/aQz9Rt", mention{owner: "A", exclusive: true}, "sub/A1"},
		{"sub/migration.lock", mention{owner: "A", exclusive: true}, "sub/migration.lock"},
	} {
		if got := n.of(c.path, c.m); got != c.want {
			t.Errorf("%q is %q, want %q", c.path, got, c.want)
		}
	}
	if got := n.known("data.json.99107"); got != "data.json.A2" {
		t.Errorf("known as %q", got)
	}
}
