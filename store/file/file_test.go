package file_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/atomicfile"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Main(m, func(ctx context.Context, url string) (*store.Store, error) { return store.Open(ctx, url) })
}

func open(t *testing.T, dir string) (*store.Store, *file.Backend) {
	t.Helper()
	b, err := file.Open(t.Context(), dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(b, store.Options{WatchInterval: 5 * time.Millisecond})
	t.Cleanup(func() { _ = s.Close() })
	return s, b
}

func TestConformance(t *testing.T) {
	s, _ := open(t, t.TempDir())
	storetest.Run(t, s)
}

func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	s, b := open(t, dir)
	storetest.RunProcesses(t, s, storetest.Processes{
		URL: "file://" + dir,
		Leftovers: func(ctx context.Context) ([]string, error) {
			n, err := b.Sweep(ctx)
			t.Logf("%d temporary files of killed writers were swept", n)
			return temps(t, dir), err
		},
	})
}

func temps(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && atomicfile.IsTemp(d.Name()) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Random keys over an awkward alphabet: listing agrees with a sorted set, for
// random prefixes and starts, across chunk boundaries and odd segments.
func TestListingAgainstSortedSet(t *testing.T) {
	s, _ := open(t, t.TempDir())
	ctx := t.Context()
	rng := rand.New(rand.NewPCG(1, 2))
	alphabet := []string{"a", "A", "/", "/", ".", "-", "0", "~", "%", "+", "é", strings.Repeat("x", 63), strings.Repeat("y", 64)}
	random := func(most int) string {
		var b strings.Builder
		for range 1 + rng.IntN(most) {
			b.WriteString(alphabet[rng.IntN(len(alphabet))])
		}
		return b.String()
	}
	set := map[string]bool{}
	for len(set) < 400 {
		key := random(7)
		if len(key) > 512 {
			continue
		}
		if _, err := s.Put(ctx, key, []byte(key), store.None()); err != nil {
			t.Fatal(err)
		}
		set[key] = true
	}
	for range 150 {
		opts := store.ListOptions{Detail: store.Values}
		if rng.IntN(3) > 0 {
			opts.Prefix = random(3)
		}
		if rng.IntN(2) == 0 {
			opts.After = random(4)
		}
		if len(opts.Prefix) > 512 {
			continue
		}
		var want, got []string
		for key := range set {
			if strings.HasPrefix(key, opts.Prefix) && key > opts.After {
				want = append(want, key)
			}
		}
		slices.Sort(want)
		for item, err := range s.List(ctx, opts) {
			if err != nil {
				t.Fatal(err)
			}
			if string(item.Value) != item.Key {
				t.Fatalf("key %q carries the value of %q", item.Key, item.Value)
			}
			got = append(got, item.Key)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("prefix %q after %q:\ngot  %q\nwant %q", opts.Prefix, opts.After, got, want)
		}
	}
}

// A damaged file is an error that names it, never "absent" and never a value.
func TestDamageIsNoticed(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	ctx := t.Context()
	if _, err := s.Put(ctx, "k", bytes.Repeat([]byte("v"), 100), store.None()); err != nil {
		t.Fatal(err)
	}
	var path string
	_ = filepath.WalkDir(filepath.Join(dir, "keys"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path = p
		}
		return err
	})
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{"empty": nil, "cut": data[:len(data)-1], "changed": append(data[:len(data)-1:len(data)-1], 'w')} {
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := s.Get(ctx, "k")
		var corrupt *store.CorruptError
		if !errors.As(err, &corrupt) || corrupt.Key != "k" {
			t.Errorf("%s file: get gave %v", name, err)
		}
	}
}

func TestForeignDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letter.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Open(t.Context(), dir, file.Options{}); err == nil || !strings.Contains(err.Error(), "letter.txt") {
		t.Errorf("a directory with other content: %v", err)
	}
	newer := t.TempDir()
	if err := os.WriteFile(filepath.Join(newer, "format"), []byte("holdfast file store 9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Open(t.Context(), newer, file.Options{}); err == nil || !strings.Contains(err.Error(), "store 9") {
		t.Errorf("a newer layout: %v", err)
	}
}

// While another process holds the lock, a writer of that slot ends with its
// context, having written nothing; readers and creators go on.
func TestDeadlineWhileLocked(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	ctx := t.Context()
	v, err := s.Put(ctx, "k", []byte("one"), store.None())
	if err != nil {
		t.Fatal(err)
	}
	for n := range 256 {
		unlock, err := atomicfile.Lock(ctx, filepath.Join(dir, "locks", fmt.Sprintf("%02x", n)))
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = s.Put(short, "k", []byte("two"), store.IfVersion(v))
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("replace under a foreign lock: %v", err)
	}
	if err := s.Delete(short, "k", store.None()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("delete under a foreign lock: %v", err)
	}
	if item, err := s.Get(ctx, "k"); err != nil || string(item.Value) != "one" {
		t.Errorf("get under a foreign lock: %q, %v", item.Value, err)
	}
	if _, err := s.Put(ctx, "other", nil, store.CreateOnly()); err != nil {
		t.Errorf("create under a foreign lock: %v", err)
	}
	if left := temps(t, dir); len(left) > 0 {
		t.Errorf("temporary files are left: %q", left)
	}
}
