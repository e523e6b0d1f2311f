package app

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

const (
	// tailLines is how many lines of output are kept for error messages.
	tailLines = 100
	// tailLineBytes is where a line without an end is cut, so that a program
	// that prints no newline does not fill the memory.
	tailLineBytes = 4096
)

// tail takes a program's output, keeps its last lines and copies each line with
// a prefix to another writer. It never fails: an application must not die of a
// broken pipe because a log could not be written.
type tail struct {
	prefix string
	out    io.Writer // nil: kept only

	mu    sync.Mutex
	part  []byte // the line that has not ended yet
	lines []string
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.part = append(t.part, b...)
	for {
		i := bytes.IndexByte(t.part, '\n')
		switch {
		case i >= 0:
			t.line(t.part[:i])
			t.part = t.part[i+1:]
		case len(t.part) >= tailLineBytes:
			t.line(t.part[:tailLineBytes])
			t.part = t.part[tailLineBytes:]
		default:
			return len(b), nil
		}
	}
}

// flush ends a line that the program did not end itself.
func (t *tail) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.part) > 0 {
		t.line(t.part)
		t.part = nil
	}
}

func (t *tail) line(b []byte) {
	s := strings.TrimRight(string(b), "\r")
	if len(t.lines) == tailLines {
		t.lines = append(t.lines[:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, s)
	if t.out != nil {
		fmt.Fprintf(t.out, "%s%s\n", t.prefix, s)
	}
}

// last returns a copy of the kept lines, the oldest first.
func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines)
}

// quoteTail is the last n lines of a program as they are shown below an error.
func quoteTail(lines []string, n int) string {
	if len(lines) == 0 {
		return "; it printed nothing"
	}
	lines = lines[max(0, len(lines)-n):]
	return "; its last lines:\n  | " + strings.Join(lines, "\n  | ")
}
