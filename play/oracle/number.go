package oracle

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// decimal writes a JSON number in one form for each value: 1, 1.0 and 10e-1 are
// all "1". Nothing is rounded. An exponent beyond 64 bits is left as it is.
func decimal(n string) string {
	s := strings.ToLower(n)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	mantissa, expText, _ := strings.Cut(s, "e")
	exp := int64(0)
	if expText != "" {
		e, err := strconv.ParseInt(expText, 10, 64)
		if err != nil || e > 1<<60 || e < -1<<60 {
			return n
		}
		exp = e
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	exp -= int64(len(frac))
	digits := strings.TrimLeft(whole+frac, "0")
	if digits == "" {
		return "0"
	}
	short := strings.TrimRight(digits, "0")
	exp += int64(len(digits) - len(short))
	if exp > 0 && exp <= 20 {
		return sign + short + strings.Repeat("0", int(exp))
	}
	if exp == 0 {
		return sign + short
	}
	if exp < 0 && exp >= -40 {
		if pad := int(-exp) - len(short); pad >= 0 {
			return sign + "0." + strings.Repeat("0", pad) + short
		}
		point := len(short) + int(exp)
		return sign + short[:point] + "." + short[point:]
	}
	return sign + short + "e" + strconv.FormatInt(exp, 10)
}

// parseJSON reads one JSON value and nothing behind it, numbers unrounded.
func parseJSON(s string) (any, error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

// isJSON tells whether a body is to be read as JSON.
func isJSON(contentType, body string) bool {
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	media = strings.TrimSpace(media)
	if media == "" {
		trimmed := strings.TrimLeft(body, " \t\r\n")
		return strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")
	}
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// canonicalJSON writes a parsed value with sorted keys and decimal numbers, as
// valid JSON.
func canonicalJSON(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case map[string]any:
		b.WriteByte('{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b.WriteByte(',')
			}
			quoted(b, k)
			b.WriteByte(':')
			canonicalJSON(b, v[k])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			canonicalJSON(b, e)
		}
		b.WriteByte(']')
	case json.Number:
		b.WriteString(decimal(v.String()))
	case string:
		quoted(b, v)
	case bool:
		b.WriteString(strconv.FormatBool(v))
	default:
		b.WriteString("null")
	}
}

func quoted(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	// A string can always be encoded; the encoder adds a line end.
	if err := e.Encode(s); err == nil {
		b.Truncate(b.Len() - 1)
	}
}

// canonicalBody is the form of a body that does not depend on how it was
// written: for JSON its value, for anything else its bytes.
func canonicalBody(contentType, body string) string {
	if !isJSON(contentType, body) {
		return body
	}
	v, err := parseJSON(body)
	if err != nil {
		return body
	}
	var b bytes.Buffer
	canonicalJSON(&b, v)
	return b.String()
}
