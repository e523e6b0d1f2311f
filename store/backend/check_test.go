package backend_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// PrefixEnd is behind everything with the prefix and not behind anything
// greater without it.
func TestPrefixEnd(t *testing.T) {
	last := string(utf8.MaxRune)
	for prefix, want := range map[string]string{
		"": "", "a": "b", "a/": "a0", "ab": "ac", "z\x7f": "z\u0080", "\ud7ff": "\ue000", last: "", "a" + last: "b",
	} {
		got := backend.PrefixEnd(prefix)
		if got != want || !utf8.ValidString(got) {
			t.Errorf("PrefixEnd(%q) = %q, want %q", prefix, got, want)
		}
		for _, tail := range []string{"", "a", last, last + last} {
			if got != "" && prefix+tail >= got {
				t.Errorf("%q is not before the end %q of its prefix", prefix+tail, got)
			}
		}
	}
}

func FuzzPrefixEnd(f *testing.F) {
	f.Add("a/b", "c")
	f.Fuzz(func(t *testing.T, prefix, key string) {
		if !utf8.ValidString(prefix) || !utf8.ValidString(key) {
			return
		}
		end := backend.PrefixEnd(prefix)
		inRange := key >= prefix && (end == "" || key < end)
		if inRange != strings.HasPrefix(key, prefix) {
			t.Fatalf("prefix %q end %q key %q", prefix, end, key)
		}
	})
}
