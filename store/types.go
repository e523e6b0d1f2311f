package store

import "github.com/holdfast-dev/holdfast/store/backend"

// The vocabulary of the contract lives in package backend, so that a backend
// does not import the store in front of it. These are the same types.
type (
	// Backend is what a storage system implements.
	Backend = backend.Backend
	// Version names one write of one key; see [IfVersion].
	Version = backend.Version
	// Condition is what must hold for a write to take effect.
	Condition = backend.Condition
	// Item is a key with its value and version.
	Item = backend.Item
	// Op is one step of a [Store.Batch].
	Op = backend.Op
	// Deletion is one step of [Store.DeleteMany].
	Deletion = backend.DeleteRequest
	// Event is one change seen by [Store.Watch].
	Event = backend.Event
	// ListOptions selects keys; the zero value lists every key, without values.
	ListOptions = backend.ListRequest
	// Detail says how much of each item a listing carries.
	Detail = backend.Detail
	// Capabilities is what a backend declares to enforce.
	Capabilities = backend.Capabilities

	// ConflictError says that a condition did not hold; nothing was written.
	ConflictError = backend.ConflictError
	// UnknownOutcomeError says that a write may or may not have taken effect.
	UnknownOutcomeError = backend.UnknownOutcomeError
	// NotFoundError says that the store answered that a key is absent.
	NotFoundError = backend.NotFoundError
	// UnsupportedError refuses what a backend cannot enforce.
	UnsupportedError = backend.UnsupportedError
	// InvalidError is a mistake in a call.
	InvalidError = backend.InvalidError
	// CorruptError says that a stored value is damaged.
	CorruptError = backend.CorruptError
	// BoundsError says that a guarded add would have left its bounds.
	BoundsError = backend.BoundsError
)

// The details of a listing, cheapest first.
const (
	KeysOnly = backend.KeysOnly
	Versions = backend.Versions
	Values   = backend.Values
)

// The sentinels for errors.Is.
var (
	ErrNotFound       = backend.ErrNotFound
	ErrConflict       = backend.ErrConflict
	ErrUnknownOutcome = backend.ErrUnknownOutcome
	ErrUnsupported    = backend.ErrUnsupported
	ErrInvalid        = backend.ErrInvalid
	ErrClosed         = backend.ErrClosed
)

// None demands nothing: a blind write or delete.
func None() Condition { return backend.None() }

// CreateOnly demands that the key is absent.
func CreateOnly() Condition { return backend.CreateOnly() }

// IfVersion demands that the key still has exactly this version. An empty
// version is refused with *[InvalidError].
func IfVersion(v Version) Condition { return backend.IfVersion(v) }
