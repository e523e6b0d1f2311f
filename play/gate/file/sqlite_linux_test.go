//go:build amd64 || arm64

package file

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/play/gate/file/tree"
)

// sqliteScript adds 1 to a counter, by SELECT and then UPDATE.
const sqliteScript = `
import sqlite3, sys
db = sqlite3.connect("notes.db", timeout=1, isolation_level=None)
%s
n = db.execute("SELECT n FROM counter").fetchone()[0]
db.execute("UPDATE counter SET n = ?", (n + 1,))
%s
db.close()
`

// sqliteWorld has two programs on a database with a counter at 0.
func sqliteWorld(t *testing.T, begin, end string) *world {
	t.Helper()
	cmd := command{words: []string{pythonPath(t), "-I", "-c", fmt.Sprintf(sqliteScript, begin, end)}}
	w := newWorld(t, Config{}, cmd, cmd)
	python(t, w, `db.execute("CREATE TABLE counter (n INTEGER)"); db.execute("INSERT INTO counter VALUES (0)"); db.commit()`)
	start, err := tree.Capture(w.dir, tree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.start = start
	return w
}

// pythonPath is the interpreter itself, not a script before it that chooses one.
func pythonPath(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Skip("no Python 3: ", err)
	}
	return strings.TrimSpace(string(out))
}

// python runs a statement on the database without the gate.
func python(t *testing.T, w *world, statement string) string {
	t.Helper()
	cmd := exec.Command("python3", "-c", "import sqlite3\ndb = sqlite3.connect('notes.db')\n"+statement)
	cmd.Dir = w.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	return strings.TrimSpace(string(out))
}

func (w *world) counter(t *testing.T) string {
	return python(t, w, `print(db.execute("SELECT n FROM counter").fetchone()[0])`)
}

func TestSQLiteLostUpdate(t *testing.T) {
	w := sqliteWorld(t, "", "")
	x := w.run("")
	noFailure(t, x)
	if got := w.counter(t); got != "2" {
		t.Errorf("one after the other: %s", got)
	}
	// A up to the end of its SELECT, then all of B, then the rest of A.
	reads := 0
	for i, s := range x.trace {
		if s == "A lock notes.db exclusive reserved, no wait" {
			break
		}
		if s == "A lock notes.db unlock" {
			reads = i + 1 // the schema is read in a span of its own
		}
	}
	if reads == 0 {
		t.Fatal("no end of the span of SELECT")
	}
	others := 0
	for _, s := range x.trace {
		if s[0] == 'B' {
			others++
		}
	}
	x = w.run(strings.Repeat("A", reads) + strings.Repeat("B", others))
	noFailure(t, x)
	if got := w.counter(t); got != "1" {
		t.Errorf("interleaved: %s: %s", got, strings.Join(x.trace, "\n"))
	}
}

func TestSQLiteImmediate(t *testing.T) {
	w := sqliteWorld(t, `db.execute("BEGIN IMMEDIATE")`, `db.execute("COMMIT")`)
	n := len(w.run("").trace) / 2
	for k := range n {
		x := w.run(strings.Repeat("A", k))
		noFailure(t, x)
		if got := w.counter(t); got != "2" {
			t.Errorf("after %d steps of A first: %s", k, got)
		}
	}
}
