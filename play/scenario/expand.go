package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/play/app"
)

// Vars are the values of placeholders by name:
//
//	work            folder for built programs and other files of this play
//	dir             folder of the scenario file
//	env.NAME        the caller's environment
//	port            port on which this instance is to listen
//	url             its base URL, http://127.0.0.1:port
//	instance        its number, from 0
//	postgres.url    the gated database, as a URL
//	postgres.host, .port, .user, .password, .database
//	postgres.ca     file with the certificate of the test CA (postgres.tls)
//	files.dir       the directory behind the file gate
//	NAME            captured from an answer to the set-up
//
// Not every text may use every name: a build runs before there is a port.
type Vars map[string]app.Value

// BaseVars are the values that are known before anything has been started: work,
// dir and env.NAME for each variable of the environment.
func (s *Scenario) BaseVars(work string) (Vars, error) {
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the folder of %s: %w", s.File, err)
	}
	v := Vars{"work": {Text: work}, "dir": {Text: dir}}
	for _, e := range os.Environ() {
		name, value, _ := strings.Cut(e, "=")
		v["env."+name] = app.Value{Text: value}
	}
	return v, nil
}

// With returns a copy with more values.
func (v Vars) With(more Vars) Vars {
	c := maps.Clone(v)
	if c == nil {
		c = Vars{}
	}
	maps.Copy(c, more)
	return c
}

// VarError says that a placeholder has no value. After Parse this is a value
// that the caller of Expand left out.
type VarError struct {
	Name string // of the placeholder
	Text string // in which it stands
}

func (e *VarError) Error() string {
	return fmt.Sprintf("fill in %q: nothing gives ${%s} a value", short(e.Text), e.Name)
}

var (
	// placeholder matches ${name} and the escape $$, and an opening ${ that is
	// never closed, as an empty name.
	placeholder = regexp.MustCompile(`\$\$|\$\{([^{}]*)\}|\$\{`)
	// bareName is what a shell would have replaced.
	bareName   = regexp.MustCompile(`\$\$|\$([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)`)
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Expand replaces the placeholders of a text. $$ becomes one dollar; a dollar
// before anything else stays. The error is a *[VarError].
func Expand(text string, v Vars) (string, error) {
	return expand(text, v, func(s string, _ int) string { return s })
}

// expand is Expand with a function that encodes a value, told where in the text
// its placeholder stands.
func expand(text string, v Vars, encode func(value string, at int) string) (string, error) {
	var b strings.Builder
	last := 0
	for _, m := range placeholder.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(text[last:m[0]])
		last = m[1]
		if text[m[0]:m[1]] == "$$" {
			b.WriteByte('$')
			continue
		}
		name := ""
		if m[2] >= 0 {
			name = text[m[2]:m[3]]
		}
		value, ok := v[name]
		if !ok {
			return "", &VarError{Name: name, Text: text}
		}
		b.WriteString(encode(value.Text, m[0]))
	}
	b.WriteString(text[last:])
	return b.String(), nil
}

// Expand fills in each word; a value never becomes more than one word.
func (w Words) Expand(v Vars) ([]string, error) {
	words := make([]string, len(w))
	for i, s := range w {
		var err error
		if words[i], err = Expand(s, v); err != nil {
			return nil, err
		}
	}
	return words, nil
}

// WorkDir is the working directory of the application and its build.
func (a Application) WorkDir(v Vars) (string, error) {
	d, err := Expand(a.Dir, v)
	if err != nil || filepath.IsAbs(d) {
		return d, err
	}
	return filepath.Join(v["dir"].Text, d), nil
}

// Options is how to start one instance; v has that instance's port and number.
// Instance, Addr, Output and Logger are the caller's to set.
func (a Application) Options(v Vars) (app.Options, error) {
	var o app.Options
	var err error
	if o.Command, err = a.Command.Expand(v); err != nil {
		return app.Options{}, err
	}
	if o.Dir, err = a.WorkDir(v); err != nil {
		return app.Options{}, err
	}
	o.Env, err = Environment(a.Env, v)
	return o, err
}

// Environment is what is set for a program, as "NAME=value".
func Environment(m map[string]string, v Vars) ([]string, error) {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		value, err := Expand(m[name], v)
		if err != nil {
			return nil, err
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// Probe is how to ask whether an instance is ready.
func (r Ready) Probe(v Vars) (app.Probe, error) {
	if r.Request == (Line{}) {
		return app.Probe{}, nil
	}
	path, err := r.Request.expand(v)
	return app.Probe{Method: r.Request.Method, Path: path, Status: r.Status}, err
}

// expand fills in the path. Values are escaped for the place where they stand,
// so that an id with a slash stays one segment; a value at the very beginning is
// taken as it is, since it is a path itself (captured from header.Location).
func (l Line) expand(v Vars) (string, error) {
	query := strings.IndexByte(l.Path, '?')
	p, err := expand(l.Path, v, func(s string, at int) string {
		switch {
		case at == 0:
			return s
		case query >= 0 && at > query:
			return url.QueryEscape(s)
		}
		return url.PathEscape(s)
	})
	if err == nil && !strings.HasPrefix(p, "/") {
		return "", fmt.Errorf("fill in %q: %q does not begin with a slash", l.Path, p)
	}
	return p, err
}

// Expand is the request ready to be sent.
func (h HTTP) Expand(v Vars) (app.Request, error) {
	r := app.Request{Method: h.Request.Method, Header: map[string]string{}}
	var err error
	if r.Path, err = h.Request.expand(v); err != nil {
		return app.Request{}, err
	}
	contentType := ""
	switch {
	case h.JSON != "":
		contentType = "application/json"
		r.Body, err = h.JSON.expand(v)
	case h.Form != nil:
		contentType = "application/x-www-form-urlencoded"
		r.Body, err = expandForm(h.Form, v)
	case h.Body != nil:
		contentType = "text/plain; charset=utf-8"
		var s string
		s, err = Expand(*h.Body, v)
		r.Body = []byte(s)
	}
	if err != nil {
		return app.Request{}, err
	}
	if contentType != "" {
		r.Header["Content-Type"] = contentType
	}
	headers, err := expandFields("header", h.Headers, v)
	if err != nil {
		return app.Request{}, err
	}
	for name, value := range headers {
		if strings.EqualFold(name, "Content-Type") {
			name = "Content-Type" // the scenario's replaces ours
		}
		r.Header[name] = value
	}
	r.Cookies, err = expandFields("cookie", h.Cookies, v)
	return r, err
}

func expandForm(form map[string]string, v Vars) ([]byte, error) {
	values := url.Values{}
	for name, text := range form {
		s, err := Expand(text, v)
		if err != nil {
			return nil, err
		}
		values.Set(name, s)
	}
	return []byte(values.Encode()), nil
}

// expandFields fills in headers or cookies. A value with a line end would be
// the beginning of another header.
func expandFields(what string, m map[string]string, v Vars) (map[string]string, error) {
	out := make(map[string]string, len(m))
	for name, text := range m {
		s, err := Expand(text, v)
		if err != nil {
			return nil, err
		}
		if hasControl(s) {
			return nil, fmt.Errorf("fill in %s %s: the value %q has a control character", what, name, short(s))
		}
		out[name] = s
	}
	return out, nil
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f })
}

// expand fills in the strings of a JSON text. A string that is one placeholder
// and nothing else becomes the captured value with its own JSON type, so that
// {to: "${account}"} sends the number 7 when 7 was captured.
func (j JSON) expand(v Vars) ([]byte, error) {
	var b []byte
	s := string(j)
	for s != "" {
		i := strings.IndexByte(s, '"')
		if i < 0 {
			return append(b, s...), nil
		}
		end := i + 1
		for s[end] != '"' {
			if s[end] == '\\' {
				end++
			}
			end++
		}
		b = append(b, s[:i]...)
		var text string
		if err := json.Unmarshal([]byte(s[i:end+1]), &text); err != nil {
			return nil, fmt.Errorf("fill in the JSON body: %w", err)
		}
		s = s[end+1:]
		isKey := strings.HasPrefix(s, ":")
		if m := placeholder.FindStringSubmatch(text); m != nil && m[0] == text && !isKey && v[m[1]].JSON != "" {
			b = append(b, v[m[1]].JSON...)
			continue
		}
		filled, err := Expand(text, v)
		if err != nil {
			return nil, err
		}
		b = quote(b, filled)
	}
	return b, nil
}

// Expand fills in the invariant's SQL and path. A value stands in SQL as it is.
func (i Invariant) Expand(v Vars) (Invariant, error) {
	var err error
	if i.SQL, err = Expand(i.SQL, v); err != nil {
		return Invariant{}, err
	}
	if i.Request != (Line{}) {
		i.Request.Path, err = i.Request.expand(v)
	}
	return i, err
}

// ReadSQL returns the SQL texts, those of files read.
func (s *Scenario) ReadSQL(list SQLs, v Vars) ([]string, error) {
	var texts []string
	for _, q := range list {
		if q.File == "" {
			texts = append(texts, q.Text)
			continue
		}
		name, err := Expand(q.File, v)
		if err != nil {
			return nil, err
		}
		b, err := os.ReadFile(s.Path(name))
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("read SQL: %w; a text with a blank or a semicolon is taken as SQL, any other as a file beside the scenario", err)
		}
		if err != nil {
			return nil, fmt.Errorf("read SQL: %w", err)
		}
		texts = append(texts, string(b))
	}
	return texts, nil
}
