package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/play/gate/file/tree"
	"github.com/holdfast-dev/holdfast/play/oracle"
)

// made is the state of a directory with a database that statements have made; the
// connection is still open, as after a kill.
func made(t *testing.T, statements ...string) tree.State {
	t.Helper()
	dir := t.TempDir()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "notes.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	state, err := tree.Capture(dir, tree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func show(tables []oracle.Table) string {
	var b strings.Builder
	for _, t := range tables {
		fmt.Fprintf(&b, "%s key %v:", t.Name, t.Key)
		for _, c := range t.Columns {
			fmt.Fprintf(&b, " %s %s", c.Name, c.Type)
		}
		for _, row := range t.Rows {
			b.WriteString(";")
			for _, c := range row {
				if c == nil {
					b.WriteString(" NULL")
				} else {
					b.WriteString(" " + *c)
				}
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

const schema = `CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, size REAL, raw BLOB, doc JSON);
	CREATE TABLE "odd ""name" (a TEXT, b TEXT, PRIMARY KEY (b, a));`

const want = `db: notes key [0]: id id text plain size plain raw plain doc json; 1 tea 1.5 x'00ff' {"n": 1}; 2 NULL NULL NULL NULL
db: odd "name key [1 0]: a plain b plain; x y
`

var rows = []string{schema, `INSERT INTO notes VALUES (1, 'tea', 1.5, x'00ff', '{"n": 1}'), (2, NULL, NULL, NULL, NULL)`,
	`INSERT INTO "odd ""name" VALUES ('x', 'y')`}

func TestTables(t *testing.T) {
	for name, pragma := range map[string]string{"journal": "PRAGMA journal_mode = DELETE", "write-ahead log": "PRAGMA journal_mode = WAL"} {
		t.Run(name, func(t *testing.T) {
			s := made(t, append([]string{pragma}, rows...)...)
			if _, ok := s["notes.db-wal"]; ok != (name == "write-ahead log") {
				t.Fatalf("the log is there: %v", ok)
			}
			for path := range s {
				if path != "notes.db" && !Belongs(s, path) {
					t.Errorf("%s does not belong to the database", path)
				}
			}
			tables, err := Tables(t.Context(), s, "notes.db", "db", t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if got := show(tables); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// TestHotJournal: what a killed writer has left is rolled back, as the next start
// of the application would.
func TestHotJournal(t *testing.T) {
	before := made(t, append([]string{"PRAGMA journal_mode = DELETE"}, rows...)...)
	during := made(t, append(append([]string{"PRAGMA journal_mode = DELETE", "PRAGMA cache_size = 1", "PRAGMA cache_spill = 1"}, rows...),
		"BEGIN", `UPDATE notes SET text = 'lost'`,
		`WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) INSERT INTO notes (id, text) SELECT i, printf('%0100d', i) FROM n`)...)
	if _, ok := during["notes.db-journal"]; !ok || during.Digest() == before.Digest() {
		t.Fatal("no hot journal")
	}
	tables, err := Tables(t.Context(), during, "notes.db", "db", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got := show(tables); got != want {
		t.Errorf("got\n%.300swant\n%s", got, want)
	}
}

func TestCorrupt(t *testing.T) {
	s := made(t, rows...)
	n := s["notes.db"]
	n.Data = n.Data[:600]
	s["notes.db"] = n
	_, err := Tables(t.Context(), s, "notes.db", "db", t.TempDir())
	if c, ok := errors.AsType[*CorruptError](err); !ok || c.Path != "db" {
		t.Errorf("error %v", err)
	}
}
