//go:build !unix

// Package pgtest starts throwaway PostgreSQL servers, on Unix systems.
package pgtest

import (
	"context"
	"errors"
)

// ErrNotInstalled says that no PostgreSQL server can be started here.
var ErrNotInstalled = errors.New("throwaway PostgreSQL servers need a Unix system")

// Options are for Start.
type Options struct {
	Dir      string
	Durable  bool
	Settings map[string]string
}

// Server does not exist here.
type Server struct{}

// Start needs a Unix system.
func Start(ctx context.Context, opts Options) (*Server, error) { return nil, ErrNotInstalled }

// URL is empty.
func (s *Server) URL(database string) string { return "" }

// Stop does nothing.
func (s *Server) Stop() error { return nil }
