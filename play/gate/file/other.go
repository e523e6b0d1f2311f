//go:build !linux || !(amd64 || arm64)

package file

import (
	"context"
	"os"
	"runtime"

	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/gate/file/power"
)

// Gate can not be made on this system.
type Gate struct{ gate.Gate }

// Instance can not be made on this system.
type Instance struct{}

func unsupported() *UnsupportedError {
	return &UnsupportedError{Reason: runtime.GOOS + "/" + runtime.GOARCH + " is not supported; Linux on x86-64 or arm64 is needed"}
}

// New returns an *[UnsupportedError].
func New(Config) (*Gate, error) { return nil, unsupported() }

// ShimMain does nothing on this system.
func ShimMain([]string) {}

// Begin does nothing on this system.
func (g *Gate) Begin() {}

// Attribute does nothing on this system.
func (g *Gate) Attribute(int, string) {}

// Expand does nothing on this system.
func (g *Gate) Expand(bool) {}

// Expire returns an *[UnsupportedError].
func (g *Gate) Expire(context.Context, uint64) error { return unsupported() }

// Log is empty on this system.
func (g *Gate) Log() power.Log { return power.Log{} }

// LogLength is 0 on this system.
func (g *Gate) LogLength() int { return 0 }

// Acknowledge does nothing on this system.
func (g *Gate) Acknowledge(string) {}

// StableName gives the name back on this system.
func (g *Gate) StableName(rel string) string { return rel }

// Add returns an *[UnsupportedError].
func (g *Gate) Add([]string, int) (*Instance, error) { return nil, unsupported() }

// Number is 0 on this system.
func (in *Instance) Number() int { return 0 }

// Command is empty on this system.
func (in *Instance) Command() []string { return nil }

// Files is empty on this system.
func (in *Instance) Files() []*os.File { return nil }

// Ended is nil on this system.
func (in *Instance) Ended() <-chan struct{} { return nil }

// Started returns an *[UnsupportedError].
func (in *Instance) Started(context.Context, error) error { return unsupported() }
