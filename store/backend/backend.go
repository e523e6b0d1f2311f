package backend

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"iter"
)

// MaxKeyBytes is the longest key. It leaves room below the 1,024 bytes that
// the strictest object stores take for a key prefix and an encoding.
const MaxKeyBytes = 512

// Version names one write of one key. It is opaque: compare it for equality
// only. The empty version names no write and is refused in a condition.
type Version string

// Item is one key as the backend holds it.
type Item struct {
	Key     string
	Value   []byte
	Version Version
	// Nonce is what the writer put into PutRequest.Nonce.
	Nonce string
}

// PutRequest is one conditional write.
type PutRequest struct {
	Key   string
	Value []byte
	Cond  Condition
	// Nonce is never empty and never used for a second write; a backend
	// stores it with the value and may use it as the version.
	Nonce string
}

// DeleteRequest is one conditional delete. Cond is None or IfVersion.
type DeleteRequest struct {
	Key  string
	Cond Condition
}

// Detail says how much of each item a listing must carry.
type Detail int

// The details of a listing, cheapest first. On files, KeysOnly opens no file.
const (
	KeysOnly Detail = iota
	Versions
	Values
)

// ListRequest selects the keys that start with Prefix and are greater than
// After, in ascending byte order.
type ListRequest struct {
	Prefix string
	// After resumes a listing behind this key; empty starts at the first.
	After  string
	Detail Detail
	// PageSize is how many items to fetch at a time; 0 leaves it to the
	// backend. The iterator goes on over pages by itself.
	PageSize int
}

// Backend is one storage system. All methods are safe for concurrent use and
// honour the context: they return soon after it ends, with an error that wraps
// its cause, or with *UnknownOutcomeError if the write was already under way.
//
// The store in front of a backend has already checked keys, sizes and
// conditions against Capabilities.
type Backend interface {
	// Capabilities says what this backend enforces. It is constant.
	Capabilities() Capabilities
	// Get returns the item, or *NotFoundError if the store said it is absent.
	Get(ctx context.Context, key string) (Item, error)
	// Put writes if the condition holds and returns the version of this write.
	Put(ctx context.Context, req PutRequest) (Version, error)
	// Delete removes the key if the condition holds. Without a condition,
	// deleting an absent key is ok.
	Delete(ctx context.Context, req DeleteRequest) error
	// List yields items in key order. After it yields an error it stops.
	List(ctx context.Context, req ListRequest) iter.Seq2[Item, error]
	// Close releases what the backend holds and waits for its goroutines.
	Close() error
}

// Op is one step of a batch: a delete if Delete is set, else a write.
type Op struct {
	Key    string
	Value  []byte
	Cond   Condition
	Delete bool
	Nonce  string
}

// Batcher is implemented by backends that apply several steps on different
// keys as one: all conditions hold and all steps take effect, or none does.
type Batcher interface {
	// Batch returns one version per step, empty for deletes. A *ConflictError
	// names the first key whose condition failed.
	Batch(ctx context.Context, ops []Op) ([]Version, error)
}

// AddRequest adds Delta to the decimal integer at Key if the sum stays within
// Min and Max, both inclusive. An absent key counts as zero.
type AddRequest struct {
	Key      string
	Delta    int64
	Min, Max int64
	Nonce    string
}

// Adder is implemented by backends that add in one guarded step, without a
// read before the write that another writer could invalidate.
type Adder interface {
	// Add returns the sum and its version. Outside the bounds it returns
	// *BoundsError and writes nothing.
	Add(ctx context.Context, req AddRequest) (int64, Version, error)
}

// BulkDeleter is implemented by backends that delete many keys in fewer round
// trips or syncs than one by one. The steps are independent, not atomic.
type BulkDeleter interface {
	// DeleteMany returns how many keys are gone by this call. A key whose
	// condition does not hold is left alone and is not an error.
	DeleteMany(ctx context.Context, reqs []DeleteRequest) (int, error)
}

// Event is one change seen by a watch. A deletion has Deleted set and carries
// no value and no version.
type Event struct {
	Item
	Deleted bool
}

// Watcher is implemented by backends that report changes themselves.
type Watcher interface {
	// Watch yields the changes of keys under prefix that happen after it was
	// called, until ctx ends. Several quick changes of one key may be reported
	// as the last one.
	Watch(ctx context.Context, prefix string) iter.Seq2[Event, error]
}

// NewNonce returns 128 random bits in hexadecimal.
func NewNonce() string {
	var b [16]byte
	// Since Go 1.24 Read never returns an error: it stops the program if the
	// system has no randomness.
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
