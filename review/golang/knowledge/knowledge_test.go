package knowledge

import (
	"strings"
	"testing"
)

func TestFilesParse(t *testing.T) {
	names, err := Known()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 100 {
		t.Errorf("%d functions", len(names))
	}
	for _, n := range names {
		base, variant, _ := strings.Cut(n, "?")
		if variant == "" {
			if f := Lookup(n, func(string) bool { return false }); f == nil && !strings.Contains(n, "#") {
				t.Errorf("%s can not be looked up by its own name", n)
			}
			continue
		}
		found := false
		for _, v := range variants[base] {
			found = found || v == variant
		}
		if !found {
			t.Errorf("%s is a variant that nobody asks for", n)
		}
	}
}

func TestLookup(t *testing.T) {
	none := func(string) bool { return false }
	for _, c := range []struct {
		id, field, want string
	}{
		{"os.WriteFile", "", "os.WriteFile"},
		{"github.com/redis/go-redis/v9.cmdable.Get", "", "github.com/redis/go-redis#Get"},
		{"github.com/aws/aws-sdk-go-v2/service/s3.(*Client).PutObject", "", "github.com/aws/aws-sdk-go-v2/service/s3#PutObject"},
		{"github.com/aws/aws-sdk-go-v2/service/s3.(*Client).PutObject", "IfMatch", "github.com/aws/aws-sdk-go-v2/service/s3#PutObject?IfMatch"},
		{"github.com/google/renameio/v2.WriteFile", "", "github.com/google/renameio.WriteFile"},
		{"os.Getenv", "", ""},
	} {
		has := none
		if c.field != "" {
			has = func(f string) bool { return f == c.field }
		}
		got := ""
		if f := Lookup(c.id, has); f != nil {
			got = f.ID
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.id, got, c.want)
		}
	}
}
