package power

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/play/gate/file/tree"
)

const file = "data.json"

func start() tree.State { return tree.State{file: {Mode: 0o644, Data: []byte("old!")}} }

var (
	created = Op{Kind: Create, File: New(1), Path: "tmp", Mode: 0o644, Step: "create"}
	written = Op{Kind: Write, File: New(1), Data: []byte("new!"), Step: "write"}
	synced  = Op{Kind: SyncFile, File: New(1), Step: "fsync"}
	renamed = Op{Kind: Rename, File: New(1), Path: "tmp", To: file, Step: "rename"}
	dirSync = Op{Kind: SyncDir, Step: "fsync ."}
	acked   = Op{Kind: Ack, Actor: "A"}
)

// found names what is wrong in any of the states.
func found(t *testing.T, o Options, ops ...Op) []string {
	t.Helper()
	states, err := States(start(), Log{Ops: ops}, o)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, s := range states {
		n, ok := s.Tree[file]
		content := string(n.Data)
		switch {
		case !ok:
			kinds["gone"] = true
		case content == "":
			kinds["empty"] = true
		case content != "old!" && content != "new!":
			kinds["torn"] = true
		}
		if len(s.Acked) > 0 && content != "new!" {
			kinds["lost"] = true
		}
		if _, ok := s.Tree["tmp"]; ok && content == "old!" && len(s.Acked) == 0 {
			kinds["left-over"] = true
		}
	}
	list := make([]string, 0, len(kinds))
	for k := range kinds {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

func TestFindings(t *testing.T) {
	existing := Existing(file)
	inPlace := []Op{{Kind: Truncate, File: existing, Step: "open"}, {Kind: Write, File: existing, Data: []byte("new!"), Step: "write"}, acked}
	for _, c := range []struct {
		name string
		want string
		ops  []Op
	}{
		{"in place", "empty lost torn", inPlace},
		{"temp without fsync", "empty left-over lost torn", []Op{created, written, renamed, acked}},
		{"temp and fsync without directory fsync", "left-over lost", []Op{created, written, synced, renamed, acked}},
		{"right", "left-over", []Op{created, written, synced, renamed, dirSync, acked}},
		{"fsync after rename", "empty left-over torn", []Op{created, written, renamed, synced, dirSync, acked}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(found(t, Options{}, c.ops...), " "); got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

func TestOrderOfDirectories(t *testing.T) {
	// The new name of a second file without the first one's: only without order.
	second := Op{Kind: Create, File: New(2), Path: "second", Mode: 0o600}
	has := func(m Model) bool {
		states, err := States(start(), Log{Ops: []Op{created, second}}, Options{Model: m})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(states, func(s State) bool {
			_, first := s.Tree["tmp"]
			_, second := s.Tree["second"]
			return second && !first
		})
	}
	if has(Ordered) || !has(Weak) {
		t.Errorf("the later entry alone: ordered %v, weak %v", has(Ordered), has(Weak))
	}
}

func TestWeakWrites(t *testing.T) {
	// The second of two writes without the first: a hole, only without order.
	ops := []Op{{Kind: Write, File: Existing(file), Data: []byte("AA")},
		{Kind: Write, File: Existing(file), Offset: 6, Data: []byte("BB")}}
	has := func(m Model) bool {
		states, err := States(start(), Log{Ops: ops}, Options{Model: m})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(states, func(s State) bool { return string(s.Tree[file].Data) == "old!\x00\x00BB" })
	}
	if has(Ordered) || !has(Weak) {
		t.Errorf("the later write alone: ordered %v, weak %v", has(Ordered), has(Weak))
	}
}

func TestDirectoriesMove(t *testing.T) {
	ops := []Op{{Kind: Mkdir, Path: "d", Mode: 0o755}, {Kind: Create, File: New(1), Path: "d/f", Mode: 0o600},
		{Kind: SyncDir, Path: "d"}, {Kind: SyncDir}, {Kind: Rename, Path: "d", To: "e"}, {Kind: Remove, Path: file}, {Kind: SyncDir}}
	states, err := States(start(), Log{Ops: ops}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	last := states[len(states)-1].Tree
	if _, ok := last["e/f"]; !ok || len(last) != 2 {
		t.Errorf("the last state is %v", last)
	}
}

func TestBounds(t *testing.T) {
	_, err := States(start(), Log{Ops: []Op{created, written, renamed}}, Options{Max: 2})
	if _, ok := errors.AsType[*TooManyError](err); !ok {
		t.Errorf("error %v", err)
	}
	if _, err := States(start(), Log{Cut: true}, Options{}); !errors.Is(err, CutLogError{}) {
		t.Errorf("error %v", err)
	}
}

// TestDistinct checks that no two states are the same and that each can be put
// into a directory and read back.
func TestDistinct(t *testing.T) {
	states, err := States(start(), Log{Ops: []Op{created, written, renamed, acked}}, Options{Model: Weak})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	dir := t.TempDir()
	for _, s := range states {
		key := s.Tree.Digest() + fmt.Sprint(s.Acked)
		if seen[key] {
			t.Errorf("twice: %v after %d", s.Tree, s.After)
		}
		seen[key] = true
		if err := s.Tree.Restore(dir, tree.Options{}); err != nil {
			t.Fatal(err)
		}
		back, err := tree.Capture(dir, tree.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if back.Digest() != s.Tree.Digest() {
			t.Errorf("state %v became %v", s.Tree, back)
		}
	}
}
