//go:build amd64 || arm64

package file

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/play/gate/file/power"
	"github.com/holdfast-dev/holdfast/play/gate/file/tree"
)

// TestPowerOfRuns takes the logs of real runs and looks at what a loss of power
// may leave.
func TestPowerOfRuns(t *testing.T) {
	for name, want := range map[string]struct{ torn, lost bool }{
		"replace": {false, false},
		"inplace": {true, true},
	} {
		w := newWorld(t, Config{}, role(name))
		w.put("data.json", `{"n":0}`)
		x := w.run("")
		noFailure(t, x)
		w.gate.Acknowledge("A")
		states, err := power.States(w.start, w.gate.Log(), power.Options{})
		if err != nil {
			t.Fatal(err)
		}
		torn := slices.ContainsFunc(states, func(s power.State) bool { return len(s.Tree.Torn()) > 0 })
		lost := slices.ContainsFunc(states, func(s power.State) bool {
			return len(s.Acked) > 0 && string(s.Tree["data.json"].Data) != `{"n":1}`
		})
		if torn != want.torn || lost != want.lost {
			t.Errorf("%s: torn %v, lost %v in %d states", name, torn, lost, len(states))
		}
		if last := states[len(states)-1]; string(last.Tree["data.json"].Data) == "" && !want.torn {
			t.Errorf("%s: the last state is %v", name, last)
		}
	}
}

func TestExpand(t *testing.T) {
	w := sqliteWorld(t, "", "")
	w.commands = w.commands[:1]
	w.gate.Expand(true)
	x := w.run("")
	noFailure(t, x)
	if !slices.ContainsFunc(x.trace, func(s string) bool { return strings.HasPrefix(s, "A write notes.db [") }) {
		t.Errorf("no page is written as a step: %s", strings.Join(x.trace, "\n"))
	}
	if got := w.counter(t); got != "1" {
		t.Errorf("the counter is %s", got)
	}
	// Every state is one that SQLite recovers to the old or the new value.
	states, err := power.States(w.start, w.gate.Log(), power.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := 0; i < len(states); i += max(1, len(states)/12) {
		w.start = states[i].Tree
		if err := w.start.Restore(w.dir, tree.Options{}); err != nil {
			t.Fatal(err)
		}
		seen[w.counter(t)] = true
	}
	if len(seen) != 2 || !seen["0"] || !seen["1"] {
		t.Errorf("%d states recover to %v", len(states), seen)
	}
}
