package cluster

import (
	"bytes"
	"fmt"
	"strings"
)

// NotFoundError says that no PostgreSQL server program was found.
type NotFoundError struct {
	// Looked are the places that were looked at, in order, each with what was
	// wrong there.
	Looked []string
}

func (e *NotFoundError) Error() string {
	return "no PostgreSQL server found (looked at " + strings.Join(e.Looked, "; ") + "): " +
		"install it (apt-get install postgresql), or set HOLDFAST_PG_BIN to the folder that has " +
		"initdb and postgres, or name a server in the scenario"
}

// StartError says that initdb or the server did not do its work.
type StartError struct {
	// Program is "initdb" or "postgres".
	Program string
	// Log has the last lines that the program wrote.
	Log string
	Err error
}

func (e *StartError) Error() string {
	s := fmt.Sprintf("start a throwaway PostgreSQL: %s: %v", e.Program, e.Err)
	if e.Log != "" {
		s += "; its last lines:\n" + e.Log
	}
	return s
}

func (e *StartError) Unwrap() error { return e.Err }

// tail returns the last n lines.
func tail(out []byte, n int) string {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}
