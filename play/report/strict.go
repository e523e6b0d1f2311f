package report

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// fieldError is a field that the reader does not know, or a second one of the
// same name. encoding/json reports the first without a place and lets the
// second pass, the later value winning.
type fieldError struct {
	line  int
	path  string
	twice bool
	known []string
}

func (e *fieldError) Error() string {
	if e.twice {
		return fmt.Sprintf("%q is there twice; remove one", e.path)
	}
	return fmt.Sprintf("unknown field %q; known here: %s", e.path, strings.Join(e.known, ", "))
}

// knownFields walks valid JSON along the type of v (nil: all is known) and returns the first field
// that is unknown there or there twice. Names must match exactly. It notes the
// line of each top-level field in lines.
func knownFields(data []byte, v any, lines map[string]int) *fieldError {
	w := walker{data: data, dec: json.NewDecoder(bytes.NewReader(data)), lines: lines}
	w.value(reflect.TypeOf(v), "")
	return w.err
}

type walker struct {
	data  []byte
	dec   *json.Decoder
	lines map[string]int
	err   *fieldError
}

// value walks one value of type t (nil: anything goes) at path.
func (w *walker) value(t reflect.Type, path string) {
	tok, err := w.dec.Token()
	if err != nil {
		return // the caller has decoded the same data before
	}
	t = plainType(t)
	switch tok {
	case json.Delim('{'):
		w.object(t, path)
	case json.Delim('['):
		var elem reflect.Type
		if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
			elem = t.Elem()
		}
		for i := 0; w.err == nil && w.dec.More(); i++ {
			w.value(elem, fmt.Sprintf("%s[%d]", path, i))
		}
		w.end()
	}
}

func (w *walker) object(t reflect.Type, path string) {
	seen := map[string]bool{}
	for w.err == nil && w.dec.More() {
		tok, err := w.dec.Token()
		key, ok := tok.(string)
		if err != nil || !ok {
			return
		}
		line := lineOf(w.data, w.dec.InputOffset())
		at := key
		if path != "" {
			at = path + "." + key
		} else {
			w.lines[key] = line
		}
		field, known, ok := member(t, key)
		if seen[key] || !ok {
			w.err = &fieldError{line: line, path: at, twice: seen[key], known: known}
			return
		}
		seen[key] = true
		w.value(field, at)
	}
	w.end()
}

// end takes the closing delimiter.
func (w *walker) end() {
	if w.err == nil {
		_, _ = w.dec.Token() // valid JSON: it is there
	}
}

// member is the type of the member key of t (nil: anything goes). Where t is a
// struct without this field, known are the names that it has.
func member(t reflect.Type, key string) (field reflect.Type, known []string, ok bool) {
	if t == nil {
		return nil, nil, true
	}
	switch t.Kind() {
	case reflect.Map:
		return t.Elem(), nil, true
	case reflect.Struct:
	default:
		return nil, nil, true
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		if name == key {
			return f.Type, nil, true
		}
		known = append(known, name)
	}
	return nil, known, false
}

// plainType is t without pointers; nil for a type that reads its JSON itself.
func plainType(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return nil
	}
	return t
}
