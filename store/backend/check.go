package backend

import (
	"fmt"
	"unicode/utf8"
)

// CheckKey returns *InvalidError unless key is valid UTF-8 of 1 to MaxKeyBytes
// bytes without control characters. Control characters are out because XML
// listings and SQL text types do not carry all of them.
func CheckKey(op, key string) error {
	if key == "" {
		return &InvalidError{Op: op, What: "key", Why: "it is empty"}
	}
	if len(key) > MaxKeyBytes {
		return &InvalidError{Op: op, What: fmt.Sprintf("key %.40q…", key),
			Why: fmt.Sprintf("it has %d bytes, the limit is %d", len(key), MaxKeyBytes)}
	}
	return checkText(op, "key", key)
}

// CheckPrefix is CheckKey for prefixes, which may be empty.
func CheckPrefix(op, prefix string) error {
	if len(prefix) > MaxKeyBytes {
		return &InvalidError{Op: op, What: fmt.Sprintf("prefix %.40q…", prefix),
			Why: fmt.Sprintf("it has %d bytes, the limit is %d", len(prefix), MaxKeyBytes)}
	}
	return checkText(op, "prefix", prefix)
}

func checkText(op, what, s string) error {
	ascii := true
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < 0x20 || c == 0x7f {
			return &InvalidError{Op: op, What: fmt.Sprintf("%s %q", what, s),
				Why: fmt.Sprintf("it has the control character %#x at byte %d", c, i)}
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	if !ascii && !utf8.ValidString(s) {
		return &InvalidError{Op: op, What: fmt.Sprintf("%s %q", what, s), Why: "it is not valid UTF-8"}
	}
	return nil
}

// CheckCondition refuses an empty version and a condition that e does not
// enforce.
func CheckCondition(name, op, key string, c Condition, e Enforced) error {
	if c.kind == KindIfVersion && c.version == "" {
		return &InvalidError{Op: op, What: fmt.Sprintf("if-version condition on %q", key),
			Why: "the version is empty; use the version of a read or a write, or CreateOnly for a key that must not exist"}
	}
	if !e.Has(c.kind) {
		return &UnsupportedError{Backend: name, Op: op, Cond: c.kind}
	}
	return nil
}

// PrefixEnd returns the first string, in byte order, behind all valid UTF-8
// strings that start with prefix; it is empty if there is none. It is valid
// UTF-8, so it can be sent to stores that check that.
func PrefixEnd(prefix string) string {
	for prefix != "" {
		r, n := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-n]
		if r < utf8.MaxRune {
			r++
			if r >= 0xd800 && r <= 0xdfff {
				r = 0xe000
			}
			return prefix + string(r)
		}
	}
	return ""
}
