package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// entry is a file or a directory of the tree, under the part of the key that
// it stands for. A directory's part ends in "/" (next segment) or is the chunk
// of a long segment; all keys below start with it, and no other key does, so
// sorting entries by part sorts the keys.
type entry struct {
	part string
	path string
	dir  bool
}

// List implements backend.Backend.
func (b *Backend) List(ctx context.Context, req backend.ListRequest) iter.Seq2[backend.Item, error] {
	return func(yield func(backend.Item, error) bool) {
		w := walk{b: b, ctx: ctx, req: req, yield: yield}
		if err := w.tree(b.keys, ""); err != nil && !errors.Is(err, errStop) {
			yield(backend.Item{}, err)
		}
	}
}

var errStop = errors.New("the caller has enough")

type walk struct {
	b     *Backend
	ctx   context.Context
	req   backend.ListRequest
	yield func(backend.Item, error) bool
}

// wanted says whether keys that start with part can be in the listing.
func (w *walk) wanted(part string) bool {
	if !strings.HasPrefix(part, w.req.Prefix) && !strings.HasPrefix(w.req.Prefix, part) {
		return false
	}
	return part > w.req.After || strings.HasPrefix(w.req.After, part)
}

func (w *walk) tree(dir, part string) error {
	if err := w.b.usable(w.ctx, "list", w.req.Prefix); err != nil {
		return err
	}
	entries, err := w.entries(dir, part)
	if err != nil {
		return fmt.Errorf("list %q: %w", w.req.Prefix, err)
	}
	for i, e := range entries {
		if e.dir {
			if err := w.tree(e.path, e.part); err != nil {
				return err
			}
			continue
		}
		if i%1024 == 0 || w.req.Detail != backend.KeysOnly {
			if err := w.b.usable(w.ctx, "list", w.req.Prefix); err != nil {
				return err
			}
		}
		if err := w.file(e); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) file(e entry) error {
	if !strings.HasPrefix(e.part, w.req.Prefix) || e.part <= w.req.After {
		return nil
	}
	item := backend.Item{Key: e.part}
	p := place{key: e.part, path: e.path}
	var err error
	switch w.req.Detail {
	case backend.Versions:
		item.Version, err = version(p)
		item.Nonce = string(item.Version)
		if err == nil && item.Version == "" {
			return nil
		}
	case backend.Values:
		item, err = read(p)
		if errors.Is(err, backend.ErrNotFound) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	if !w.yield(item, nil) {
		return errStop
	}
	return nil
}

// entries returns what is below one key directory, in key order.
func (w *walk) entries(dir, part string) ([]entry, error) {
	names, err := readNames(dir)
	if err != nil {
		return nil, err
	}
	var out []entry
	for _, name := range names {
		if strings.HasPrefix(name, "=") {
			out, err = w.leaves(out, filepath.Join(dir, name), part)
			if err != nil {
				return nil, err
			}
			continue
		}
		chunk, isChunk := strings.CutSuffix(name, "~")
		segment, ok := decode(chunk)
		if !ok {
			continue
		}
		below := part + segment
		if !isChunk {
			below += "/"
		}
		if w.wanted(below) {
			out = append(out, entry{part: below, path: filepath.Join(dir, name), dir: true})
		}
	}
	slices.SortFunc(out, func(a, b entry) int { return cmp.Compare(a.part, b.part) })
	return out, nil
}

// leaves appends the files of one fan-out directory. Temporary names do not
// decode and are left out.
func (w *walk) leaves(out []entry, dir, part string) ([]entry, error) {
	names, err := readNames(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		segment, ok := decode(name)
		if !ok {
			continue
		}
		key := part + segment
		if strings.HasPrefix(key, w.req.Prefix) && key > w.req.After {
			out = append(out, entry{part: key, path: dir + string(filepath.Separator) + name})
		}
	}
	return out, nil
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}
