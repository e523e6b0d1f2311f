package postgres

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
)

// hexBytes is how much of an unreadable value is shown.
const hexBytes = 16

// values turns values of the wire, text or binary, into text for people.
type values struct {
	mu    sync.Mutex // pgtype.Map memoizes and is not safe for concurrent use
	types *pgtype.Map
}

func newValues() *values { return &values{types: pgtype.NewMap()} }

// cells decodes the kept rows of a result; a nil cell is NULL.
func (v *values) cells(r result) [][]*string {
	out := make([][]*string, len(r.rows))
	for i, row := range r.rows {
		out[i] = make([]*string, len(row.Values))
		for j, raw := range row.Values {
			if raw != nil {
				s := v.text(r.fields[j].oid, r.fields[j].format, raw)
				out[i][j] = &s
			}
		}
	}
	return out
}

// text is the value as the server would write it in text format, or the
// beginning of its bytes in hexadecimal where the type is not known.
func (v *values) text(oid uint32, format int16, raw []byte) string {
	if format == pgproto3.TextFormat {
		if utf8.Valid(raw) {
			return string(raw)
		}
		return hexOf(raw)
	}
	if s, ok := common(oid, raw); ok {
		return s
	}
	if s, ok := v.byType(oid, raw); ok {
		return s
	}
	return hexOf(raw)
}

// common handles the frequent types without the type map.
func common(oid uint32, raw []byte) (string, bool) {
	switch oid {
	case pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID, pgtype.NameOID,
		pgtype.JSONOID, pgtype.UnknownOID, pgtype.XMLOID:
		return string(raw), utf8.Valid(raw)
	case pgtype.JSONBOID:
		if len(raw) > 1 && raw[0] == 1 {
			return string(raw[1:]), utf8.Valid(raw)
		}
	case pgtype.BoolOID:
		if len(raw) == 1 {
			return map[bool]string{true: "t", false: "f"}[raw[0] != 0], true
		}
	case pgtype.ByteaOID:
		return hexOf(raw), true
	case pgtype.Float8OID:
		if len(raw) == 8 {
			return strconv.FormatFloat(math.Float64frombits(binary.BigEndian.Uint64(raw)), 'g', -1, 64), true
		}
	case pgtype.Float4OID:
		if len(raw) == 4 {
			return strconv.FormatFloat(float64(math.Float32frombits(binary.BigEndian.Uint32(raw))), 'g', -1, 32), true
		}
	case pgtype.OIDOID:
		if len(raw) == 4 {
			return strconv.FormatUint(uint64(binary.BigEndian.Uint32(raw)), 10), true
		}
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		return integer(raw)
	}
	return "", false
}

func integer(raw []byte) (string, bool) {
	var n int64
	switch len(raw) {
	case 2:
		n = int64(int16(binary.BigEndian.Uint16(raw)))
	case 4:
		n = int64(int32(binary.BigEndian.Uint32(raw)))
	case 8:
		n = int64(binary.BigEndian.Uint64(raw))
	default:
		return "", false
	}
	return strconv.FormatInt(n, 10), true
}

// byType goes through the type map: binary to a Go value to text.
func (v *values) byType(oid uint32, raw []byte) (string, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t, ok := v.types.TypeForOID(oid)
	if !ok {
		return "", false
	}
	x, err := t.Codec.DecodeValue(v.types, oid, pgtype.BinaryFormatCode, raw)
	if err != nil {
		return "", false
	}
	if a, ok := x.([]any); ok {
		x = pgtype.FlatArray[any](a)
	}
	b, err := v.types.Encode(oid, pgtype.TextFormatCode, x, nil)
	if err != nil || b == nil || !utf8.Valid(b) {
		return "", false
	}
	return trim(oid, string(b)), true
}

// trim takes off what the type map writes and the server does not.
func trim(oid uint32, s string) string {
	switch oid {
	case pgtype.TimeOID:
		if strings.Contains(s, ".") {
			return strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
	case pgtype.InetOID:
		if host, ok := strings.CutSuffix(s, "/32"); ok {
			return host
		}
		return strings.TrimSuffix(s, "/128")
	}
	return s
}

func hexOf(raw []byte) string {
	if len(raw) <= hexBytes {
		return `\x` + hex.EncodeToString(raw)
	}
	return `\x` + hex.EncodeToString(raw[:hexBytes]) + "… (" + strconv.Itoa(len(raw)) + " bytes)"
}
