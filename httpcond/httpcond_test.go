package httpcond_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/httpcond"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/mem"
)

func TestVersionsAndTags(t *testing.T) {
	for _, v := range []store.Version{"00ff", "a b", `say "hi"`, "~x", "é", "\x7f", "W/", "*"} {
		tag := httpcond.FromVersion(v)
		parsed, err := httpcond.ParseETag(tag.String())
		if err != nil || parsed != tag {
			t.Errorf("%q: tag %s read as %v, %v", v, tag, parsed, err)
		}
		if back, ok := parsed.Version(); !ok || back != v {
			t.Errorf("%q: tag %s names version %q, %v", v, tag, back, ok)
		}
	}
	if got := httpcond.FromVersion("").String(); got != "" {
		t.Errorf("an empty version has the tag %s", got)
	}
	for _, tag := range []httpcond.ETag{{}, {Opaque: "a", Weak: true}, {Opaque: "~%"}, {Opaque: "~"}} {
		if v, ok := tag.Version(); ok {
			t.Errorf("%v names version %q", tag, v)
		}
	}
}

// RFC 9110, section 8.8.3.2, has this table.
func TestComparison(t *testing.T) {
	for _, c := range []struct {
		a, b         string
		strong, weak bool
	}{
		{`W/"1"`, `W/"1"`, false, true},
		{`W/"1"`, `W/"2"`, false, false},
		{`W/"1"`, `"1"`, false, true},
		{`"1"`, `"1"`, true, true},
	} {
		a, _ := httpcond.ParseETag(c.a)
		b, _ := httpcond.ParseETag(c.b)
		if a.StrongMatch(b) != c.strong || a.WeakMatch(b) != c.weak || b.StrongMatch(a) != c.strong || b.WeakMatch(a) != c.weak {
			t.Errorf("%s and %s: strong %v, weak %v", c.a, c.b, a.StrongMatch(b), a.WeakMatch(b))
		}
	}
	if none := (httpcond.ETag{}); none.StrongMatch(none) || none.WeakMatch(none) {
		t.Error("no tag matches no tag")
	}
}

func TestLists(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  string // empty: malformed
	}{
		{[]string{`*`}, `{true []}`},
		{[]string{` "a" `}, `{false ["a"]}`},
		{[]string{`"a,b" , W/"c"`, `"d"`}, `{false ["a,b" W/"c" "d"]}`},
		{[]string{`,, "a",,"b",`}, `{false ["a" "b"]}`},
		{[]string{`""`}, `{false [""]}`},
		{[]string{``}, ""},
		{[]string{`a`}, ""},
		{[]string{`"a`}, ""},
		{[]string{`"a" "b"`}, ""},
		{[]string{`*, "a"`}, ""},
		{[]string{`w/"a"`}, ""},
		{[]string{`"a b"`}, ""},
	} {
		l, err := httpcond.ParseList(c.lines)
		got := fmt.Sprint(l)
		if err != nil {
			got = ""
		}
		// The tag of an empty text prints as none.
		if want := strings.ReplaceAll(c.want, `[""]`, `[]`); got != want {
			t.Errorf("%q: %s, %v, want %s", c.lines, got, err, c.want)
		}
	}
}

func FuzzParseList(f *testing.F) {
	f.Add(`"a", W/"b"`)
	f.Add(`*`)
	f.Fuzz(func(t *testing.T, line string) {
		l, err := httpcond.ParseList([]string{line})
		if err != nil {
			return
		}
		for _, tag := range l.Tags {
			if again, err := httpcond.ParseETag(tag.String()); tag.Opaque != "" && (err != nil || again != tag) {
				t.Fatalf("%q: %s is read as %v, %v", line, tag, again, err)
			}
		}
	})
}

var (
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 500, time.UTC)
	there = httpcond.Current{Exists: true, Version: "v1", LastModified: noon}
)

// The order of evaluation, and what counts (RFC 9110, section 13.2.2).
func TestCheck(t *testing.T) {
	at := noon.Format(http.TimeFormat)
	before := noon.Add(-time.Hour).Format(http.TimeFormat)
	absent := httpcond.Current{}
	for _, c := range []struct {
		method  string
		headers string // "Name: value|Name: value"
		cur     httpcond.Current
		want    httpcond.Outcome
	}{
		{"PUT", ``, there, httpcond.Proceed},
		{"PUT", `If-Match: "v1"`, there, httpcond.Proceed},
		{"PUT", `If-Match: "v0", "v1"`, there, httpcond.Proceed},
		{"PUT", `If-Match: "v0"`, there, httpcond.Failed},
		{"PUT", `If-Match: W/"v1"`, there, httpcond.Failed}, // strong comparison
		{"GET", `If-Match: "v0"`, there, httpcond.Failed},
		{"PUT", `If-Match: *`, there, httpcond.Proceed},
		{"PUT", `If-Match: *`, absent, httpcond.Failed},
		{"PUT", `If-Match: "v1"`, absent, httpcond.Failed},
		{"PUT", `If-None-Match: *`, there, httpcond.Failed},
		{"PUT", `If-None-Match: *`, absent, httpcond.Proceed},
		{"GET", `If-None-Match: "v1"`, there, httpcond.NotModified},
		{"HEAD", `If-None-Match: W/"v1"`, there, httpcond.NotModified}, // weak comparison
		{"DELETE", `If-None-Match: "v1"`, there, httpcond.Failed},
		{"GET", `If-None-Match: "v0"`, there, httpcond.Proceed},
		{"OPTIONS", `If-Match: "v0"`, there, httpcond.Proceed},
		// Tags decide; the dates beside them are ignored.
		{"PUT", `If-Match: "v1"|If-Unmodified-Since: ` + before, there, httpcond.Proceed},
		{"GET", `If-None-Match: "v0"|If-Modified-Since: ` + at, there, httpcond.Proceed},
		// Both kinds of tags: If-Match first.
		{"GET", `If-Match: "v0"|If-None-Match: "v1"`, there, httpcond.Failed},
		{"GET", `If-Match: "v1"|If-None-Match: "v1"`, there, httpcond.NotModified},
		{"PUT", `If-Unmodified-Since: ` + before, there, httpcond.Failed},
		{"PUT", `If-Unmodified-Since: ` + at, there, httpcond.Proceed},
		{"PUT", `If-Unmodified-Since: yesterday`, there, httpcond.Proceed},
		{"GET", `If-Modified-Since: ` + at, there, httpcond.NotModified},
		{"GET", `If-Modified-Since: ` + before, there, httpcond.Proceed},
		{"PUT", `If-Modified-Since: ` + at, there, httpcond.Proceed}, // for reads only
		{"GET", `If-Modified-Since: ` + at, httpcond.Current{Exists: true, Version: "v1"}, httpcond.Proceed},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		for h := range strings.SplitSeq(c.headers, "|") {
			if name, value, ok := strings.Cut(h, ": "); ok {
				r.Header.Add(name, value)
			}
		}
		p, err := httpcond.Parse(r)
		if err != nil {
			t.Errorf("%s %s: %v", c.method, c.headers, err)
			continue
		}
		if got, by := p.Check(c.cur); got != c.want {
			t.Errorf("%s %s: outcome %d (%s), want %d", c.method, c.headers, got, by, c.want)
		}
	}
}

// A malformed condition is no missing one: the write would be blind.
func TestMalformedIsRefused(t *testing.T) {
	for _, name := range []string{"If-Match", "If-None-Match"} {
		r := httptest.NewRequest("PUT", "/", nil)
		r.Header.Set(name, "v1")
		_, err := httpcond.Parse(r)
		var malformed *httpcond.HeaderError
		if !errors.As(err, &malformed) || malformed.Header != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestForWrite(t *testing.T) {
	condition := func(method, name, value string, require bool, cur httpcond.Current) (store.Condition, error) {
		r := httptest.NewRequest(method, "/", nil)
		if name != "" {
			r.Header.Set(name, value)
		}
		p, err := httpcond.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		if require {
			p = p.Require()
		}
		return p.ForWrite(cur)
	}
	at := noon.Format(http.TimeFormat)
	for _, c := range []struct {
		name, value string
		require     bool
		cur         httpcond.Current
		want        store.Condition
	}{
		{"If-Match", `"v1"`, true, there, store.IfVersion("v1")},
		// "*" and lists are tied to the state that was read.
		{"If-Match", `*`, true, there, store.IfVersion("v1")},
		{"If-Match", `"v0", "v1"`, true, there, store.IfVersion("v1")},
		{"If-None-Match", `*`, true, httpcond.Current{}, store.CreateOnly()},
		{"If-None-Match", `"v0"`, true, there, store.IfVersion("v1")},
		{"If-Unmodified-Since", at, false, there, store.IfVersion("v1")},
		{"", "", false, there, store.None()},
	} {
		got, err := condition("PUT", c.name, c.value, c.require, c.cur)
		if err != nil || got != c.want {
			t.Errorf("%s %s: %v, %v, want %v", c.name, c.value, got, err, c.want)
		}
	}
	_, err := condition("PUT", "If-Match", `"v0"`, true, there)
	var failed *httpcond.FailedError
	if !errors.As(err, &failed) || failed.ETag() != `"v1"` || !errors.Is(err, store.ErrConflict) {
		t.Errorf("a stale tag: %v", err)
	}
	for _, c := range [][2]string{{"", ""}, {"If-Unmodified-Since", at}} {
		_, err = condition("PUT", c[0], c[1], true, there)
		var required *httpcond.RequiredError
		if !errors.As(err, &required) {
			t.Errorf("required, with %q: %v", c[0], err)
		}
	}
}

func TestOf(t *testing.T) {
	failed := errors.New("no connection")
	for _, c := range []struct {
		err    error
		exists bool
		want   error
	}{{nil, true, nil}, {&store.NotFoundError{Key: "k"}, false, nil}, {failed, false, failed}} {
		cur, err := httpcond.Of(store.Item{Version: "v1"}, c.err)
		if cur.Exists != c.exists || !errors.Is(err, c.want) {
			t.Errorf("%v: %+v, %v", c.err, cur, err)
		}
	}
}

func TestRead(t *testing.T) {
	serve := func(headers ...string) *http.Response {
		r := httptest.NewRequest("GET", "/", nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", "text/plain")
		done, err := httpcond.Read(w, r, there)
		if err != nil {
			t.Fatal(err)
		}
		if !done {
			_, _ = io.WriteString(w, "body")
		}
		return w.Result()
	}
	first := serve()
	tag := first.Header.Get("ETag")
	if first.StatusCode != 200 || tag != `"v1"` || first.Header.Get("Last-Modified") == "" {
		t.Errorf("first: %d %v", first.StatusCode, first.Header)
	}
	second := serve("If-None-Match", tag)
	if second.StatusCode != 304 || second.Header.Get("ETag") != tag || second.Header.Get("Content-Type") != "" {
		t.Errorf("second: %d %v", second.StatusCode, second.Header)
	}
}

func TestRangeHolds(t *testing.T) {
	for value, want := range map[string]bool{
		"": true, `"v1"`: true, `W/"v1"`: false, `"v0"`: false, noon.Format(http.TimeFormat): true,
		noon.Add(time.Second).Format(http.TimeFormat): false, "nonsense": false,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		if value != "" {
			r.Header.Set("If-Range", value)
		}
		if got := httpcond.RangeHolds(r, there); got != want {
			t.Errorf("If-Range %s: %v", value, got)
		}
	}
}

// Thirty-two editors saw the same state and save at once, through real HTTP: one
// wins. If the handler compared tags and then wrote without a condition, several
// would.
func TestOneEditorWins(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	defer s.Close()
	arrived := make(chan struct{}, 32)
	all := make(chan struct{})
	put := func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		cur, err := httpcond.Of(s.Get(ctx, "doc"))
		p, perr := httpcond.Parse(r)
		if err := errors.Join(err, perr); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		cond, werr := p.Require().ForWrite(cur)
		if werr != nil {
			http.Error(w, werr.Error(), http.StatusPreconditionFailed)
			return
		}
		// Everybody has compared before anybody writes.
		arrived <- struct{}{}
		select {
		case <-all:
		case <-ctx.Done():
		}
		body, _ := io.ReadAll(r.Body)
		v, err := s.Put(ctx, "doc", body, cond)
		if err != nil {
			http.Error(w, err.Error(), http.StatusPreconditionFailed)
			return
		}
		w.Header().Set("ETag", httpcond.FromVersion(v).String())
	}
	srv := httptest.NewServer(http.HandlerFunc(put))
	defer srv.Close()
	v, err := s.Put(t.Context(), "doc", []byte("first"), store.CreateOnly())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var mu sync.Mutex
	answers := map[int]int{}
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			req, _ := http.NewRequestWithContext(ctx, "PUT", srv.URL, strings.NewReader(fmt.Sprint("editor ", i)))
			req.Header.Set("If-Match", httpcond.FromVersion(v).String())
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			mu.Lock()
			answers[resp.StatusCode]++
			mu.Unlock()
		})
	}
	for range 32 {
		select {
		case <-arrived:
		case <-ctx.Done():
			t.Fatal("the editors do not arrive")
		}
	}
	close(all)
	wg.Wait()
	if answers[200] != 1 || answers[412] != 31 {
		t.Errorf("answers: %v, want one 200 and 31 times 412", answers)
	}
}
