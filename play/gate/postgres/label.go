package postgres

import (
	"encoding/binary"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/play/gate/postgres/explain"
)

const (
	// paramWidth is how much of a parameter a label shows.
	paramWidth = 80
	// labelCache bounds the cache; when full it starts anew.
	labelCache = 4096
)

// label is how a step is called without and with its values, and how it is shown.
type label struct{ shape, name, text string }

// labels makes labels and remembers them by statements and raw parameters:
// every run of a search sends the same ones again.
type labels struct {
	values *values
	mu     sync.Mutex
	known  map[string]label
}

func newLabels(v *values) *labels {
	return &labels{values: v, known: map[string]label{}}
}

func (l *labels) of(execs []execution) label {
	if len(execs) == 0 {
		return label{"Sync", "Sync", "Sync (ends the implicit transaction)"}
	}
	key := make([]byte, 0, 256)
	for _, e := range execs {
		key = e.key(key)
	}
	l.mu.Lock()
	known, ok := l.known[string(key)]
	l.mu.Unlock()
	if ok {
		return known
	}
	made := l.build(execs)
	l.mu.Lock()
	if len(l.known) >= labelCache {
		clear(l.known)
	}
	l.known[string(key)] = made
	l.mu.Unlock()
	return made
}

// key is unique for what the label depends on: each part has its length.
func (e execution) key(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(e.sql)))
	b = append(b, e.sql...)
	if e.portal == nil {
		return append(b, 0)
	}
	b = append(b, 1)
	if e.portal.stmt == nil {
		b = append(b, e.portal.name...)
	}
	b = binary.AppendUvarint(b, uint64(len(e.portal.params)))
	for i, p := range e.portal.params {
		b = binary.AppendUvarint(b, uint64(e.portal.oid(i)))
		b = binary.AppendVarint(b, int64(formatAt(e.portal.formats, i)))
		if p == nil {
			b = append(b, 0)
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(p))+1)
		b = append(b, p...)
	}
	return b
}

func (l *labels) build(execs []execution) label {
	var shape, name, text []string
	for _, e := range execs {
		whole := strings.TrimSpace(e.sql)
		if e.portal != nil && e.portal.stmt == nil {
			whole = "(statement or portal " + strconv.Quote(e.portal.name) + ", not parsed through the gate)"
		}
		short, long := l.params(e.portal)
		shape = append(shape, explain.Shape(whole))
		name = append(name, fold(whole)+short)
		text = append(text, whole+long)
	}
	return label{strings.Join(shape, "; "), strings.Join(name, "; "), strings.Join(text, ";\n")}
}

// params is the parameter list, shortened and whole: "  [1, 'abc', NULL]".
func (l *labels) params(p *portal) (short, long string) {
	if p == nil || len(p.params) == 0 {
		return "", ""
	}
	shorts := make([]string, len(p.params))
	longs := make([]string, len(p.params))
	for i, raw := range p.params {
		if raw == nil {
			shorts[i], longs[i] = "NULL", "NULL"
			continue
		}
		s := l.values.text(p.oid(i), formatAt(p.formats, i), raw)
		shorts[i], longs[i] = literal(shorten(fold(s), paramWidth)), literal(s)
	}
	return "  [" + strings.Join(shorts, ", ") + "]", "  [" + strings.Join(longs, ", ") + "]"
}

// oid is the type of the i-th parameter, 0 where not known.
func (p *portal) oid(i int) uint32 {
	if p.stmt != nil && i < len(p.stmt.oids) {
		return p.stmt.oids[i]
	}
	return 0
}

// literal quotes what is not a number, by its look: the same value sent as
// text without a type and as a binary integer gets the same label.
func literal(s string) string {
	if _, err := strconv.ParseFloat(s, 64); err == nil && !strings.ContainsAny(s, "nNxXpP_") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}
