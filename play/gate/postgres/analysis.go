package postgres

import (
	"context"
	"strings"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/explain"
)

// newSession begins the analysis of one connection, with the settings of its
// start-up packet; nil without an analyzer.
func newSession(a *explain.Analyzer, startup []byte) *explain.Session {
	if a == nil {
		return nil
	}
	s := a.Session()
	params := startupParams(startup)
	for i := 0; i+1 < len(params); i += 2 {
		if params[i] != "options" {
			s.Parameter(params[i], params[i+1])
			continue
		}
		for name, value := range settings(params[i+1]) {
			s.Parameter(name, value)
		}
	}
	return s
}

// settings reads a server's command-line options, as clients send them:
// "-c name=value", "-cname=value", "--name=value". A backslash escapes a space.
func settings(options string) map[string]string {
	const escaped = "\x01"
	out := map[string]string{}
	words := strings.Fields(strings.ReplaceAll(options, `\ `, escaped))
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "-c" && i+1 < len(words):
			i++
			w = words[i]
		case strings.HasPrefix(w, "-c"):
			w = w[2:]
		case strings.HasPrefix(w, "--"):
			w = w[2:]
		default:
			continue
		}
		if name, value, ok := strings.Cut(w, "="); ok {
			out[strings.ReplaceAll(name, "-", "_")] = strings.ReplaceAll(value, escaped, " ")
		}
	}
	return out
}

// describe fills in what the step touches. It asks the server when the
// statements are new.
func (c *conn) describe(step *gate.Step, u *unit, stmts []explain.Statement) {
	switch {
	case len(u.execs) == 0:
		step.Footprint = explore.Anything("the end of an implicit transaction")
	case c.session == nil:
		step.Footprint = explore.Anything("the gate has no analysis of statements")
	default:
		r := c.session.Analyze(c.gate.ctx, stmts)
		step.Footprint, step.First, step.Rest = r.Footprint, r.First, r.Rest
		step.Writes, step.Quiet, step.Splittable = r.Writes, r.Quiet, r.Splittable
		if why := c.unanalysed(u); why != "" {
			step.Footprint = explore.Anything(why)
			step.First, step.Rest = step.Footprint, step.Footprint
			step.Writes, step.Quiet, step.Splittable = nil, false, false
		}
	}
}

// unanalysed is why the analysis can not be right, "" if it can.
func (c *conn) unanalysed(u *unit) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unseen {
		return "its transaction began while nothing was held"
	}
	for _, e := range u.execs {
		if e.portal != nil && e.portal.stmt == nil {
			return "it executes a statement that was not parsed through the gate"
		}
	}
	return ""
}

// follow tells the analysis of a unit that passes while nothing is held, if it
// may change the session or the schema. Queries and plain changes are left out:
// analysing them would cost time, and before the schema is complete be wrong.
func (c *conn) follow(ctx context.Context, stmts []explain.Statement) {
	if c.session == nil {
		return
	}
	for _, s := range stmts {
		word, _, _ := strings.Cut(fold(s.SQL), " ")
		switch strings.ToLower(word) {
		case "select", "insert", "update", "delete", "values", "merge", "table", "with", "":
		default:
			c.session.Analyze(ctx, stmts)
			return
		}
	}
}

// statementsOf is the step as package footprint takes it. The connection's
// mutex is held, for the parameter types that the server has reported.
func statementsOf(execs []execution) []explain.Statement {
	out := make([]explain.Statement, len(execs))
	for i, e := range execs {
		out[i] = explain.Statement{SQL: e.sql, Simple: e.portal == nil}
		p := e.portal
		if p == nil {
			continue
		}
		out[i].Params = p.params
		out[i].Formats = make([]int16, len(p.params))
		for j := range p.params {
			out[i].Formats[j] = formatAt(p.formats, j)
		}
		if p.stmt != nil {
			out[i].ParamOIDs = p.stmt.oids
		}
	}
	return out
}
