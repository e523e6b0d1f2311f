package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
)

// Options are for Write, Create and Prepare. The zero value is useful.
type Options struct {
	// Perm are the permission bits. 0 keeps those of a replaced file and means
	// 0600 for a new one. The umask is not applied to other values.
	Perm fs.FileMode
	// NoSync leaves the syncing out, for data that may be lost when the
	// machine crashes. Readers still see whole contents only.
	NoSync bool
}

// ErrUnsupported is returned by everything on systems without flock and
// syncable directories.
var ErrUnsupported = errors.New("atomicfile needs a Unix system")

// NotDurableError says that a change is visible but could not be synced: it
// may or may not survive a power loss. Everything else about it is done.
type NotDurableError struct {
	Path string
	Err  error
}

func (e *NotDurableError) Error() string {
	return fmt.Sprintf("sync directory %s: the change is visible but may not survive a power loss: %v", e.Path, e.Err)
}

// Unwrap returns the system's error.
func (e *NotDurableError) Unwrap() error { return e.Err }
