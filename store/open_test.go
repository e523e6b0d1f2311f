package store_test

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/mem"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for rawURL, name := range map[string]string{
		"mem:": "mem", "MEM://": "mem",
		"file://" + dir + "/a": "file", "file:b/c": "file", "file://localhost" + dir + "/d%20e": "file",
		"sqlite://" + dir + "/s.db": "sqlite", "sqlite:t.db": "sqlite",
		"own:": "mem",
	} {
		s, err := store.Open(t.Context(), rawURL, store.WithScheme("own", func(context.Context, *url.URL) (store.Backend, error) { return mem.New(), nil }))
		if err != nil {
			t.Errorf("%s: %v", rawURL, err)
			continue
		}
		if got := s.Capabilities().Name; got != name {
			t.Errorf("%s opened %s, want %s", rawURL, got, name)
		}
		if _, err := s.Put(t.Context(), "k", []byte("v"), store.CreateOnly()); err != nil {
			t.Errorf("%s: %v", rawURL, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", rawURL, err)
		}
	}
	for _, made := range []string{"a/format", "b/c/format", "d e/format", "s.db", "t.db"} {
		if found, _ := filepath.Glob(filepath.Join(dir, made)); len(found) != 1 {
			t.Errorf("%s was not made", made)
		}
	}
}

func TestOpenBadURL(t *testing.T) {
	for rawURL, says := range map[string]string{
		"":                               "scheme",
		"/var/lib/app":                   "scheme",
		"s3://bucket":                    `"s3" is none of file:, mem:, postgres:, postgresql:, sqlite:`,
		"file://var/lib/app":             `"var" stands where the host is`,
		"file:":                          "needs a path",
		"sqlite:///x.db?mode=memory":     `parameter "mode" is unknown`,
		"mem://name":                     "no name",
		"file:///a%zz":                   "not a URL",
		"postgres:db":                    "two slashes",
		"postgres://u:secret@h:bad/x":    "not a URL",
		"postgres://u:secret@h/x?port=x": "port",
	} {
		_, err := store.Open(t.Context(), rawURL)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("open %q: %v, want an invalid-argument error that says %q", rawURL, err, says)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("open %q: the message holds the password: %v", rawURL, err)
		}
	}
}
