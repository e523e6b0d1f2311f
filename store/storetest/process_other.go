//go:build !linux

package storetest

import (
	"context"
	"os"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
)

// Opener opens the store that a URL names.
type Opener func(ctx context.Context, url string) (*store.Store, error)

// IsWorker is false: there are no worker processes here.
func IsWorker() bool { return false }

// Main is for TestMain. Worker processes exist on Linux only.
func Main(m *testing.M, open Opener) { os.Exit(m.Run()) }

// Processes says how RunProcesses reaches the store.
type Processes struct {
	URL           string
	Leftovers     func(ctx context.Context) ([]string, error)
	Rounds, Kills int
}

// RunProcesses skips: its clock for all processes is Linux's.
func RunProcesses(t *testing.T, s *store.Store, p Processes) {
	t.Helper()
	t.Skip("the cases with several processes run on Linux only")
}
