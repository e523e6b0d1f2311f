package backend

import "fmt"

// Kind is the kind of a condition.
type Kind uint8

// The kinds of conditions. The zero kind is the unconditional write.
const (
	KindNone Kind = iota
	KindCreateOnly
	KindIfVersion
)

// String names the kind as messages and metrics show it.
func (k Kind) String() string {
	switch k {
	case KindNone:
		return "none"
	case KindCreateOnly:
		return "create-only"
	case KindIfVersion:
		return "if-version"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Condition is what must hold, at the moment of the write, for the write to
// take effect. The zero value demands nothing.
type Condition struct {
	kind    Kind
	version Version
}

// None demands nothing: a blind write.
func None() Condition { return Condition{} }

// CreateOnly demands that the key is absent.
func CreateOnly() Condition { return Condition{kind: KindCreateOnly} }

// IfVersion demands that the key is present with exactly this version. An
// empty v makes a condition that every store refuses with *InvalidError: a
// precondition built from a missing version would otherwise be sent as no
// precondition at all, and overwrite silently.
func IfVersion(v Version) Condition { return Condition{kind: KindIfVersion, version: v} }

// Kind returns the kind of the condition.
func (c Condition) Kind() Kind { return c.kind }

// Version returns the wanted version of an if-version condition.
func (c Condition) Version() Version { return c.version }

// String is for messages.
func (c Condition) String() string {
	if c.kind == KindIfVersion {
		return fmt.Sprintf("if-version %q", string(c.version))
	}
	return c.kind.String()
}

// Enforced is the set of conditions that a backend enforces in one step.
type Enforced struct {
	CreateOnly bool
	IfVersion  bool
}

// Has says whether the kind is enforced. Doing without a condition always is.
func (e Enforced) Has(k Kind) bool {
	switch k {
	case KindNone:
		return true
	case KindCreateOnly:
		return e.CreateOnly
	case KindIfVersion:
		return e.IfVersion
	}
	return false
}

// Capabilities is what a backend declares. A condition that is not declared is
// refused with *UnsupportedError before it reaches the backend.
type Capabilities struct {
	// Name is the backend's short name: "mem", "file", "sqlite", "postgres".
	Name string
	// Put and Delete are the conditions enforced on writes and deletes.
	// Delete.CreateOnly has no meaning and stays false.
	Put, Delete Enforced
	// Batch, Add and Watch say that Batcher, Adder and Watcher may be used.
	Batch, Add, Watch bool
	// ListVersions says that a listing with Detail Versions costs no request
	// per item.
	ListVersions bool
	// Shared says that other processes may use the same data at the same time
	// and that the conditions hold between them.
	Shared bool
	// Durable says that an acknowledged write survives a crash of the machine
	// (as far as the disk keeps what it has synced).
	Durable bool
	// MaxValueBytes is the largest value; 0 means that none is declared.
	MaxValueBytes int
}
