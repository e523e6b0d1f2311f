package scenario

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-dev/holdfast/play/app"
)

func (w *Words) unmarshal(d *decoder, n *yaml.Node, key string) {
	if n.Kind == yaml.SequenceNode {
		for i, c := range n.Content {
			if s, ok := d.text(c, fmt.Sprintf("%s[%d]", key, i)); ok {
				*w = append(*w, s)
			}
		}
		if len(n.Content) == 0 {
			d.fail(n, key, "is empty: write the program and its arguments")
		}
		return
	}
	if n.ShortTag() != "!!str" {
		d.wrongType(n, key, "a command line or a list of words")
		return
	}
	words, err := app.SplitWords(n.Value)
	if err != nil {
		d.fail(n, key, "%v", err)
		return
	}
	for _, s := range words {
		d.texts = append(d.texts, text{value: s, key: key, node: n})
	}
	*w = words
}

func (r *Ready) unmarshal(d *decoder, n *yaml.Node, key string) {
	if n.ShortTag() == "!!str" {
		r.Request.unmarshal(d, n, key)
		return
	}
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, key, "a request line or the keys request, status and timeout")
		return
	}
	// Without its method, so that the decoder does not come back here.
	type plain Ready
	d.mapping(n, reflectOf((*plain)(r)), key)
}

func (r *Restart) unmarshal(d *decoder, n *yaml.Node, key string) {
	if d.choice(n, key, "choices", []string{string(RestartOnDoubt), string(RestartAlways)}) {
		*r = Restart(n.Value)
	}
}

// choice reports whether a node is one of the known words, and a mistake if not.
func (d *decoder) choice(n *yaml.Node, key, what string, known []string) bool {
	if n.ShortTag() == "!!str" && slices.Contains(known, n.Value) {
		return true
	}
	d.fail(n, key, "%s is not understood; %s", kindOf(n), suggest(n.Value, what, known))
	return false
}

func (m *PowerModel) unmarshal(d *decoder, n *yaml.Node, key string) {
	if d.choice(n, key, "choices", []string{string(PowerOrdered), string(PowerWeak)}) {
		*m = PowerModel(n.Value)
	}
}

func (s *Schedules) unmarshal(d *decoder, n *yaml.Node, key string) {
	if n.Kind != yaml.SequenceNode {
		s.add(d, n, key)
		return
	}
	for i, c := range n.Content {
		s.add(d, resolve(c), fmt.Sprintf("%s[%d]", key, i))
	}
	if len(n.Content) == 0 {
		d.fail(n, key, "is empty: remove the key to play all kinds of schedules")
	}
}

func (s *Schedules) add(d *decoder, n *yaml.Node, key string) {
	var known []string
	for _, k := range ScheduleKinds() {
		known = append(known, string(k))
	}
	if d.choice(n, key, "kinds of schedules", known) {
		*s = append(*s, ScheduleKind(n.Value))
	}
}

func (q *SQLs) unmarshal(d *decoder, n *yaml.Node, key string) {
	if n.Kind != yaml.SequenceNode {
		q.add(d, n, key)
		return
	}
	for i, c := range n.Content {
		q.add(d, resolve(c), fmt.Sprintf("%s[%d]", key, i))
	}
}

func (q *SQLs) add(d *decoder, n *yaml.Node, key string) {
	switch {
	case n.ShortTag() != "!!str":
		d.wrongType(n, key, "SQL or the name of a file, or a list of them")
	case strings.TrimSpace(n.Value) == "":
		d.fail(n, key, "is empty: write SQL or the name of a file")
	case strings.ContainsAny(n.Value, " \t\r\n;"):
		*q = append(*q, SQL{Text: n.Value})
	default:
		*q = append(*q, SQL{File: n.Value})
		t := text{value: n.Value, key: key, node: n}
		d.texts, d.files = append(d.texts, t), append(d.files, t)
	}
}

// methods that a request line may have.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

func (l *Line) unmarshal(d *decoder, n *yaml.Node, key string) {
	const how = "write a method and a path, as in POST /accounts/1/withdraw"
	s, ok := d.text(n, key)
	if !ok {
		return
	}
	method, path, ok := strings.Cut(s, " ")
	path = strings.Trim(path, " ")
	switch {
	case !ok || path == "":
		d.fail(n, key, "%q is not a request line: %s", short(s), how)
	case !slices.Contains(methods, method):
		d.fail(n, key, "unknown method %q; %s", short(method), suggest(method, "methods", methods))
	case strings.Contains(path, "://"):
		d.fail(n, key, "%q is a whole URL: write the path only, the application's address is put before it", short(path))
	case !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "${"):
		d.fail(n, key, "the path %q does not begin with a slash: %s", short(path), how)
	case !validPath(path):
		d.fail(n, key, "%q is not a path that can be sent: write blanks as %%20 and no fragment (#)", short(path))
	default:
		*l = Line{Method: method, Path: path}
	}
}

// validPath reports whether a path can be sent when each of its placeholders
// has some value.
func validPath(path string) bool {
	p := placeholder.ReplaceAllString(path, "x")
	if strings.ContainsAny(p, " #\t\r\n\\") {
		return false
	}
	_, err := url.ParseRequestURI("http://host/" + strings.TrimPrefix(p, "/"))
	return err == nil
}

func (c *Captures) unmarshal(d *decoder, n *yaml.Node, key string) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, key, "names with sources, as in {account: $.id}")
		return
	}
	*c = Captures{}
	d.pairs(n, key, func(k *yaml.Node, name string, v *yaml.Node) {
		path := under(key, name)
		d.at[path] = k
		v = resolve(v)
		if !identifier.MatchString(name) {
			d.fail(k, path, "%q can not be the name of a placeholder: use letters, digits and _", name)
			return
		}
		if v.ShortTag() != "!!str" {
			d.wrongType(v, path, "a source, as in $.id, header.Authorization or cookie.sid")
			return
		}
		source, err := app.ParseSource(v.Value)
		if err != nil {
			d.fail(v, path, "%v", err)
			return
		}
		(*c)[name] = source
	})
}

// The body of a scenario is small. These bounds end the work on a file whose
// aliases unfold into a large or an endless document.
const maxJSONDepth, maxJSONBytes = 100, 1 << 20

func (j *JSON) unmarshal(d *decoder, n *yaml.Node, key string) {
	before := len(d.errs)
	b := d.json(nil, n, key, 0)
	if len(d.errs) == before {
		*j = JSON(b)
	}
}

// json appends a node as compact JSON. After an error the result means nothing.
func (d *decoder) json(b []byte, n *yaml.Node, key string, depth int) []byte {
	n = resolve(n)
	if depth > maxJSONDepth || len(b) > maxJSONBytes {
		if i := len(d.errs) - 1; i < 0 || d.errs[i].Key != key { // once is enough
			d.fail(n, key, "is larger than %d bytes or deeper than %d levels", maxJSONBytes, maxJSONDepth)
		}
		return b
	}
	switch n.Kind {
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, c := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			b = d.json(b, c, key, depth+1)
		}
		return append(b, ']')
	case yaml.MappingNode:
		b = append(b, '{')
		first := true
		d.pairs(n, key, func(k *yaml.Node, name string, v *yaml.Node) {
			if k.ShortTag() == "!!merge" {
				d.fail(k, key, "YAML merge keys (<<) are not understood; write %q in quotes for the text itself", name)
				return
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			d.texts = append(d.texts, text{value: name, key: key, node: k})
			b = append(quote(b, name), ':')
			b = d.json(b, v, key, depth+1)
		})
		return append(b, '}')
	}
	return d.jsonScalar(b, n, key)
}

func (d *decoder) jsonScalar(b []byte, n *yaml.Node, key string) []byte {
	switch n.ShortTag() {
	case "!!null":
		return append(b, "null"...)
	case "!!bool":
		return strconv.AppendBool(b, strings.EqualFold(n.Value, "true"))
	case "!!str", "!!timestamp":
		// YAML takes 2026-01-02 for a moment; JSON has none, and what was
		// written is what was meant.
		d.texts = append(d.texts, text{value: n.Value, key: key, node: n})
		return quote(b, n.Value)
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return append(b, n.Value...) // 10.00 stays 10.00
		}
		var v any
		if err := n.Decode(&v); err == nil {
			switch x := v.(type) {
			case int:
				return strconv.AppendInt(b, int64(x), 10)
			case int64:
				return strconv.AppendInt(b, x, 10)
			case uint64:
				return strconv.AppendUint(b, x, 10)
			case float64:
				if !math.IsInf(x, 0) && !math.IsNaN(x) {
					return strconv.AppendFloat(b, x, 'g', -1, 64)
				}
			}
		}
	}
	d.fail(n, key, "%s can not be written as JSON: put it in quotes to send it as text", kindOf(n))
	return b
}

// quote appends a JSON string.
func quote(b []byte, s string) []byte {
	q, _ := json.Marshal(s) // a string has no way to fail
	return append(b, q...)
}
