// Package file keeps a store in a directory of a local file system, shared by
// any number of processes of one machine.
//
// # Layout
//
//	DIR/format   names the layout, so that another directory is not taken for a store
//	DIR/locks/   256 lock files, which stay
//	DIR/keys/    one file per key, as an envelope of nonce, checksum and value
//
// Keys map to paths by their slashes; the files of a directory are spread over
// up to 16 fan-out directories, so that many keys under one prefix slow
// neither creation nor deletion down.
//
// # How a write becomes one step
//
// Create-only is link(2), which fails if the name exists: no lock, no reading.
// A replacement writes and syncs a temporary file first and takes a lock only
// around "read the version, compare, rename". A delete locks around "read,
// compare, unlink". The locks belong to 256 slots by a hash of the key and are
// released by the system when a process dies. The directory is synced before a
// write is acknowledged.
//
// A blind write takes the lock too when the key exists. Without it: X (if-version
// v) reads v; Y renames its blind write into place and is acknowledged; X
// renames over it. No order explains this: X must come before Y, because it met
// v, and after Y, because its value remains.
//
// # Limits
//
// A process that is stopped (SIGSTOP) inside the few microseconds of a lock
// holds up the writers of 1/256 of the keys until it goes on or their contexts
// end; readers and creators are never held up. A reader may see a value whose
// directory entry is not synced yet; its writer has then not been answered.
// Contexts are honoured between system calls and while waiting for a lock, but
// a system call that hangs in the kernel can not be left. A listing holds the
// names of one key directory in memory. Directories that became empty stay.
// Network file systems are not tested. Batches are refused.
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/atomicfile"
	"github.com/holdfast-dev/holdfast/store/backend"
	"github.com/holdfast-dev/holdfast/store/envelope"
)

// Options are for Open. The zero value is useful.
type Options struct {
	// SweepInterval is how often temporary files of dead writers are looked
	// for, beside once after opening. 0 means one hour; negative means never.
	SweepInterval time.Duration
	// NoSync acknowledges writes before they are durable; Capabilities then
	// says so. Everything else holds.
	NoSync bool
}

const (
	formatName = "format"
	formatText = "holdfast file store 1\n"
	slots      = 256
)

// Backend is a store in a directory.
type Backend struct {
	root   string
	keys   string
	noSync bool
	slots  [slots]chan struct{}
	known  sync.Map // directories whose entry in their parent is durable
	closed atomic.Bool
	stop   context.CancelFunc
	swept  sync.WaitGroup
}

// Open opens the store in dir and creates it if dir is absent or empty. A
// directory with other content is refused.
func Open(ctx context.Context, dir string, opts Options) (*Backend, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open file store %s: %w", dir, err)
	}
	if err := prepare(ctx, root); err != nil {
		return nil, fmt.Errorf("open file store %s: %w", dir, err)
	}
	b := &Backend{root: root, keys: filepath.Join(root, "keys"), noSync: opts.NoSync}
	for i := range b.slots {
		b.slots[i] = make(chan struct{}, 1)
	}
	b.known.Store(b.keys, true)
	if opts.SweepInterval == 0 {
		opts.SweepInterval = time.Hour
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop = stop
	if opts.SweepInterval > 0 {
		b.swept.Go(func() { b.sweepLoop(background, opts.SweepInterval) })
	}
	return b, nil
}

// prepare makes the fixed parts of the layout. Several processes may do so at
// once.
func prepare(ctx context.Context, root string) error {
	if err := makeDurable(root); err != nil {
		return err
	}
	format := filepath.Join(root, formatName)
	text, err := os.ReadFile(format)
	if errors.Is(err, fs.ErrNotExist) {
		if err := mustBeOurs(root); err != nil {
			return err
		}
		err = atomicfile.Create(format, []byte(formatText), atomicfile.Options{Perm: 0o644})
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		text, err = os.ReadFile(format)
	}
	if err != nil {
		return err
	}
	if string(text) != formatText {
		return fmt.Errorf("%s holds %.40q and this version reads %q only; use another directory or the version that wrote it", format, text, formatText)
	}
	for _, name := range []string{"keys", "locks"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return atomicfile.SyncDir(root)
}

// makeDurable makes dir and its missing parents, each synced into its own
// parent. The last one is synced even if it existed: another process may have
// made it a moment ago.
func makeDurable(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDurable(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	err = atomicfile.SyncDir(filepath.Dir(dir))
	if errors.Is(err, fs.ErrPermission) {
		// The parent is not ours to open; whoever gave us dir has synced it.
		return nil
	}
	return err
}

// mustBeOurs allows what another process that opens the store at the same time
// may have made already.
func mustBeOurs(root string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == formatName, name == "keys", name == "locks", atomicfile.IsTemp(name):
		default:
			return fmt.Errorf("the directory holds %q and is not a store; use an empty or a new directory", name)
		}
	}
	return nil
}

// Capabilities implements backend.Backend.
func (b *Backend) Capabilities() backend.Capabilities {
	return backend.Capabilities{
		Name:   "file",
		Put:    backend.Enforced{CreateOnly: true, IfVersion: true},
		Delete: backend.Enforced{IfVersion: true},
		Add:    true, Shared: true, Durable: !b.noSync,
		MaxValueBytes: 1 << 30,
	}
}

// Close ends the sweeping. Calls after it fail.
func (b *Backend) Close() error {
	b.closed.Store(true)
	b.stop()
	b.swept.Wait()
	return nil
}

func (b *Backend) usable(ctx context.Context, op, key string) error {
	if b.closed.Load() {
		return fmt.Errorf("%s %q: %w", op, key, backend.ErrClosed)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s %q: %w", op, key, context.Cause(ctx))
	}
	return nil
}

// place is where a key lives.
type place struct {
	key, dir, path string
}

func (b *Backend) place(key string) place {
	// Plain concatenation: the parts are clean, and filepath.Join would look
	// at each byte again, twice for each operation.
	dir, name := split(key)
	dir = b.keys + string(filepath.Separator) + dir
	return place{key: key, dir: dir, path: dir + string(filepath.Separator) + name}
}

// Get implements backend.Backend. A file is never changed once it has its
// name, so reading needs no lock.
func (b *Backend) Get(ctx context.Context, key string) (backend.Item, error) {
	if err := b.usable(ctx, "get", key); err != nil {
		return backend.Item{}, err
	}
	return read(b.place(key))
}

func read(p place) (backend.Item, error) {
	data, err := os.ReadFile(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return backend.Item{}, &backend.NotFoundError{Key: p.key}
	}
	if err != nil {
		return backend.Item{}, fmt.Errorf("get %q: %w", p.key, err)
	}
	nonce, value, err := envelope.Decode(data)
	if err != nil {
		return backend.Item{}, &backend.CorruptError{Key: p.key, Why: err.Error() + ", file " + p.path}
	}
	return backend.Item{Key: p.key, Value: value, Version: backend.Version(nonce), Nonce: nonce}, nil
}

// version reads the version only; it is empty if the key is absent.
func version(p place) (backend.Version, error) {
	f, err := os.Open(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read version of %q: %w", p.key, err)
	}
	defer f.Close()
	var head [envelope.HeaderBytes]byte
	if _, err = io.ReadFull(f, head[:]); err != nil {
		return "", &backend.CorruptError{Key: p.key, Why: err.Error() + ", file " + p.path}
	}
	nonce, _, err := envelope.Header(head[:])
	if err != nil {
		return "", &backend.CorruptError{Key: p.key, Why: err.Error() + ", file " + p.path}
	}
	return backend.Version(nonce), nil
}

// check compares what is there with the condition.
func check(op string, p place, cond backend.Condition) error {
	if cond.Kind() == backend.KindNone {
		return nil
	}
	found, err := version(p)
	if err != nil {
		return err
	}
	holds := found == ""
	if cond.Kind() == backend.KindIfVersion {
		holds = found != "" && found == cond.Version()
	}
	if holds {
		return nil
	}
	return &backend.ConflictError{Op: op, Key: p.key, Wanted: cond, Found: found, Absent: found == "", FoundNonce: string(found)}
}

// Put implements backend.Backend.
func (b *Backend) Put(ctx context.Context, req backend.PutRequest) (backend.Version, error) {
	if err := b.usable(ctx, "put", req.Key); err != nil {
		return "", err
	}
	p := b.place(req.Key)
	// Most losers learn it here, before they have written anything.
	if err := check("put", p, req.Cond); err != nil {
		return "", err
	}
	t, err := b.prepareValue(p, req.Nonce, req.Value)
	if err != nil {
		return "", err
	}
	defer t.Discard()
	if req.Cond.Kind() != backend.KindIfVersion {
		err := t.Link(p.path)
		if err == nil {
			t.Discard()
			return b.acknowledge("put", p, req.Cond, req.Nonce)
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("put %q: nothing was written: %w", p.key, err)
		}
		if req.Cond.Kind() == backend.KindCreateOnly {
			return "", b.lostCreation(p, req.Cond)
		}
	}
	if err := b.replaceLocked(ctx, p, req.Cond, t); err != nil {
		return "", err
	}
	return b.acknowledge("put", p, req.Cond, req.Nonce)
}

// prepareValue writes the envelope to a temporary file beside the key.
func (b *Backend) prepareValue(p place, nonce string, value []byte) (*atomicfile.Temp, error) {
	data, err := envelope.Encode(nonce, value)
	if err != nil {
		return nil, fmt.Errorf("put %q: %w", p.key, err)
	}
	if err := b.ensureDir(p.dir); err != nil {
		return nil, fmt.Errorf("put %q: nothing was written: %w", p.key, err)
	}
	t, err := atomicfile.Prepare(p.dir, data, atomicfile.Options{NoSync: b.noSync})
	if err != nil {
		return nil, fmt.Errorf("put %q: nothing was written: %w", p.key, err)
	}
	return t, nil
}

// lostCreation reports who was first. That one may be gone again by now.
func (b *Backend) lostCreation(p place, cond backend.Condition) error {
	found, err := version(p)
	if err != nil {
		return err
	}
	return &backend.ConflictError{Op: "put", Key: p.key, Wanted: cond, Found: found, FoundNonce: string(found)}
}

func (b *Backend) replaceLocked(ctx context.Context, p place, cond backend.Condition, t *atomicfile.Temp) error {
	unlock, err := b.lock(ctx, p.key)
	if err != nil {
		return fmt.Errorf("put %q: nothing was written: %w", p.key, err)
	}
	defer unlock()
	if err := check("put", p, cond); err != nil {
		return err
	}
	if err := t.Replace(p.path); err != nil {
		return fmt.Errorf("put %q: nothing was written: %w", p.key, err)
	}
	return nil
}

// acknowledge makes the step durable. If that fails the step is visible and
// may not survive: the caller must not take it for done or for undone.
func (b *Backend) acknowledge(op string, p place, cond backend.Condition, nonce string) (backend.Version, error) {
	if b.noSync {
		return backend.Version(nonce), nil
	}
	if err := atomicfile.SyncDir(p.dir); err != nil {
		return "", &backend.UnknownOutcomeError{Op: op, Key: p.key, Cond: cond, Nonce: nonce, Undurable: true, Err: err}
	}
	return backend.Version(nonce), nil
}

// Delete implements backend.Backend.
func (b *Backend) Delete(ctx context.Context, req backend.DeleteRequest) error {
	if err := b.usable(ctx, "delete", req.Key); err != nil {
		return err
	}
	p := b.place(req.Key)
	removed, err := b.remove(ctx, p, req.Cond)
	if err != nil {
		return err
	}
	// The key may be absent because another process has unlinked it and not
	// synced yet: then this acknowledgement must wait for the sync as well.
	_, err = b.acknowledge("delete", p, req.Cond, "")
	if !removed && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// remove unlinks without syncing and says whether there was something.
func (b *Backend) remove(ctx context.Context, p place, cond backend.Condition) (bool, error) {
	unlock, err := b.lock(ctx, p.key)
	if err != nil {
		return false, fmt.Errorf("delete %q: nothing was deleted: %w", p.key, err)
	}
	defer unlock()
	if err := check("delete", p, cond); err != nil {
		return false, err
	}
	err = os.Remove(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("delete %q: nothing was deleted: %w", p.key, err)
	}
	return true, nil
}

// DeleteMany implements backend.BulkDeleter: one sync for each directory.
func (b *Backend) DeleteMany(ctx context.Context, reqs []backend.DeleteRequest) (int, error) {
	dirs := make(map[string]place)
	gone := 0
	var first error
	for _, req := range reqs {
		if first = b.usable(ctx, "delete", req.Key); first != nil {
			break
		}
		p := b.place(req.Key)
		removed, err := b.remove(ctx, p, req.Cond)
		switch {
		case err == nil:
			gone++
		case !errors.Is(err, backend.ErrConflict):
			first = err
		}
		if removed {
			dirs[p.dir] = p
		}
		if first != nil {
			break
		}
	}
	for _, p := range dirs {
		if _, err := b.acknowledge("delete", p, backend.None(), ""); err != nil {
			return gone, errors.Join(first, err)
		}
	}
	return gone, first
}
