//go:build !unix

package atomicfile

import "context"

// Write needs a Unix system.
func Write(path string, data []byte, opts Options) error { return ErrUnsupported }

// Create needs a Unix system.
func Create(path string, data []byte, opts Options) error { return ErrUnsupported }

// Remove needs a Unix system.
func Remove(path string) error { return ErrUnsupported }

// SyncDir needs a Unix system.
func SyncDir(dir string) error { return ErrUnsupported }

// Sweep needs a Unix system.
func Sweep(dir string) (int, error) { return 0, ErrUnsupported }

// IsTemp is false: there are no temporary files here.
func IsTemp(name string) bool { return false }

// Lock needs a Unix system.
func Lock(ctx context.Context, path string) (unlock func(), err error) { return nil, ErrUnsupported }

// Temp exists on Unix only.
type Temp struct{}

// Prepare needs a Unix system.
func Prepare(dir string, data []byte, opts Options) (*Temp, error) { return nil, ErrUnsupported }

// Replace needs a Unix system.
func (t *Temp) Replace(path string) error { return ErrUnsupported }

// Link needs a Unix system.
func (t *Temp) Link(path string) error { return ErrUnsupported }

// Discard does nothing.
func (t *Temp) Discard() {}
