package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// Merged is the result of a three-way merge.
type Merged struct {
	// JSON holds both sides' changes. Where they conflict it holds what is
	// stored (theirs), so that saving it overwrites nobody's edit.
	JSON []byte
	// Conflicts are the places that both sides changed, differently.
	Conflicts []Clash
}

// Clash is one place that both sides changed. A nil value means that the place
// is absent on that side.
type Clash struct {
	// Pointer is the JSON pointer (RFC 6901) of the place; "" is the whole.
	Pointer            string
	Base, Ours, Theirs json.RawMessage
}

// Merge brings two edits of one JSON document together: base is what both
// started from, ours is one edit, theirs the other, usually the one that is
// stored by now. Objects are merged key by key; every other value, arrays
// included, is one unit. A person decides about the conflicts.
func Merge(base, ours, theirs []byte) (Merged, error) {
	return merge3(base, ours, theirs, preferTheirs)
}

type preference int

const (
	preferTheirs preference = iota
	preferOurs
)

// absent is a place that a side does not have; nil is JSON's null.
type absent struct{}

type merger struct {
	prefer preference
	clash  []Clash
}

func merge3(base, ours, theirs []byte, prefer preference) (Merged, error) {
	b, errB := parse(base)
	o, errO := parse(ours)
	t, errT := parse(theirs)
	for name, err := range map[string]error{"base": errB, "ours": errO, "theirs": errT} {
		if err != nil {
			return Merged{}, fmt.Errorf("merge: %s is not JSON: %w", name, err)
		}
	}
	m := merger{prefer: prefer}
	merged := m.merge("", b, o, t)
	out, err := encode("", merged)
	if err != nil {
		return Merged{}, err
	}
	return Merged{JSON: out, Conflicts: m.clash}, nil
}

// parse keeps numbers as they are written: 1e400 and 9007199254740993 survive.
func parse(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the JSON value")
	}
	return value, nil
}

func (m *merger) merge(pointer string, base, ours, theirs any) any {
	switch {
	case reflect.DeepEqual(ours, theirs), reflect.DeepEqual(base, theirs):
		return ours
	case reflect.DeepEqual(base, ours):
		return theirs
	}
	o, oursIs := ours.(map[string]any)
	t, theirsIs := theirs.(map[string]any)
	if !oursIs || !theirsIs {
		m.clash = append(m.clash, Clash{Pointer: pointer, Base: rawOf(base), Ours: rawOf(ours), Theirs: rawOf(theirs)})
		if m.prefer == preferOurs {
			return ours
		}
		return theirs
	}
	// Without a common base object every key is an addition of each side.
	b, _ := base.(map[string]any)
	out := make(map[string]any)
	for _, key := range keysOf(b, o, t) {
		value := m.merge(pointer+"/"+escape(key), at(b, key), at(o, key), at(t, key))
		if value != (absent{}) {
			out[key] = value
		}
	}
	return out
}

func at(object map[string]any, key string) any {
	if value, ok := object[key]; ok {
		return value
	}
	return absent{}
}

func keysOf(objects ...map[string]any) []string {
	var keys []string
	for _, object := range objects {
		for key := range object {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

func rawOf(value any) json.RawMessage {
	if value == (absent{}) {
		return nil
	}
	// What was parsed from JSON encodes.
	raw, _ := encode("", value)
	return raw
}
