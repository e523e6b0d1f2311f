package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Value is something that a placeholder stands for.
type Value struct {
	// Text is the value inside a longer text.
	Text string
	// JSON is the value as JSON where it came from a JSON document, so that a
	// captured number can be sent as a number again; empty for plain text.
	JSON string
}

// Path names a place in a JSON document. Of JSONPath it has only $ (the
// document), .name (a member; the name has no dot, bracket or blank) and [n] (an
// item, from 0), as in $.items[0].id: one place, never a set of places.
type Path struct {
	text  string
	steps []step
}

// step is a member name or, where name is empty, an index.
type step struct {
	name  string
	index int
}

// ParsePath reads a path as [Path] describes.
func ParsePath(s string) (Path, error) {
	rest, ok := strings.CutPrefix(s, "$")
	if !ok {
		return Path{}, fmt.Errorf("JSON path %q does not begin with $: write for example $.id or $.items[0].id", s)
	}
	p := Path{text: s}
	for rest != "" {
		switch rest[0] {
		case '.':
			n := strings.IndexAny(rest[1:], ".[] \t*") + 1
			if n == 0 {
				n = len(rest)
			}
			if n == 1 {
				return Path{}, fmt.Errorf("JSON path %q has no name after a dot: write for example $.items[0].id (no .. and no *)", s)
			}
			p.steps = append(p.steps, step{name: rest[1:n]})
			rest = rest[n:]
		case '[':
			digits, after, ok := strings.Cut(rest[1:], "]")
			i, err := strconv.ParseUint(digits, 10, 31)
			if !ok || err != nil {
				return Path{}, fmt.Errorf("JSON path %q: in brackets only a number from 0 is understood, as in $.items[0].id", s)
			}
			p.steps = append(p.steps, step{index: int(i)})
			rest = after
		default:
			return Path{}, fmt.Errorf("JSON path %q: %q is not understood; write for example $.id or $.items[0].id", s, rest)
		}
	}
	return p, nil
}

func (p Path) String() string { return p.text }

// Lookup finds the place in a document. A text is given without its quotes in
// Value.Text; objects and arrays as compact JSON.
func (p Path) Lookup(doc []byte) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber() // an id above 2^53 must not lose its last digits
	var v any
	if err := d.Decode(&v); err != nil {
		return Value{}, fmt.Errorf("look up %s: the document is not JSON: %w", p, err)
	}
	at := "$"
	for _, s := range p.steps {
		if s.name == "" {
			a, ok := v.([]any)
			if !ok || s.index >= len(a) {
				return Value{}, fmt.Errorf("look up %s: %s has no item %d", p, at, s.index)
			}
			v, at = a[s.index], fmt.Sprintf("%s[%d]", at, s.index)
			continue
		}
		o, ok := v.(map[string]any)
		if ok {
			v, ok = o[s.name]
		}
		if !ok {
			return Value{}, fmt.Errorf("look up %s: %s has no member %q", p, at, s.name)
		}
		at += "." + s.name
	}
	b, err := json.Marshal(v)
	if err != nil {
		return Value{}, fmt.Errorf("look up %s: %w", p, err)
	}
	if s, ok := v.(string); ok {
		return Value{Text: s, JSON: string(b)}, nil
	}
	return Value{Text: string(b), JSON: string(b)}, nil
}

// Source says where in an answer a value is captured: $.id and the like in its
// JSON body, header.NAME, or cookie.NAME (set by this very answer).
type Source struct {
	header, cookie string
	path           Path
}

// ParseSource reads a source as [Source] describes.
func ParseSource(s string) (Source, error) {
	if strings.HasPrefix(s, "$") {
		p, err := ParsePath(s)
		return Source{path: p}, err
	}
	kind, name, _ := strings.Cut(s, ".")
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !tokenRune(r) }) < 0 {
		switch kind {
		case "header":
			return Source{header: name}, nil
		case "cookie":
			return Source{cookie: name}, nil
		}
	}
	return Source{}, fmt.Errorf("%q refers to nothing in an answer: write $.id (JSON body), header.NAME or cookie.NAME", s)
}

// tokenRune reports whether r may be in the name of a header or cookie.
func tokenRune(r rune) bool {
	return r > ' ' && r < 0x7f && !strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

func (s Source) String() string {
	switch {
	case s.header != "":
		return "header." + s.header
	case s.cookie != "":
		return "cookie." + s.cookie
	}
	return s.path.String()
}

// CaptureError says that an answer does not have what was to be captured.
type CaptureError struct {
	Source Source
	Status int
	Err    error
	// Body is the beginning of the answer's body.
	Body string
}

func (e *CaptureError) Error() string {
	return fmt.Sprintf("capture %s: %v (status %d, body %q)", e.Source, e.Err, e.Status, e.Body)
}

func (e *CaptureError) Unwrap() error { return e.Err }

// Capture takes a value out of the answer. The error is a *[CaptureError].
func (r *Reply) Capture(s Source) (Value, error) {
	v, err := r.find(s)
	if err != nil {
		return Value{}, &CaptureError{Source: s, Status: r.Status, Err: err, Body: string(r.Body[:min(len(r.Body), 200)])}
	}
	return v, nil
}

func (r *Reply) find(s Source) (Value, error) {
	switch {
	case s.header != "":
		if v := r.Header.Values(s.header); len(v) > 0 {
			return Value{Text: v[0]}, nil
		}
		return Value{}, errors.New("the answer has no such header")
	case s.cookie != "":
		for _, k := range (&http.Response{Header: r.Header}).Cookies() {
			if k.Name == s.cookie {
				return Value{Text: k.Value}, nil
			}
		}
		return Value{}, errors.New("the answer sets no such cookie")
	}
	return s.path.Lookup(r.Body)
}
