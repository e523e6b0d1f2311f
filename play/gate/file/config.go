package file

import (
	"fmt"
	"log/slog"
	"regexp"

	"github.com/holdfast-dev/holdfast/play/gate"
)

// Name is the gate's name in its steps.
const Name = "file"

// defaultMaxLog bounds the written data that one run's log keeps.
const defaultMaxLog = 64 << 20

// Config says what the gate watches.
type Config struct {
	// Dirs are the watched directories, with all below them. They must exist.
	Dirs []string
	// Sink gets the events, from the gate's goroutines and in order for each
	// thread of a program. It must not block and must not call the gate. Nil:
	// nobody.
	Sink func(gate.Event)
	// Random are regular expressions for random parts of file names, beside the
	// built-in ones (numbers, hashes, UUIDs, the names of mkstemp, os.CreateTemp
	// and Python's tempfile).
	Random []string
	// SyncDisk makes each fsync of the programs a real one. By default it is
	// only noted: it has no effect that a program could see, and costs
	// milliseconds.
	SyncDisk bool
	// MaxLog bounds the written data kept for power-loss states, in bytes per
	// run; 0 is 64 MiB.
	MaxLog int64
	// Logger hears what the gate can not report otherwise. Nil: nobody.
	Logger *slog.Logger
}

func (c Config) patterns() ([]*regexp.Regexp, error) {
	var list []*regexp.Regexp
	for _, s := range c.Random {
		re, err := regexp.Compile(s)
		if err != nil {
			return nil, fmt.Errorf("pattern for random file names %q: %w", s, err)
		}
		list = append(list, re)
	}
	return list, nil
}
