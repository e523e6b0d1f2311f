package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decoder fills Go values from YAML nodes and collects every mistake. The
// yaml package's own decoder is not used: it stops at the first unknown key,
// turns 5 into "5" in silence and forgets where a value stood.
type decoder struct {
	file  string
	lines int // of the file
	errs  []*Error
	// at is where each key that was read stands, by its path, for the checks
	// that need more than one value.
	at map[string]*yaml.Node
	// texts are the strings that may have placeholders, in the file's order.
	texts []text
	// files are the SQL files that are named.
	files []text
}

// text is a string of the file and its place.
type text struct {
	value, key string
	node       *yaml.Node
}

// unmarshaler is a type with its own form in the file.
type unmarshaler interface {
	unmarshal(d *decoder, n *yaml.Node, key string)
}

func (d *decoder) fail(n *yaml.Node, key, format string, args ...any) {
	// A value that is not there and an open bracket are missed behind the last
	// line of the file.
	line := min(max(n.Line, 1), d.lines)
	d.errs = append(d.errs, &Error{File: d.file, Line: line, Column: max(n.Column, 1), Key: key, Msg: fmt.Sprintf(format, args...)})
}

// document reads the one YAML document of a file; nil when there is none.
func (d *decoder) document(data []byte) *yaml.Node {
	d.lines = len(lineBreak.FindAllIndex(data, -1)) + 1
	top := &yaml.Node{Line: 1, Column: 1}
	r := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := r.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF), err == nil && (len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null"):
		d.fail(top, "", "the file is empty: `holdfast init` writes a scenario to start from")
		return nil
	case err != nil:
		d.syntax(data, err)
		return nil
	}
	if err := r.Decode(&more); err == nil {
		d.fail(&more, "", "a second document begins here: one file is one scenario")
	} else if !errors.Is(err, io.EOF) {
		d.syntax(data, err)
	}
	return doc.Content[0]
}

var (
	// lineBreak is where YAML begins to count a new line.
	lineBreak     = regexp.MustCompile(`\r\n|[\r\n\x{85}\x{2028}\x{2029}]`)
	syntaxError   = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// syntax reports a text that is not YAML. The package says where in the message.
func (d *decoder) syntax(data []byte, err error) {
	line, msg := 1, err.Error()
	if m := syntaxError.FindStringSubmatch(msg); m != nil {
		msg = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	lines := lineBreak.Split(string(data), -1)
	if m := unknownAnchor.FindStringSubmatch(msg); m != nil {
		line = 1 + slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "*"+m[1]) })
	}
	hint := ""
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(strings.TrimLeft(l, " "), "\t") }); i >= 0 {
		hint = fmt.Sprintf("; line %d is indented with a tab: use blanks", i+1)
	}
	d.fail(&yaml.Node{Line: line}, "", "not YAML: %s%s", msg, hint)
}

// value fills v from a node.
func (d *decoder) value(n *yaml.Node, v reflect.Value, key string) {
	n = resolve(n)
	if n.ShortTag() == "!!null" {
		d.fail(n, key, "has no value: give it one or remove the key")
		return
	}
	if u, ok := v.Addr().Interface().(unmarshaler); ok {
		u.unmarshal(d, n, key)
		return
	}
	switch p := v.Addr().Interface().(type) {
	case *time.Duration:
		d.duration(n, p, key)
		return
	case *map[string]string:
		d.textMap(n, p, key)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), key)
	case reflect.Struct:
		d.mapping(n, v, key)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			d.wrongType(n, key, "a list")
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, c := range n.Content {
			k := fmt.Sprintf("%s[%d]", key, i)
			d.at[k] = c
			d.value(c, v.Index(i), k)
		}
	case reflect.String:
		if s, ok := d.text(n, key); ok {
			v.SetString(s)
		}
	case reflect.Bool:
		if n.ShortTag() != "!!bool" {
			d.wrongType(n, key, "true or false")
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int:
		if i, ok := d.integer(n, key); ok {
			v.SetInt(int64(i))
		}
	default:
		panic("scenario: no decoder for " + v.Type().String())
	}
}

// field is one key of a struct.
type field struct {
	key      string
	required bool
	index    []int
	min, max string
}

// fields lists the keys of a struct, those of inlined structs included.
func fields(t reflect.Type) []field {
	var fs []field
	for _, f := range reflect.VisibleFields(t) {
		tag, ok := f.Tag.Lookup("yaml")
		key, opt, _ := strings.Cut(tag, ",")
		if !ok || opt == "inline" {
			continue
		}
		fs = append(fs, field{key: key, required: opt == "required", index: f.Index, min: f.Tag.Get("min"), max: f.Tag.Get("max")})
	}
	return fs
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, key string) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, key, "keys with values")
		return
	}
	fs := fields(v.Type())
	known := make([]string, len(fs))
	for i, f := range fs {
		known[i] = f.key
	}
	given := map[string]bool{}
	d.pairs(n, key, func(k *yaml.Node, name string, c *yaml.Node) {
		path := under(key, name)
		i := slices.Index(known, name)
		if i < 0 {
			d.fail(k, path, "unknown key %q; %s", name, suggest(name, "keys", known))
			return
		}
		given[name] = true
		d.at[path] = k
		d.value(c, v.FieldByIndex(fs[i].index), path)
		d.bounds(c, v.FieldByIndex(fs[i].index), fs[i], path)
	})
	for _, f := range fs {
		if f.required && !given[f.key] {
			d.fail(n, under(key, f.key), "is missing")
		}
	}
}

// pairs calls f for each key of a mapping, and reports keys that are no text or
// that are there twice.
func (d *decoder) pairs(n *yaml.Node, key string, f func(k *yaml.Node, name string, v *yaml.Node)) {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := resolve(n.Content[i])
		if k.Kind != yaml.ScalarNode || (k.ShortTag() != "!!str" && k.ShortTag() != "!!merge") {
			d.fail(k, key, "a key must be text: write it in quotes")
			continue
		}
		if line, ok := first[k.Value]; ok {
			d.fail(k, under(key, k.Value), "the key %q is already in line %d", k.Value, line)
			continue
		}
		first[k.Value] = k.Line
		f(k, k.Value, n.Content[i+1])
	}
}

// bounds checks a number that was given against the field's min and max.
func (d *decoder) bounds(n *yaml.Node, v reflect.Value, f field, key string) {
	if f.min == "" {
		return
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	low, high := bound(f.min, math.MinInt64), bound(f.max, math.MaxInt64)
	if resolve(n).ShortTag() != "!!int" || (v.Int() >= low && v.Int() <= high) {
		return
	}
	if f.max == "" {
		d.fail(n, key, "%d is too small: the least is %s", v.Int(), f.min)
	} else {
		d.fail(n, key, "%d is not between %s and %s", v.Int(), f.min, f.max)
	}
}

func bound(s string, def int64) int64 {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	return def
}

// text reads a string and notes it as one that may have placeholders.
func (d *decoder) text(n *yaml.Node, key string) (string, bool) {
	n = resolve(n)
	if n.ShortTag() != "!!str" {
		d.wrongType(n, key, "text (in quotes, where it looks like something else)")
		return "", false
	}
	d.texts = append(d.texts, text{value: n.Value, key: key, node: n})
	return n.Value, true
}

// textMap reads texts by name. Numbers and truth values are taken as they are
// written: PORT: 8080 is not worth an error.
func (d *decoder) textMap(n *yaml.Node, m *map[string]string, key string) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, key, "names with texts")
		return
	}
	*m = map[string]string{}
	d.pairs(n, key, func(k *yaml.Node, name string, c *yaml.Node) {
		path := under(key, name)
		d.at[path] = k
		c = resolve(c)
		switch c.ShortTag() {
		case "!!str", "!!int", "!!float", "!!bool":
			d.texts = append(d.texts, text{value: c.Value, key: path, node: c})
			(*m)[name] = c.Value
		default:
			d.wrongType(c, path, `text ("" for an empty one)`)
		}
	})
}

func (d *decoder) integer(n *yaml.Node, key string) (int, bool) {
	var i int
	if n.ShortTag() != "!!int" {
		d.wrongType(n, key, "a whole number")
		return 0, false
	}
	if err := n.Decode(&i); err != nil {
		d.fail(n, key, "%s is too large a number", n.Value)
		return 0, false
	}
	return i, true
}

func (d *decoder) duration(n *yaml.Node, v *time.Duration, key string) {
	const how = `write a number with a unit, as in 500ms, 30s or 2m`
	if n.Kind != yaml.ScalarNode {
		d.wrongType(n, key, "a duration; "+how)
		return
	}
	t, err := time.ParseDuration(n.Value)
	switch {
	case n.ShortTag() != "!!str" || err != nil:
		d.fail(n, key, "%q is not a duration: %s", n.Value, how)
	case t <= 0:
		d.fail(n, key, "%s is no time at all: %s", n.Value, how)
	default:
		*v = t
	}
}

func (d *decoder) wrongType(n *yaml.Node, key, want string) {
	d.fail(n, key, "is %s, want %s", kindOf(n), want)
}

// kindOf says in words what a node is.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!str":
		return fmt.Sprintf("the text %q", short(n.Value))
	case "!!int", "!!float":
		return "the number " + short(n.Value)
	case "!!null":
		return "empty"
	}
	return short(n.Value)
}

// short cuts a text to what fits into a message.
func short(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return s
}

// resolve follows an alias (*name) to what it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func under(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}
