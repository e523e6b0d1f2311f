package document

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/atomicfile"
	"github.com/holdfast-dev/holdfast/store"
)

// JSONFile returns the collection of the files DIR/<id>.json, which people and
// other tools may edit as well. dir is created if it is absent.
//
// The ETag is the SHA-256 of the canonical JSON, so reformatting a file or
// reordering its keys is not a change. A save is refused when the content on
// disk is no longer what was read, and is durable when it returns. Fields that
// T does not know stay in the file, except inside arrays that the program
// changes. The processes that use the collection exclude each other by the
// lock file DIR/.holdfast.lock; ids consist of letters, digits, '.', '_' and
// '-', without a dot at the start.
func JSONFile[T any](dir string, opts Options) (*Collection[T], error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("new JSON file collection: %w", err)
	}
	// What killed writers of this collection left behind goes here.
	if _, err := atomicfile.Sweep(dir); err != nil {
		return nil, fmt.Errorf("new JSON file collection %s: %w", dir, err)
	}
	return newCollection[T](&inFiles{dir: dir}, opts), nil
}

type inFiles struct{ dir string }

const (
	lockName  = ".holdfast.lock"
	extension = ".json"
	maxID     = 200
)

func (f *inFiles) path(op, id string) (string, error) {
	ok := id != "" && len(id) <= maxID && id[0] != '.'
	for i := 0; i < len(id) && ok; i++ {
		c := id[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
	}
	if !ok {
		return "", &store.InvalidError{Op: op, What: fmt.Sprintf("document id %.60q", id),
			Why: fmt.Sprintf("it becomes a file name: 1 to %d letters, digits, '.', '_' or '-', no dot at the start", maxID)}
	}
	return filepath.Join(f.dir, id+extension), nil
}

// canonical parses and re-encodes JSON: keys sorted, no spaces, numbers as
// they were written.
func canonical(raw []byte) ([]byte, error) {
	value, err := parse(raw)
	if err != nil {
		return nil, err
	}
	return encode("", value)
}

func hash(raw []byte) (string, error) {
	c, err := canonical(raw)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(c)
	return hex.EncodeToString(sum[:]), nil
}

func (f *inFiles) load(ctx context.Context, id string) ([]byte, string, error) {
	path, err := f.path("load document", id)
	if err != nil {
		return nil, "", err
	}
	if ctx.Err() != nil {
		return nil, "", fmt.Errorf("load document %q: %w", id, context.Cause(ctx))
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", &store.NotFoundError{Key: id}
	}
	if err != nil {
		return nil, "", fmt.Errorf("load document %q: %w", id, err)
	}
	// An empty or half-written file of another tool is an error, not a
	// document without content.
	tag, err := hash(raw)
	if err != nil {
		return nil, "", &store.CorruptError{Key: id, Why: err.Error() + ", file " + path}
	}
	return raw, tag, nil
}

// pretty is how files are written: for people.
func pretty(raw []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func (f *inFiles) create(ctx context.Context, id string, raw []byte) (string, error) {
	path, err := f.path("create document", id)
	if err != nil {
		return "", err
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("create document %q: %w", id, context.Cause(ctx))
	}
	data, err := pretty(raw)
	if err != nil {
		return "", fmt.Errorf("create document %q: %w", id, err)
	}
	err = atomicfile.Create(path, data, atomicfile.Options{Perm: 0o644})
	if errors.Is(err, fs.ErrExist) {
		return "", &store.ConflictError{Op: "create document", Key: id, Wanted: store.CreateOnly()}
	}
	if err != nil {
		return "", outcome("create document", id, store.CreateOnly(), err)
	}
	return hash(raw)
}

// outcome tells a write that is visible but not synced from one that did not
// happen.
func outcome(op, id string, cond store.Condition, err error) error {
	var undurable *atomicfile.NotDurableError
	if errors.As(err, &undurable) {
		return &store.UnknownOutcomeError{Op: op, Key: id, Cond: cond, Undurable: true, Err: err}
	}
	return fmt.Errorf("%s %q: nothing was written: %w", op, id, err)
}

// current loads and compares with the wanted tag.
func (f *inFiles) current(ctx context.Context, op, id, tag string) ([]byte, error) {
	raw, found, err := f.load(ctx, id)
	wanted := store.IfVersion(store.Version(tag))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, &store.ConflictError{Op: op, Key: id, Wanted: wanted, Absent: true}
	case err != nil:
		return nil, err
	case found != tag:
		return nil, &store.ConflictError{Op: op, Key: id, Wanted: wanted, Found: store.Version(found)}
	}
	return raw, nil
}

// save writes the new file beside the old one before it takes the lock, so
// that the lock is held only around compare and rename.
func (f *inFiles) save(ctx context.Context, id string, raw []byte, tag string, known func([]byte) ([]byte, error)) (string, error) {
	const op = "save document"
	path, err := f.path(op, id)
	if err != nil {
		return "", err
	}
	stored, err := f.current(ctx, op, id, tag)
	if err != nil {
		return "", err
	}
	if raw, err = keepUnknown(stored, raw, known); err != nil {
		return "", fmt.Errorf("save document %q: nothing was written: %w", id, err)
	}
	data, err := pretty(raw)
	if err != nil {
		return "", fmt.Errorf("save document %q: nothing was written: %w", id, err)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &store.ConflictError{Op: op, Key: id, Wanted: store.IfVersion(store.Version(tag)), Absent: true}
	}
	if err != nil {
		return "", fmt.Errorf("save document %q: nothing was written: %w", id, err)
	}
	temp, err := atomicfile.Prepare(f.dir, data, atomicfile.Options{Perm: info.Mode().Perm()})
	if err != nil {
		return "", fmt.Errorf("save document %q: nothing was written: %w", id, err)
	}
	defer temp.Discard()
	if err := f.locked(ctx, op, id, tag, func() error { return temp.Replace(path) }); err != nil {
		return "", err
	}
	if err := atomicfile.SyncDir(f.dir); err != nil {
		return "", outcome(op, id, store.IfVersion(store.Version(tag)), err)
	}
	return hash(raw)
}

// locked runs f under the collection's lock if the document still has tag.
func (f *inFiles) locked(ctx context.Context, op, id, tag string, do func() error) error {
	unlock, err := atomicfile.Lock(ctx, filepath.Join(f.dir, lockName))
	if err != nil {
		return fmt.Errorf("%s %q: nothing was written: %w", op, id, err)
	}
	defer unlock()
	if _, err := f.current(ctx, op, id, tag); err != nil {
		return err
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s %q: nothing was written: %w", op, id, err)
	}
	return nil
}

func (f *inFiles) remove(ctx context.Context, id, tag string) error {
	const op = "delete document"
	path, err := f.path(op, id)
	if err != nil {
		return err
	}
	if err := f.locked(ctx, op, id, tag, func() error { return os.Remove(path) }); err != nil {
		return err
	}
	if err := atomicfile.SyncDir(f.dir); err != nil {
		return outcome(op, id, store.IfVersion(store.Version(tag)), err)
	}
	return nil
}

func (f *inFiles) ids(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		entries, err := os.ReadDir(f.dir)
		if err != nil {
			yield("", fmt.Errorf("list documents in %s: %w", f.dir, err))
			return
		}
		var ids []string
		for _, e := range entries {
			id, isJSON := strings.CutSuffix(e.Name(), extension)
			if _, err := f.path("list", id); isJSON && err == nil && !e.IsDir() {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		for _, id := range ids {
			if ctx.Err() != nil {
				yield("", fmt.Errorf("list documents in %s: %w", f.dir, context.Cause(ctx)))
				return
			}
			if !yield(id, nil) {
				return
			}
		}
	}
}

func (f *inFiles) retry(ctx context.Context, id string, r store.Retry, attempt func(context.Context) error) error {
	return store.RunRetry(ctx, id, r, nil, attempt)
}

// keepUnknown carries over from the stored JSON what the program's type does
// not know. Where the two differ in what the type does know (a field that the
// file leaves out and the type spells as zero), the program's value counts.
func keepUnknown(stored, ours []byte, known func([]byte) ([]byte, error)) ([]byte, error) {
	base, err := known(stored)
	if err != nil {
		return nil, err
	}
	a, errA := canonical(base)
	b, errB := canonical(stored)
	if err := errors.Join(errA, errB); err != nil || bytes.Equal(a, b) {
		return ours, err
	}
	m, err := merge3(base, ours, stored, preferOurs)
	return m.JSON, err
}
