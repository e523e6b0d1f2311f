package idempotency

import (
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
)

// HeaderName is the header that carries a client's key.
const HeaderName = "Idempotency-Key"

// ReplayedHeader is set to "true" on answers that were recorded before.
const ReplayedHeader = "Idempotency-Replayed"

// ParseHeader reads the key out of a header. The draft wants a string of RFC
// 9651, in double quotes; most clients send the bare text, which is taken too
// and means the same key. It returns "" if there is no such header, and
// store.ErrInvalid for one that is there twice or makes no sense.
func ParseHeader(h http.Header, name string) (string, error) {
	lines := h.Values(name)
	if len(lines) == 0 {
		return "", nil
	}
	bad := func(why string) error { return &store.InvalidError{Op: "read request", What: name, Why: why} }
	if len(lines) > 1 {
		return "", bad("it occurs more than once")
	}
	text := strings.Trim(lines[0], " \t")
	if strings.HasPrefix(text, `"`) {
		var ok bool
		if text, ok = unquote(text); !ok {
			return "", bad(`a quoted string is needed, with nothing but \" and \\ escaped`)
		}
	}
	if text == "" || len(text) > maxName {
		return "", bad("1 to 255 characters are needed")
	}
	for i := range len(text) {
		if text[i] < 0x20 || text[i] > 0x7e {
			return "", bad("only printable ASCII characters are allowed")
		}
	}
	return text, nil
}

// unquote reads a string of RFC 9651, section 4.2.5. Parameters after it are
// refused: the draft defines none.
func unquote(text string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), i == len(text)-1
		case '\\':
			i++
			if i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", false
			}
		}
		b.WriteByte(text[i])
	}
	return "", false
}
