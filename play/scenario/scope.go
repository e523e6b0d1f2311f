package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// scope is what the placeholders of a text may name.
type scope int

const (
	verbatim   scope = iota // the text is taken as it is
	beforehand              // before anything runs: baseNames and env.NAME
	running                 // for an instance: also instanceNames
	afterSome               // in the set-up: also what was captured before
	afterSetup              // also all that was captured
)

// baseNames are known before anything runs; instanceNames for each instance.
var (
	baseNames     = []string{"work", "dir"}
	instanceNames = []string{"port", "url", "instance", "postgres.url", "postgres.host", "postgres.port",
		"postgres.user", "postgres.password", "postgres.database", "postgres.ca"}
	// filesDir is known beforehand where there is a file gate.
	filesDir = "files.dir"
)

// scopeOf tells the scope of the text at a key and, for a text of the set-up,
// which request it belongs to.
func scopeOf(key string) (scope, int) {
	top, rest, _ := strings.Cut(key, ".")
	section, index, _ := strings.Cut(top, "[")
	switch section {
	case "build":
		return beforehand, 0
	case "application":
		if strings.HasPrefix(rest, "build") || rest == "dir" {
			return beforehand, 0
		}
		return running, 0
	case "postgres":
		return beforehand, 0
	case "setup":
		var i int
		if _, err := fmt.Sscanf(index, "%d]", &i); err == nil {
			return afterSome, i
		}
	case "requests", "invariants":
		if rest != "name" {
			return afterSetup, 0
		}
	}
	return verbatim, 0
}

// placeholders checks that each placeholder of a text gets a value, in time.
func (c *checker) placeholders(t text, captured map[string]capture) {
	where, setup := scopeOf(t.key)
	if where == verbatim || !strings.Contains(t.value, "$") {
		return
	}
	known := slices.Clone(baseNames)
	if c.has("files") {
		known = append(known, filesDir)
	}
	if where >= running {
		for _, n := range instanceNames {
			if !strings.HasPrefix(n, "postgres.") || c.has("postgres") {
				known = append(known, n)
			}
		}
	}
	for name, from := range captured {
		if where == afterSetup || (where == afterSome && from.setup < setup) {
			known = append(known, name)
		}
	}
	slices.Sort(known)
	for _, m := range placeholder.FindAllStringSubmatch(t.value, -1) {
		switch name := m[1]; {
		case m[0] == "$$", slices.Contains(known, name) && name != "postgres.ca":
		case name == "":
			c.fail(t.node, t.key, "%q has a ${ that begins no placeholder: write ${name}, or $$ for a dollar", short(t.value))
		default:
			if why := c.unknown(name, where, known, captured); why != "" {
				c.fail(t.node, t.key, "%s", why)
			}
		}
	}
	for _, m := range bareName.FindAllStringSubmatch(t.value, -1) {
		if slices.Contains(known, m[1]) {
			c.fail(t.node, t.key, "$%s is not a placeholder: write ${%s}, or $$%s for the text itself", m[1], m[1], m[1])
		}
	}
}

// unknown says why a name has no value in a scope; empty when it has one.
func (c *checker) unknown(name string, where scope, known []string, captured map[string]capture) string {
	if v, ok := strings.CutPrefix(name, "env."); ok && identifier.MatchString(v) {
		return ""
	}
	from, isCaptured := captured[name]
	switch {
	case isCaptured && where == afterSome:
		return fmt.Sprintf("${%s} has no value yet: it is captured by setup[%d] in line %d", name, from.setup, from.node.Line)
	case isCaptured:
		return fmt.Sprintf("${%s} has no value here: the application is started before the set-up captures it", name)
	case name == "postgres.ca" && where >= running && c.has("postgres"):
		if c.s.Postgres != nil && c.s.Postgres.TLS {
			return ""
		}
		return "${postgres.ca} has a value only with postgres.tls: true"
	case name == filesDir:
		return "${files.dir} has no value: the scenario has no files section"
	case strings.HasPrefix(name, "postgres.") && !c.has("postgres") && slices.Contains(instanceNames, name):
		return fmt.Sprintf("${%s} has no value: the scenario has no postgres section", name)
	case slices.Contains(instanceNames, name):
		return fmt.Sprintf("${%s} has no value here: it is known only when an instance is started", name)
	}
	return fmt.Sprintf("unknown placeholder ${%s}; %s", name, suggest(name, "names", append(slices.Clone(known), "env.NAME")))
}
