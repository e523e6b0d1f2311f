package scenario

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-dev/holdfast/play/app"
)

// checker looks at what needs more than one value of the file.
type checker struct {
	*decoder
	s *Scenario
}

func (c *checker) check() {
	c.application()
	c.postgres()
	c.files()
	captured := c.captures()
	for i, u := range c.s.Setup {
		key := fmt.Sprintf("setup[%d]", i)
		switch run := c.has(key + ".run"); {
		case !run && !c.has(key+".request"):
			c.failAt(key+".request", "is missing")
		case run && !c.has("files"):
			c.failAt(key+".run", "programs are run on files only, so far: the scenario has no files section")
		case run:
			for _, k := range []string{"request", "headers", "cookies", "json", "body", "form", "expect", "capture"} {
				if c.has(key + "." + k) {
					c.failAt(key+"."+k, "it runs a program: %s does not go with run", k)
				}
			}
		case !c.has("application"):
			c.failAt(key+".request", "there is no application to send it to: use run for a program, or files.seed")
		}
		c.http(u.HTTP, key)
	}
	c.requests()
	c.lists()
	c.invariants()
	for _, t := range c.texts {
		c.placeholders(t, captured)
	}
}

// failAt reports a mistake at a key, or at the nearest one above it that is in
// the file.
func (c *checker) failAt(key, format string, args ...any) {
	for at := key; ; {
		if n, ok := c.at[at]; ok {
			c.fail(n, key, format, args...)
			return
		}
		at = at[:max(0, strings.LastIndexAny(at, ".["))]
	}
}

func (c *checker) has(key string) bool { return c.at[key] != nil }

func (c *checker) application() {
	a := c.s.Application
	if !c.has("application") {
		c.withoutApplication()
		return
	}
	for name := range a.Env {
		if !identifier.MatchString(name) {
			c.failAt(under("application.env", name), "%q can not be the name of an environment variable", name)
		}
	}
	if len(a.Command) == 0 {
		return // which has been reported
	}
	// An application that is told neither could only listen on a port of its
	// own choice, or go to a database beside the gate, and the play would wait
	// in vain.
	if !c.uses("port", "url") {
		c.failAt("application.command", "nothing tells the application on which port to listen: use ${port} or ${url} in command or env")
	}
	if c.has("postgres") && !c.uses("postgres.url", "postgres.port") {
		c.failAt("application.command", "nothing tells the application where its database is: use ${postgres.url}, or ${postgres.host} and ${postgres.port}, in command or env")
	}
	if c.has("files") && !c.uses(filesDir) {
		c.failAt("application.command", "nothing tells the application where its files are: use ${files.dir} in command or env")
	}
}

// withoutApplication: then there are only programs.
func (c *checker) withoutApplication() {
	programs := false
	for i := range c.s.Requests {
		programs = programs || c.has(fmt.Sprintf("requests[%d].run", i))
	}
	if !programs {
		if c.at[""].Kind == yaml.MappingNode {
			c.failAt("application", "is missing: say how to start it, or give the requests programs to run")
		}
		return
	}
	if c.has("postgres") {
		c.failAt("postgres", "programs (run) are played on files only, so far; remove it")
	}
}

func (c *checker) files() {
	f := c.s.Files
	if c.has("pause") && c.s.Pause <= 0 {
		c.failAt("pause", "a pause lasts longer than 0: name the longest lease or time-out of the application")
	}
	if c.has("pause_waits") && !c.has("pause") {
		c.failAt("pause_waits", "it goes with pause only")
	}
	for i, k := range c.s.Schedules {
		at := fmt.Sprintf("schedules[%d]", i)
		if why := c.s.lacks(k); why != "" {
			c.failAt(at, "%s", why)
		}
	}
	if f == nil {
		return
	}
	if c.has("postgres") {
		c.failAt("files", "there is a postgres section: one gate is played at a time, so far")
	}
	for name := range f.Seed {
		if clean := filepath.Clean(name); name == "" || filepath.IsAbs(name) || !filepath.IsLocal(clean) {
			c.failAt(under("files.seed", name), "%q is not a path inside the directory", short(name))
		}
	}
	for i, s := range f.Ignore {
		if _, err := filepath.Match(s, "x"); err != nil {
			c.failAt(fmt.Sprintf("files.ignore[%d]", i), "%q is not a pattern: %v", short(s), err)
		}
	}
	for i, s := range f.Random {
		if _, err := regexp.Compile(s); err != nil {
			c.failAt(fmt.Sprintf("files.random[%d]", i), "%v", err)
		}
	}
}

// uses reports whether the command or the environment has one of these
// placeholders.
func (c *checker) uses(names ...string) bool {
	return slices.ContainsFunc(c.texts, func(t text) bool {
		if !strings.HasPrefix(t.key, "application.command") && !strings.HasPrefix(t.key, "application.env") {
			return false
		}
		return slices.ContainsFunc(placeholder.FindAllStringSubmatch(t.value, -1), func(m []string) bool {
			return slices.Contains(names, m[1])
		})
	})
}

func (c *checker) postgres() {
	p := c.s.Postgres
	if p == nil {
		return
	}
	if p.Server == "" && c.isText("postgres.server") {
		c.failAt("postgres.server", "is empty: write a URL, or remove the key for a throwaway server")
	}
	if p.Server != "" && !strings.HasPrefix(p.Server, "${") {
		u, err := url.Parse(placeholder.ReplaceAllString(p.Server, "0"))
		if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
			c.failAt("postgres.server", "%q is not the URL of a server: write postgres://user:password@host:port/", short(p.Server))
		}
	}
	if c.isText("postgres.database") && (p.Database == "" || strings.ContainsAny(p.Database, "\x00/") || len(p.Database) > 63) {
		c.failAt("postgres.database", "%q can not be the name of a database: 1 to 63 bytes without a slash", short(p.Database))
	}
}

// capture is where a placeholder gets its value.
type capture struct {
	setup int
	node  *yaml.Node
}

func (c *checker) captures() map[string]capture {
	all := map[string]capture{}
	for i, u := range c.s.Setup {
		for name := range u.Capture {
			key := fmt.Sprintf("setup[%d].capture.%s", i, name)
			n := c.at[key]
			switch first, again := all[name]; {
			case slices.Contains(instanceNames, name) || slices.Contains(baseNames, name):
				c.fail(n, key, "${%s} has a meaning already: choose another name", name)
			case again:
				c.fail(n, key, "%q is already captured in line %d: choose another name", name, first.node.Line)
			default:
				all[name] = capture{setup: i, node: n}
			}
		}
	}
	return all
}

// token is what may name a header or a cookie (RFC 9110).
var token = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")

// ownHeaders are set by the client, from the request.
var ownHeaders = []string{"Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Upgrade", "Expect"}

func (c *checker) http(h HTTP, key string) {
	var bodies []string
	for _, k := range []string{"json", "body", "form"} {
		if c.has(key + "." + k) {
			bodies = append(bodies, k)
		}
	}
	if len(bodies) > 1 {
		c.failAt(key+"."+bodies[1], "there is already a body by %s: a request has one of json, body and form", bodies[0])
	}
	seen := map[string]string{}
	for _, name := range sortedByLine(c, h.Headers, key+".headers.") {
		at := key + ".headers." + name
		lower := strings.ToLower(name)
		switch {
		case !token.MatchString(name):
			c.failAt(at, "%q can not be the name of a header", name)
		case slices.ContainsFunc(ownHeaders, func(s string) bool { return strings.EqualFold(s, name) }):
			c.failAt(at, "%s is set from the request itself and can not be given", name)
		case seen[lower] != "":
			c.failAt(at, "it is the same header as %s", seen[lower])
		case hasControl(h.Headers[name]):
			c.failAt(at, "the value of a header has no line end and no other control character")
		}
		seen[lower] = name
	}
	for name, value := range h.Cookies {
		at := key + ".cookies." + name
		if !token.MatchString(name) {
			c.failAt(at, "%q can not be the name of a cookie", name)
		}
		if hasControl(value) || strings.Contains(value, ";") {
			c.failAt(at, "the value of a cookie has no semicolon and no control character")
		}
	}
}

// sortedByLine gives the names of a map in the order of the file.
func sortedByLine(c *checker, m map[string]string, prefix string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := c.at[prefix+a], c.at[prefix+b]
		if x.Line != y.Line {
			return x.Line - y.Line
		}
		return x.Column - y.Column
	})
	return names
}

func (c *checker) requests() {
	actors := 0
	names := map[string]int{}
	for i, r := range c.s.Requests {
		key := fmt.Sprintf("requests[%d]", i)
		c.http(r.HTTP, key)
		c.program(r, key)
		actors += r.Times
		if r.Instance != nil && *r.Instance >= c.s.Application.Instances {
			c.failAt(key+".instance", "there is no instance %d: application.instances is %d, and they count from 0", *r.Instance, c.s.Application.Instances)
		}
		if first, ok := names[r.Name]; ok && r.Name != "" {
			c.failAt(key+".name", "requests[%d] has the name %q already", first, r.Name)
		} else {
			names[r.Name] = i
		}
	}
	// nil: it is missing or no list, which has been reported.
	if c.s.Requests != nil && (actors < minActors || actors > maxActors) {
		c.failAt("requests", "a play has %d to %d requests at once, and here are %d (times counts)", minActors, maxActors, actors)
	}
}

// program checks that a request is one thing: an HTTP request or a program.
func (c *checker) program(r Request, key string) {
	if !c.has(key+".run") && !c.has(key+".request") {
		if slices.ContainsFunc(c.errs, func(e *Error) bool { return e.Key == key }) {
			return // it is no request at all, which has been reported
		}
		c.failAt(key, "it says nothing: give request (a method and a path) or run (a program)")
		return
	}
	if !c.has(key + ".run") {
		if c.has(key + ".env") {
			c.failAt(key+".env", "it goes with run only")
		}
		if !c.has("application") {
			c.failAt(key+".request", "there is no application to send it to: add the key application, or use run for a program")
		}
		return
	}
	for _, k := range []string{"request", "headers", "cookies", "json", "body", "form", "instance"} {
		if c.has(key + "." + k) {
			c.failAt(key+"."+k, "the request runs a program: %s does not go with run", k)
		}
	}
	if c.s.Files == nil && !c.has("files") {
		c.failAt(key+".run", "no step of the program would be held: write files: {} to watch the files in ${files.dir}")
	} else if !c.usesIn(key, filesDir) {
		c.failAt(key+".run", "nothing tells the program where its files are: use ${files.dir} in run or env")
	}
	for name := range r.Env {
		if !identifier.MatchString(name) {
			c.failAt(under(key+".env", name), "%q can not be the name of an environment variable", name)
		}
	}
}

// usesIn reports whether a text below a key has the placeholder.
func (c *checker) usesIn(key, name string) bool {
	return slices.ContainsFunc(c.texts, func(t text) bool {
		return strings.HasPrefix(t.key, key+".") && strings.Contains(t.value, "${"+name+"}")
	})
}

// columnName and tableName allow a schema in front.
var (
	tableName  = regexp.MustCompile(`^[^\s.]+(\.[^\s.]+){0,2}$`)
	columnName = regexp.MustCompile(`^[^\s.]+(\.[^\s.]+){1,2}$`)
)

func (c *checker) lists() {
	o, n := c.s.Observe, c.s.Noise
	c.each("observe.tables", o.Tables, tableName, "the name of a table")
	c.each("observe.ignore", o.Ignore, tableName, "the name of a table or a column (accounts.updated_at)")
	c.each("observe.headers", o.Headers, token, "the name of a header")
	for key, list := range map[string][]string{"noise.columns": n.Columns, "noise.ids": n.IDs, "noise.times": n.Times} {
		c.each(key, list, columnName, "the name of a column with its table (accounts.note)")
	}
	for i, s := range n.JSON {
		at := fmt.Sprintf("noise.json[%d]", i)
		if _, err := app.ParsePath(s); err != nil && c.isText(at) {
			c.failAt(at, "%v", err)
		}
	}
}

// isText reports whether a text was read for the key; a value of another type
// has been reported already.
func (c *checker) isText(key string) bool {
	return slices.ContainsFunc(c.texts, func(t text) bool { return t.key == key })
}

func (c *checker) each(key string, list []string, form *regexp.Regexp, what string) {
	for i, s := range list {
		at := fmt.Sprintf("%s[%d]", key, i)
		if c.isText(at) && !form.MatchString(s) {
			c.failAt(at, "%q is not %s", short(s), what)
		}
	}
}

func (c *checker) invariants() {
	names := map[string]int{}
	for i, v := range c.s.Invariants {
		key := fmt.Sprintf("invariants[%d]", i)
		sql, request := c.has(key+".sql"), c.has(key+".request")
		switch {
		case sql && request:
			c.failAt(key+".request", "there is already sql: an invariant has one of the two")
		case !sql && !request:
			c.failAt(key, "it says nothing: give sql (true holds) or request")
		case sql && strings.TrimSpace(v.SQL) == "" && c.isText(key+".sql"):
			c.failAt(key+".sql", "is empty: write a query that gives true")
		case sql && c.s.Postgres == nil && !c.has("postgres"):
			c.failAt(key+".sql", "there is no database to ask: the scenario has no postgres section")
		}
		if request && !c.has("application") {
			c.failAt(key+".request", "there is no application to ask")
		}
		if c.has(key+".expect") && !request {
			c.failAt(key+".expect", "it is the status of an answer and goes with request only")
		}
		if first, ok := names[v.Name]; ok && v.Name != "" {
			c.failAt(key+".name", "invariants[%d] has the name %q already", first, v.Name)
		} else {
			names[v.Name] = i
		}
	}
}
