package document_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/document"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
	"github.com/holdfast-dev/holdfast/store/mem"
)

type prefs struct {
	Theme  string         `json:"theme"`
	Snooze int            `json:"snooze"`
	Tags   []string       `json:"tags,omitempty"`
	Sub    map[string]int `json:"sub,omitempty"`
}

// both runs a test on a collection in a store and on one in files.
func both(t *testing.T, opts document.Options, f func(t *testing.T, c *document.Collection[prefs])) {
	t.Run("store", func(t *testing.T) {
		opts.Prefix = "prefs"
		c, err := document.New[prefs](store.New(mem.New(), store.Options{}), opts)
		if err != nil {
			t.Fatal(err)
		}
		f(t, c)
	})
	t.Run("files", func(t *testing.T) {
		c, err := document.JSONFile[prefs](t.TempDir(), opts)
		if err != nil {
			t.Fatal(err)
		}
		f(t, c)
	})
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestHappyPath(t *testing.T) {
	both(t, document.Options{}, func(t *testing.T, c *document.Collection[prefs]) {
		ctx := t.Context()
		if _, _, err := c.Load(ctx, "ann"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("load of nothing: %v", err)
		}
		etag := must[document.ETag](t)(c.Create(ctx, "ann", prefs{Theme: "<dark>"}))
		if _, err := c.Create(ctx, "ann", prefs{}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("create again: %v", err)
		}
		value, loaded, err := c.Load(ctx, "ann")
		if err != nil || value.Theme != "<dark>" || loaded != etag {
			t.Fatalf("load: %+v, %v (created %v), %v", value, loaded, etag, err)
		}
		value.Snooze = 5
		second := must[document.ETag](t)(c.Save(ctx, "ann", value, document.ParseETag(loaded.String())))
		var conflict *store.ConflictError
		if _, err := c.Save(ctx, "ann", value, etag); !errors.As(err, &conflict) || string(conflict.Found) != second.String() {
			t.Errorf("save with an old ETag: %v", err)
		}
		got, last, err := c.Update(ctx, "ann", func(p *prefs) error { p.Tags = append(p.Tags, "x"); return nil })
		if err != nil || !reflect.DeepEqual(got, prefs{Theme: "<dark>", Snooze: 5, Tags: []string{"x"}}) {
			t.Errorf("update: %+v, %v", got, err)
		}
		for id, err := range c.IDs(ctx) {
			if id != "ann" || err != nil {
				t.Errorf("id %q, %v", id, err)
			}
		}
		if err := c.Delete(ctx, "ann", second); !errors.Is(err, store.ErrConflict) {
			t.Errorf("delete with an old ETag: %v", err)
		}
		if err := c.Delete(ctx, "ann", last); err != nil {
			t.Error(err)
		}
		if _, _, err := c.Load(ctx, "ann"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("load after delete: %v", err)
		}
	})
}

func TestEmptyETagIsRefused(t *testing.T) {
	both(t, document.Options{}, func(t *testing.T, c *document.Collection[prefs]) {
		must[document.ETag](t)(c.Create(t.Context(), "ann", prefs{Theme: "dark"}))
		if _, err := c.Save(t.Context(), "ann", prefs{}, document.ETag{}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("save: %v", err)
		}
		if err := c.Delete(t.Context(), "ann", document.ETag{}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("delete: %v", err)
		}
	})
}

// The ETag is neither in the value nor in what is stored: two loads of equal
// values are equal although their ETags differ.
func TestETagIsNotPartOfTheValue(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	c := must[*document.Collection[prefs]](t)(document.New[prefs](s, document.Options{Prefix: "p"}))
	ctx := t.Context()
	etag := must[document.ETag](t)(c.Create(ctx, "a", prefs{Theme: "dark"}))
	first, _, _ := c.Load(ctx, "a")
	must[document.ETag](t)(c.Save(ctx, "a", first, etag))
	second, after, _ := c.Load(ctx, "a")
	if !reflect.DeepEqual(first, second) || etag == after {
		t.Errorf("%+v with %v, then %+v with %v", first, etag, second, after)
	}
	item := must[store.Item](t)(s.Get(ctx, "p/a"))
	if want := `{"theme":"dark","snooze":0}`; string(item.Value) != want {
		t.Errorf("stored %s, want %s", item.Value, want)
	}
}

// Eight writers on one document: every change is in the result.
func TestParallelUpdates(t *testing.T) {
	const writers, each = 8, 12
	both(t, document.Options{CreateMissing: true, Logger: slog.New(slog.DiscardHandler),
		Retry: store.Retry{Attempts: store.UntilDeadline, Cap: 20 * time.Millisecond}}, func(t *testing.T, c *document.Collection[prefs]) {
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					if _, _, err := c.Update(t.Context(), "hot", func(p *prefs) error { p.Snooze++; return nil }); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		if got, _, err := c.Load(t.Context(), "hot"); err != nil || got.Snooze != writers*each {
			t.Errorf("%d of %d changes are there, %v", got.Snooze, writers*each, err)
		}
	})
}

// A race lost in the first attempt: the change runs again on the fresh value,
// both changes are there, and one INFO line says so.
func TestLostRaceThenRetry(t *testing.T) {
	var logged bytes.Buffer
	opts := document.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil)), Retry: store.Retry{Base: time.Microsecond}}
	both(t, opts, func(t *testing.T, c *document.Collection[prefs]) {
		logged.Reset()
		ctx := t.Context()
		etag := must[document.ETag](t)(c.Create(ctx, "ann", prefs{}))
		calls := 0
		got, _, err := c.Update(ctx, "ann", func(p *prefs) error {
			if calls++; calls == 1 {
				must[document.ETag](t)(c.Save(ctx, "ann", prefs{Theme: "theirs"}, etag))
			}
			p.Snooze = 7
			return nil
		})
		if err != nil || calls != 2 || got.Theme != "theirs" || got.Snooze != 7 {
			t.Errorf("%+v after %d calls, %v", got, calls, err)
		}
		if n := strings.Count(logged.String(), "level=INFO"); n != 1 || strings.Contains(logged.String(), "level=WARN") {
			t.Errorf("logged:\n%s", &logged)
		}
	})
}

// disturb makes every attempt lose: it changes the document during each.
func disturb(t *testing.T, c *document.Collection[prefs], calls *int) func(*prefs) error {
	return func(p *prefs) error {
		*calls++
		now, etag, err := c.Load(t.Context(), "ann")
		if err != nil {
			return err
		}
		now.Snooze = -*calls
		if _, err := c.Save(t.Context(), "ann", now, etag); err != nil {
			return err
		}
		p.Theme = fmt.Sprintf("mine %d", *calls)
		return nil
	}
}

// The ETag changes at every read: five attempts, a typed error with the last
// conflict, four INFO lines and one WARN, nothing written.
func TestExhaustion(t *testing.T) {
	var logged bytes.Buffer
	opts := document.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil)), Retry: store.Retry{Base: time.Microsecond}}
	both(t, opts, func(t *testing.T, c *document.Collection[prefs]) {
		logged.Reset()
		must[document.ETag](t)(c.Create(t.Context(), "ann", prefs{}))
		calls := 0
		got, etag, err := c.Update(t.Context(), "ann", disturb(t, c, &calls))
		var exhausted *store.ExhaustedError
		var conflict *store.ConflictError
		if !errors.As(err, &exhausted) || !errors.As(err, &conflict) || exhausted.Attempts != 5 || calls != 5 {
			t.Errorf("%v after %d calls", err, calls)
		}
		if !reflect.DeepEqual(got, prefs{}) || etag != (document.ETag{}) {
			t.Errorf("returned %+v, %v beside the error", got, etag)
		}
		if i, w := strings.Count(logged.String(), "level=INFO"), strings.Count(logged.String(), "level=WARN"); i != 4 || w != 1 {
			t.Errorf("%d INFO and %d WARN lines:\n%s", i, w, &logged)
		}
		if now, _, _ := c.Load(t.Context(), "ann"); now.Theme != "" || now.Snooze != -5 {
			t.Errorf("stored %+v", now)
		}
	})
}

func TestBestEffort(t *testing.T) {
	var logged bytes.Buffer
	opts := document.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil)), Retry: store.Retry{Base: time.Microsecond}}
	both(t, opts, func(t *testing.T, c *document.Collection[prefs]) {
		logged.Reset()
		must[document.ETag](t)(c.Create(t.Context(), "ann", prefs{}))
		calls := 0
		best := c.UpdateBestEffort(t.Context(), "ann", disturb(t, c, &calls))
		if best.Saved || best.Value.Theme != "mine 5" || !errors.Is(best.Err, store.ErrConflict) || !strings.Contains(logged.String(), "level=WARN") {
			t.Errorf("%+v, logged:\n%s", best, &logged)
		}
		best = c.UpdateBestEffort(t.Context(), "ann", func(p *prefs) error { p.Theme = "saved"; return nil })
		if !best.Saved || best.Err != nil || best.Value.Theme != "saved" {
			t.Errorf("%+v", best)
		}
		best = c.UpdateBestEffort(t.Context(), "nobody", func(p *prefs) error { return nil })
		if best.Saved || !errors.Is(best.Err, store.ErrNotFound) {
			t.Errorf("%+v", best)
		}
	})
}

// Deleted between read and save.
func TestVanished(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	for _, policy := range []document.Vanished{document.VanishedConflict, document.VanishedRecreate} {
		both(t, document.Options{Vanished: policy, Logger: quiet}, func(t *testing.T, c *document.Collection[prefs]) {
			ctx := t.Context()
			etag := must[document.ETag](t)(c.Create(ctx, "ann", prefs{Theme: "dark"}))
			calls := 0
			_, _, err := c.Update(ctx, "ann", func(p *prefs) error {
				if calls++; calls == 1 {
					if err := c.Delete(ctx, "ann", etag); err != nil {
						return err
					}
				}
				p.Snooze = 1
				return nil
			})
			now, _, loadErr := c.Load(ctx, "ann")
			var gone *document.VanishedError
			switch policy {
			case document.VanishedConflict:
				if !errors.As(err, &gone) || !errors.Is(err, store.ErrConflict) || !errors.Is(loadErr, store.ErrNotFound) || calls != 1 {
					t.Errorf("%v after %d calls, then %+v %v", err, calls, now, loadErr)
				}
			case document.VanishedRecreate:
				if err != nil || loadErr != nil || now.Theme != "dark" || now.Snooze != 1 {
					t.Errorf("%v, then %+v %v", err, now, loadErr)
				}
			}
		})
	}
}

// silent is a store that does not say in a conflict whether the key was
// absent, as some remote ones.
type silent struct{ *mem.Backend }

func (s *silent) Put(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
	v, err := s.Backend.Put(ctx, req)
	var c *backend.ConflictError
	if errors.As(err, &c) {
		c.Absent = false
	}
	return v, err
}

// The store does not say that the document vanished; the read of the second
// attempt shows it, and the policy holds all the same.
func TestVanishedWithoutWord(t *testing.T) {
	for _, policy := range []document.Vanished{document.VanishedConflict, document.VanishedRecreate} {
		ctx := t.Context()
		c := must[*document.Collection[prefs]](t)(document.New[prefs](store.New(&silent{mem.New()}, store.Options{}), document.Options{
			Prefix: "p", Vanished: policy, CreateMissing: true, Retry: store.Retry{Base: 1}, Logger: slog.New(slog.DiscardHandler)}))
		etag := must[document.ETag](t)(c.Create(ctx, "ann", prefs{Theme: "dark"}))
		calls := 0
		_, _, err := c.Update(ctx, "ann", func(p *prefs) error {
			if calls++; calls == 1 {
				return c.Delete(ctx, "ann", etag)
			}
			return nil
		})
		var gone *document.VanishedError
		_, _, loadErr := c.Load(ctx, "ann")
		if policy == document.VanishedConflict && (!errors.As(err, &gone) || !errors.Is(loadErr, store.ErrNotFound)) {
			t.Errorf("conflict policy: %v, then %v", err, loadErr)
		}
		if policy == document.VanishedRecreate && (err != nil || loadErr != nil || calls != 2) {
			t.Errorf("recreate policy: %v after %d calls, then %v", err, calls, loadErr)
		}
	}
}

func TestChangeErrorWritesNothing(t *testing.T) {
	both(t, document.Options{CreateMissing: true}, func(t *testing.T, c *document.Collection[prefs]) {
		no := errors.New("no")
		if _, _, err := c.Update(t.Context(), "ann", func(p *prefs) error { return no }); !errors.Is(err, no) {
			t.Errorf("update: %v", err)
		}
		if _, _, err := c.Load(t.Context(), "ann"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("load: %v", err)
		}
	})
}

// A read that fails is not a missing document: nothing is created over it.
func TestFailedReadIsNotMissing(t *testing.T) {
	b := &unreadable{Backend: mem.New()}
	c := must[*document.Collection[prefs]](t)(document.New[prefs](store.New(b, store.Options{}), document.Options{Prefix: "p", CreateMissing: true}))
	must[document.ETag](t)(c.Create(t.Context(), "ann", prefs{Theme: "dark"}))
	b.away = true
	if _, _, err := c.Update(t.Context(), "ann", func(p *prefs) error { return nil }); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("update: %v", err)
	}
	b.away = false
	if got, _, err := c.Load(t.Context(), "ann"); err != nil || got.Theme != "dark" {
		t.Errorf("then %+v, %v", got, err)
	}
}

type unreadable struct {
	*mem.Backend
	away bool
}

func (u *unreadable) Get(ctx context.Context, key string) (backend.Item, error) {
	if u.away {
		return backend.Item{}, errors.New("away")
	}
	return u.Backend.Get(ctx, key)
}

func files(t *testing.T) (*document.Collection[prefs], string) {
	t.Helper()
	dir := t.TempDir()
	return must[*document.Collection[prefs]](t)(document.JSONFile[prefs](dir, document.Options{Logger: slog.New(slog.DiscardHandler)})), filepath.Join(dir, "ann.json")
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// Somebody edits the file between load and save: the save is refused. If they
// only reformat it, it is not.
func TestFileEditedByHand(t *testing.T) {
	c, path := files(t)
	ctx := t.Context()
	writeFile(t, path, `{"theme": "dark", "snooze": 1}`)
	value, etag, err := c.Load(ctx, "ann")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, `{"theme": "light", "snooze": 1}`)
	value.Snooze = 9
	if _, err := c.Save(ctx, "ann", value, etag); !errors.Is(err, store.ErrConflict) {
		t.Errorf("save over an edit: %v", err)
	}
	if got, _, _ := c.Load(ctx, "ann"); got.Theme != "light" || got.Snooze != 1 {
		t.Errorf("the edit became %+v", got)
	}
	writeFile(t, path, "{\n\t\"snooze\": 1,\n\t\"theme\": \"dark\"\n}\n")
	if _, err := c.Save(ctx, "ann", value, etag); err != nil {
		t.Errorf("save over a reformatted file: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("permissions became %v, %v", info.Mode(), err)
	}
}

// Fields that the program does not know survive, at every depth of objects.
func TestUnknownFieldsSurvive(t *testing.T) {
	c, path := files(t)
	writeFile(t, path, `{"theme":"dark","note":"by hand","big":9007199254740993,"sub":{"a":1}}`)
	if _, _, err := c.Update(t.Context(), "ann", func(p *prefs) error {
		p.Snooze = 5
		p.Sub["b"] = 2
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	data := must[[]byte](t)(os.ReadFile(path))
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		t.Fatal(err)
	}
	if want := `{"big":9007199254740993,"note":"by hand","snooze":5,"sub":{"a":1,"b":2},"theme":"dark"}`; compact.String() != want {
		t.Errorf("the file holds %s, want %s", &compact, want)
	}
}

func TestDamagedFileIsAnError(t *testing.T) {
	c, path := files(t)
	for _, text := range []string{"", "{", `{"theme":"a"} {"theme":"b"}`, "null x"} {
		writeFile(t, path, text)
		_, _, err := c.Load(t.Context(), "ann")
		var corrupt *store.CorruptError
		if !errors.As(err, &corrupt) || errors.Is(err, store.ErrNotFound) {
			t.Errorf("load of %q: %v", text, err)
		}
		if _, _, err := c.Update(t.Context(), "ann", func(p *prefs) error { return nil }); !errors.As(err, &corrupt) {
			t.Errorf("update of %q: %v", text, err)
		}
		if data := must[[]byte](t)(os.ReadFile(path)); string(data) != text {
			t.Errorf("the damaged file %q became %q", text, data)
		}
	}
}

func TestFileIDs(t *testing.T) {
	c, _ := files(t)
	for _, id := range []string{"", ".", "..", "../x", "a/b", ".hidden", "a b", strings.Repeat("x", 201)} {
		if _, err := c.Create(t.Context(), id, prefs{}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("create %q: %v", id, err)
		}
	}
}

func TestMerge(t *testing.T) {
	for name, c := range map[string]struct{ base, ours, theirs, want, clashes string }{
		"different keys":        {`{"a":1,"b":1}`, `{"a":2,"b":1}`, `{"a":1,"b":2}`, `{"a":2,"b":2}`, ""},
		"same change":           {`{"a":1}`, `{"a":2}`, `{"a":2}`, `{"a":2}`, ""},
		"nested":                {`{"a":{"x":1,"y":1}}`, `{"a":{"x":2,"y":1}}`, `{"a":{"x":1,"y":1,"z":3}}`, `{"a":{"x":2,"y":1,"z":3}}`, ""},
		"clash keeps theirs":    {`{"a":1,"b":1}`, `{"a":2,"b":2}`, `{"a":3,"b":1}`, `{"a":3,"b":2}`, "/a 1 2 3"},
		"delete and keep":       {`{"a":1,"b":1}`, `{"b":1}`, `{"a":1,"b":2}`, `{"b":2}`, ""},
		"delete against change": {`{"a":1}`, `{}`, `{"a":2}`, `{"a":2}`, "/a 1 - 2"},
		"both add":              {`{}`, `{"a":{"x":1}}`, `{"a":{"y":2}}`, `{"a":{"x":1,"y":2}}`, ""},
		"both add, differently": {`{}`, `{"a":1}`, `{"a":2}`, `{"a":2}`, "/a - 1 2"},
		"arrays are one unit":   {`{"a":[1]}`, `{"a":[1,2]}`, `{"a":[0,1]}`, `{"a":[0,1]}`, "/a [1] [1,2] [0,1]"},
		"null is a value":       {`{"a":null}`, `{}`, `{"a":null}`, `{}`, ""},
		"odd keys":              {`{"a/b~":1}`, `{"a/b~":2}`, `{"a/b~":3}`, `{"a/b~":3}`, "/a~1b~0 1 2 3"},
		"numbers as written":    {`{"a":1e400,"b":0}`, `{"a":1e400,"b":1}`, `{"a":1e400,"b":0,"c":9007199254740993}`, `{"a":1e400,"b":1,"c":9007199254740993}`, ""},
		"whole values":          {`1`, `2`, `3`, `3`, " 1 2 3"},
		"kind changes":          {`{"a":{}}`, `{"a":[]}`, `{"a":{"x":1}}`, `{"a":{"x":1}}`, `/a {} [] {"x":1}`},
	} {
		m, err := document.Merge([]byte(c.base), []byte(c.ours), []byte(c.theirs))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var clashes []string
		for _, k := range m.Conflicts {
			show := func(r json.RawMessage) string {
				if r == nil {
					return "-"
				}
				return string(r)
			}
			clashes = append(clashes, fmt.Sprintf("%s %s %s %s", k.Pointer, show(k.Base), show(k.Ours), show(k.Theirs)))
		}
		if string(m.JSON) != c.want || strings.Join(clashes, "; ") != c.clashes {
			t.Errorf("%s: %s with clashes %q, want %s with %q", name, m.JSON, clashes, c.want, c.clashes)
		}
	}
	if _, err := document.Merge([]byte(`{}`), []byte(`{`), []byte(`{}`)); err == nil {
		t.Error("broken JSON was merged")
	}
}

func ExampleCollection_Update() {
	ctx := context.Background()
	s := store.New(mem.New(), store.Options{})
	defer s.Close()
	type settings struct{ Theme string }
	c, err := document.New[settings](s, document.Options{Prefix: "settings", CreateMissing: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	value, _, err := c.Update(ctx, "ann", func(v *settings) error {
		v.Theme = "dark"
		return nil
	})
	fmt.Println(value.Theme, err)
	// Output: dark <nil>
}

func ExampleMerge() {
	base := []byte(`{"theme":"light","snooze":0}`)
	mine := []byte(`{"theme":"dark","snooze":0}`)
	stored := []byte(`{"theme":"light","snooze":30}`)
	m, err := document.Merge(base, mine, stored)
	fmt.Println(string(m.JSON), len(m.Conflicts), err)
	// Output: {"snooze":30,"theme":"dark"} 0 <nil>
}
