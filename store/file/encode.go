package file

import (
	"encoding/hex"
	"strings"
)

// Each segment of a key (between slashes) is a directory, except the last,
// which is a file in one of 16 fan-out directories "=0" to "=f" chosen by a
// hash of its name. "running/7" is therefore "running/=x/7". Sixteen is a
// measured compromise: with 256, each sync touched other blocks of the file
// system and a replacement took a fifth longer.
//
// Names use only lower-case letters, digits, '-', '_' and '.', and no leading
// dot, so that they are safe on case-insensitive file systems and never meet a
// temporary name, "." or "..". An upper-case letter is '+' and its lower case;
// every other byte is '%' and two digits; the empty segment is "%" alone. A
// segment of chunkBytes or more is cut into directories that end in '~', which
// keeps names below 255 bytes.
const chunkBytes = 64

// split returns the directory and the name of the file of a key.
func split(key string) (dir, name string) {
	path := make([]byte, 0, len(key)+16)
	for {
		segment, rest, more := strings.Cut(key, "/")
		for len(segment) >= chunkBytes {
			path = append(appendEncoded(path, segment[:chunkBytes]), '~', '/')
			segment = segment[chunkBytes:]
		}
		if !more {
			name = encode(segment)
			break
		}
		path = append(appendEncoded(path, segment), '/')
		key = rest
	}
	sum := fnv1a(name)
	fold := byte(sum ^ sum>>8 ^ sum>>16 ^ sum>>24)
	path = append(path, '=', hexDigits[(fold^fold>>4)&15])
	return string(path), name
}

func fnv1a(s string) uint32 {
	sum := uint32(2166136261)
	for i := 0; i < len(s); i++ {
		sum = (sum ^ uint32(s[i])) * 16777619
	}
	return sum
}

func safe(c byte, i int) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' && i > 0
}

func encode(segment string) string {
	return string(appendEncoded(make([]byte, 0, len(segment)+8), segment))
}

func appendEncoded(out []byte, segment string) []byte {
	if segment == "" {
		return append(out, '%')
	}
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		switch {
		case safe(c, i):
			out = append(out, c)
		case c >= 'A' && c <= 'Z':
			out = append(out, '+', c+'a'-'A')
		default:
			out = append(out, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return out
}

const hexDigits = "0123456789abcdef"

// decode is the inverse of encode; ok is false for a name that encode does not
// make, which is then not ours.
func decode(name string) (segment string, ok bool) {
	if name == "%" {
		return "", true
	}
	plain := true
	for i := 0; i < len(name) && plain; i++ {
		plain = safe(name[i], i)
	}
	if plain {
		return name, name != ""
	}
	out := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '+' && i+1 < len(name) && name[i+1] >= 'a' && name[i+1] <= 'z':
			i++
			out = append(out, name[i]-'a'+'A')
		case c == '%' && i+2 < len(name):
			b, err := hex.DecodeString(name[i+1 : i+3])
			if err != nil {
				return "", false
			}
			out = append(out, b[0])
			i += 2
		default:
			out = append(out, c)
		}
	}
	segment = string(out)
	return segment, encode(segment) == name
}
