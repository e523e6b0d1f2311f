package document

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// ETag names one saved state of a document. It travels beside the value and is
// neither part of the value nor of what is stored. The zero ETag names nothing
// and is refused by Save.
type ETag struct{ tag string }

// String returns the ETag for transport; see [ParseETag].
func (e ETag) String() string { return e.tag }

// ParseETag is the inverse of ETag.String.
func ParseETag(s string) ETag { return ETag{s} }

// Vanished says what Update does when the document was deleted between its
// read and its save.
type Vanished int

const (
	// VanishedConflict gives up with *VanishedError: the deletion stands.
	VanishedConflict Vanished = iota
	// VanishedRecreate writes the changed value as a new document.
	VanishedRecreate
)

// VanishedError says that the document was deleted while it was being changed.
// errors.Is(err, store.ErrConflict) is true.
type VanishedError struct {
	ID string
}

func (e *VanishedError) Error() string {
	return fmt.Sprintf("update document %q: it was deleted between read and save and nothing was written; create it again if it should exist", e.ID)
}

// Is makes errors.Is(err, store.ErrConflict) true.
func (e *VanishedError) Is(target error) bool { return target == store.ErrConflict }

// Options are for New and JSONFile. The zero value is useful.
type Options struct {
	// Prefix is where New keeps the documents, without a slash at the end; it
	// is needed there and not used by JSONFile.
	Prefix string
	// Retry bounds Update. The zero value is five attempts with full jitter,
	// for a person who waits; set Attempts to store.UntilDeadline for keys
	// that many writers change at once.
	Retry store.Retry
	// CreateMissing lets Update start from the zero value when there is no
	// document; otherwise that is store.ErrNotFound.
	CreateMissing bool
	// Vanished is what Update does about a deletion between read and save.
	Vanished Vanished
	// Logger is told of each retry (INFO) and of exhaustion (WARN); nil means
	// slog.Default().
	Logger *slog.Logger
}

// source is where the JSON of a collection is kept.
type source interface {
	load(ctx context.Context, id string) (raw []byte, tag string, err error)
	create(ctx context.Context, id string, raw []byte) (tag string, err error)
	// save writes if tag is current. known drops from stored JSON what the
	// program's type does not know.
	save(ctx context.Context, id string, raw []byte, tag string, known func([]byte) ([]byte, error)) (newTag string, err error)
	remove(ctx context.Context, id, tag string) error
	ids(ctx context.Context) iter.Seq2[string, error]
	retry(ctx context.Context, id string, r store.Retry, attempt func(context.Context) error) error
}

// Collection is a set of documents of one type. It is safe for concurrent use.
type Collection[T any] struct {
	src  source
	opts Options
	log  *slog.Logger
}

func newCollection[T any](src source, opts Options) *Collection[T] {
	log := opts.Logger
	if log == nil {
		log = slog.Default()
	}
	return &Collection[T]{src: src, opts: opts, log: log}
}

func decode[T any](id string, raw []byte) (T, error) {
	var value T
	d := json.NewDecoder(bytes.NewReader(raw))
	err := d.Decode(&value)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more after the JSON value")
		}
	}
	if err != nil {
		var zero T
		return zero, &store.CorruptError{Key: id, Why: err.Error()}
	}
	return value, nil
}

func encode[T any](id string, value T) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, fmt.Errorf("save document %q: %w", id, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// known re-encodes stored JSON with what T knows of it.
func known[T any](raw []byte) ([]byte, error) {
	value, err := decode[T]("", raw)
	if err != nil {
		return nil, err
	}
	return encode("", value)
}

// Load returns the document and the ETag that a save of it needs. It fails
// with store.ErrNotFound only if the store said that there is none.
func (c *Collection[T]) Load(ctx context.Context, id string) (T, ETag, error) {
	var zero T
	raw, tag, err := c.src.load(ctx, id)
	if err != nil {
		return zero, ETag{}, err
	}
	value, err := decode[T](id, raw)
	if err != nil {
		return zero, ETag{}, err
	}
	return value, ETag{tag}, nil
}

// Create writes a document that must not exist yet.
func (c *Collection[T]) Create(ctx context.Context, id string, value T) (ETag, error) {
	raw, err := encode(id, value)
	if err != nil {
		return ETag{}, err
	}
	tag, err := c.src.create(ctx, id, raw)
	return ETag{tag}, err
}

// Save writes value if the document is still the one that etag names. A lost
// race is *store.ConflictError and nothing was written.
func (c *Collection[T]) Save(ctx context.Context, id string, value T, etag ETag) (ETag, error) {
	if etag == (ETag{}) {
		return ETag{}, &store.InvalidError{Op: "save document", What: fmt.Sprintf("ETag for %q", id),
			Why: "it is empty; use the one from Load, or Create for a new document"}
	}
	raw, err := encode(id, value)
	if err != nil {
		return ETag{}, err
	}
	tag, err := c.src.save(ctx, id, raw, etag.tag, known[T])
	return ETag{tag}, err
}

// Delete removes the document if it is still the one that etag names.
func (c *Collection[T]) Delete(ctx context.Context, id string, etag ETag) error {
	if etag == (ETag{}) {
		return &store.InvalidError{Op: "delete document", What: fmt.Sprintf("ETag for %q", id), Why: "it is empty; use the one from Load"}
	}
	return c.src.remove(ctx, id, etag.tag)
}

// IDs yields the ids of the documents, in ascending order.
func (c *Collection[T]) IDs(ctx context.Context) iter.Seq2[string, error] { return c.src.ids(ctx) }

// Update reads the document fresh, applies change, and saves it if nobody has
// saved in between; on a lost race it starts again, within Options.Retry. It
// returns what was saved. When the attempts or the time are used up the error
// is *store.ExhaustedError, which wraps the last *store.ConflictError; nothing
// was written then. An error from change ends it and is returned as it is.
func (c *Collection[T]) Update(ctx context.Context, id string, change func(*T) error) (T, ETag, error) {
	out, etag, err := c.update(ctx, id, change)
	if err != nil {
		var zero T
		return zero, ETag{}, err
	}
	return out, etag, nil
}

// update returns the last changed value even if it could not be saved.
func (c *Collection[T]) update(ctx context.Context, id string, change func(*T) error) (value T, etag ETag, err error) {
	retry := c.opts.Retry
	retry.OnRetry = func(attempt int, wait time.Duration, lost error) {
		c.log.InfoContext(ctx, "document update lost a race, trying again", "id", id, "attempt", attempt, "wait", wait, "conflict", lost)
		if c.opts.Retry.OnRetry != nil {
			c.opts.Retry.OnRetry(attempt, wait, lost)
		}
	}
	existed := false
	var stop error // a vanished document; not to be retried
	err = c.src.retry(ctx, id, retry, func(ctx context.Context) error {
		value, etag, err = c.attempt(ctx, id, change, &existed)
		var gone *VanishedError
		if errors.As(err, &gone) {
			stop = err
			return nil
		}
		return err
	})
	if stop != nil {
		err = stop
	}
	var exhausted *store.ExhaustedError
	if errors.As(err, &exhausted) {
		c.log.WarnContext(ctx, "document update gave up, nothing was written", "id", id, "attempts", exhausted.Attempts, "elapsed", exhausted.Elapsed, "conflict", exhausted.Last)
	}
	return value, etag, err
}

// attempt is one read, change and save. existed remembers over attempts that
// the document was there.
func (c *Collection[T]) attempt(ctx context.Context, id string, change func(*T) error, existed *bool) (T, ETag, error) {
	value, etag, err := c.Load(ctx, id)
	absent := errors.Is(err, store.ErrNotFound)
	switch {
	case err != nil && !absent:
		return value, ETag{}, err
	case absent && *existed && c.opts.Vanished == VanishedConflict:
		return value, ETag{}, &VanishedError{ID: id}
	case absent && !*existed && !c.opts.CreateMissing:
		return value, ETag{}, err
	}
	*existed = *existed || !absent
	if err := change(&value); err != nil {
		return value, ETag{}, err
	}
	if absent {
		etag, err = c.Create(ctx, id, value)
		return value, etag, err
	}
	etag, err = c.Save(ctx, id, value, etag)
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) || !conflict.Absent {
		return value, etag, err
	}
	if c.opts.Vanished == VanishedConflict {
		return value, ETag{}, &VanishedError{ID: id}
	}
	etag, err = c.Create(ctx, id, value)
	return value, etag, err
}

// Best is what UpdateBestEffort came to.
type Best[T any] struct {
	// Value is the changed value: the saved one, or the one in memory that
	// could not be saved. It is the zero value, unchanged, if the document
	// could not be read.
	Value T
	Saved bool
	// Err is why it is not known to be saved.
	Err error
}

// UpdateBestEffort is Update for background writers, to whom a lost race is
// not worth failing: when the change cannot be saved it warns and hands back
// the result in memory.
func (c *Collection[T]) UpdateBestEffort(ctx context.Context, id string, change func(*T) error) Best[T] {
	value, _, err := c.update(ctx, id, change)
	if err != nil {
		c.log.WarnContext(ctx, "document update was not saved, going on with the value in memory", "id", id, "error", err)
	}
	return Best[T]{Value: value, Saved: err == nil, Err: err}
}
