package postgres

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/jackc/pgx/v5/pgtype"
)

func TestLabel(t *testing.T) {
	l := newLabels(newValues())
	bound := func(sql string, oids []uint32, formats []int16, params ...[]byte) execution {
		return execution{sql, &portal{stmt: &prepared{sql: sql, oids: oids}, formats: formats, params: params}}
	}
	const sql = "SELECT a\n\tFROM t  WHERE b = $1"
	for _, test := range []struct {
		name  string
		execs []execution
		want  label
	}{
		{"simple", []execution{{sql: " " + sql + "\n"}}, label{"select a from t where b = $1", "SELECT a FROM t WHERE b = $1", sql}},
		{"text without type", []execution{bound(sql, nil, nil, []byte("1"))}, label{"select a from t where b = $1", "SELECT a FROM t WHERE b = $1  [1]", sql + "  [1]"}},
		{"binary integer", []execution{bound(sql, []uint32{pgtype.Int8OID}, []int16{1}, []byte{0, 0, 0, 0, 0, 0, 0, 1})}, label{"select a from t where b = $1", "SELECT a FROM t WHERE b = $1  [1]", sql + "  [1]"}},
		{"string, null", []execution{bound("x", nil, nil, []byte("it's\nme"), nil)}, label{"x", "x  ['it''s me', NULL]", "x  ['it''s\nme', NULL]"}},
		{"unknown binary", []execution{bound("x", nil, []int16{1}, []byte{1, 255})}, label{"x", `x  ['\x01ff']`, `x  ['\x01ff']`}},
		{"two", []execution{{sql: "BEGIN"}, bound("x", nil, nil, []byte("NaN"))}, label{"begin; x", "BEGIN; x  ['NaN']", "BEGIN;\nx  ['NaN']"}},
		{"implicit commit", nil, label{"Sync", "Sync", "Sync (ends the implicit transaction)"}},
	} {
		for range 2 { // made, then remembered
			if got := l.of(test.execs); got != test.want {
				t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
			}
		}
	}
	long := l.of([]execution{bound("x", nil, nil, []byte(strings.Repeat("ä", 100)))})
	if want := "x  ['" + strings.Repeat("ä", paramWidth) + "…']"; long.name != want || len(long.text) < 200 {
		t.Errorf("long parameter: %+v", long)
	}
}

// Keys of different steps differ, also where their parts read the same when
// written one after the other.
func TestLabelKeys(t *testing.T) {
	p := func(params ...[]byte) *portal { return &portal{stmt: &prepared{}, params: params} }
	seen := map[string]int{}
	for i, execs := range [][]execution{
		{{"a", nil}}, {{"a", p()}}, {{"a", p(nil)}}, {{"a", p([]byte{})}}, {{"a", p([]byte("b"), []byte("c"))}},
		{{"a", p([]byte("bc"))}}, {{"a", nil}, {"b", nil}}, {{"ab", nil}}, {{"a", &portal{name: "s"}}},
		{{"a", &portal{stmt: &prepared{oids: []uint32{23}}, params: [][]byte{[]byte("b")}}}},
		{{"a", p([]byte("b"))}},
	} {
		var k []byte
		for _, e := range execs {
			k = e.key(k)
		}
		if j, ok := seen[string(k)]; ok {
			t.Errorf("cases %d and %d have the same key", i, j)
		}
		seen[string(k)] = i
	}
}

// FuzzReader cuts any bytes into messages, however they arrive, and compares
// with a cut of the whole.
func FuzzReader(f *testing.F) {
	f.Add([]byte{'Q', 0, 0, 0, 5, 0, 'S', 0, 0, 0, 4, 'X', 0, 0})
	f.Add([]byte{'Q', 0, 0, 0, 3})
	f.Add(append([]byte{'d', 0, 0, 0x40, 0}, bytes.Repeat([]byte{7}, 0x4000)...))
	f.Fuzz(func(t *testing.T, in []byte) {
		want := cut(in)
		for _, src := range []io.Reader{bytes.NewReader(in), iotest.OneByteReader(bytes.NewReader(in)), iotest.HalfReader(bytes.NewReader(in))} {
			r := newReader(src)
			var got [][]byte
			for r.fill() == nil {
				for {
					_, raw, ok := r.next()
					if !ok {
						break
					}
					got = append(got, bytes.Clone(raw))
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%d messages, want %d", len(got), len(want))
			}
			for i := range want {
				if !bytes.Equal(got[i], want[i]) {
					t.Fatalf("message %d is %x, want %x", i, got[i], want[i])
				}
			}
		}
	})
}

func cut(in []byte) (out [][]byte) {
	for len(in) >= headerLen {
		n := binary.BigEndian.Uint32(in[1:])
		if n < 4 || n > maxMessage || int(n)+1 > len(in) {
			break
		}
		out = append(out, in[:n+1])
		in = in[n+1:]
	}
	return out
}
