package httpcond

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
)

// ETag is an entity tag (RFC 9110, section 8.8.3). The zero value is none.
type ETag struct {
	// Opaque is the text between the quotes.
	Opaque string
	// Weak says that states that differ in small things may share the tag.
	Weak bool
}

// String is the tag as a header has it; empty for none.
func (t ETag) String() string {
	switch {
	case t == ETag{}:
		return ""
	case t.Weak:
		return `W/"` + t.Opaque + `"`
	}
	return `"` + t.Opaque + `"`
}

// StrongMatch is strong comparison: both strong, and the same text. It is for
// writes, which must not be based on "nearly the same".
func (t ETag) StrongMatch(o ETag) bool {
	return t != ETag{} && !t.Weak && !o.Weak && t.Opaque == o.Opaque
}

// WeakMatch is weak comparison: the same text. It is for caches.
func (t ETag) WeakMatch(o ETag) bool {
	return t != ETag{} && o != ETag{} && t.Opaque == o.Opaque
}

// escaped marks a version that is not spelled as it is, because it has
// characters that a tag must not have.
const escaped = "~"

// FromVersion spells a version as a strong tag; an empty version is no tag.
func FromVersion(v store.Version) ETag {
	text := string(v)
	if text == "" {
		return ETag{}
	}
	plain := !strings.HasPrefix(text, escaped)
	for i := 0; i < len(text) && plain; i++ {
		plain = tagByte(text[i]) && text[i] < 0x7f
	}
	if !plain {
		text = escaped + base64.RawURLEncoding.EncodeToString([]byte(text))
	}
	return ETag{Opaque: text}
}

// Version is the version that [FromVersion] spelled. ok is false for a weak tag,
// for none, and for a text that FromVersion does not write.
func (t ETag) Version() (v store.Version, ok bool) {
	if t.Weak || t.Opaque == "" {
		return "", false
	}
	text, coded := strings.CutPrefix(t.Opaque, escaped)
	if !coded {
		return store.Version(text), true
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	return store.Version(b), err == nil && len(b) > 0
}

// tagByte says whether a tag may hold b: visible ASCII except the quote, and
// everything above ASCII.
func tagByte(b byte) bool { return b == 0x21 || b >= 0x23 && b <= 0x7e || b >= 0x80 }

// List is the value of If-Match or If-None-Match: "*", or tags.
type List struct {
	Any  bool
	Tags []ETag
}

// ParseETag reads one tag.
func ParseETag(s string) (ETag, error) {
	t, rest, err := scanTag(strings.Trim(s, " \t"))
	if err == nil && rest != "" {
		err = fmt.Errorf("there is %q behind the tag", rest)
	}
	return t, err
}

// ParseList reads the lines of one header. Empty list elements are allowed
// (RFC 9110, section 5.6.1.2), a list without any tag is not.
func ParseList(lines []string) (List, error) {
	rest := strings.Trim(strings.Join(lines, ","), " \t")
	if rest == "*" {
		return List{Any: true}, nil
	}
	var l List
	for {
		rest = strings.TrimLeft(rest, " \t,")
		if rest == "" {
			break
		}
		t, after, err := scanTag(rest)
		if err != nil {
			return List{}, err
		}
		l.Tags = append(l.Tags, t)
		rest = strings.TrimLeft(after, " \t")
		if rest != "" && rest[0] != ',' {
			return List{}, fmt.Errorf("a comma is missing before %q", rest)
		}
	}
	if len(l.Tags) == 0 {
		return List{}, fmt.Errorf("there is no tag in it")
	}
	return l, nil
}

func scanTag(s string) (t ETag, rest string, err error) {
	text, weak := strings.CutPrefix(s, "W/")
	if !strings.HasPrefix(text, `"`) {
		return ETag{}, "", fmt.Errorf("a tag is text between double quotes, not %q", s)
	}
	end := strings.IndexByte(text[1:], '"')
	if end < 0 {
		return ETag{}, "", fmt.Errorf("the closing quote of %q is missing", s)
	}
	opaque := text[1 : 1+end]
	for i := range len(opaque) {
		if !tagByte(opaque[i]) {
			return ETag{}, "", fmt.Errorf("the tag %q has a character that a tag must not have", opaque)
		}
	}
	return ETag{Opaque: opaque, Weak: weak}, text[end+2:], nil
}

// matches says whether the list names the current state.
func (l List) matches(cur Current, same func(a, b ETag) bool) bool {
	if l.Any {
		return cur.Exists
	}
	for _, t := range l.Tags {
		if cur.Exists && same(cur.Tag(), t) {
			return true
		}
	}
	return false
}
