package explain_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster/clustertest"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/explain"
)

var update = flag.Bool("update", false, "rewrite the expected footprints")

// server starts PostgreSQL with the schema and returns a URL of the database.
func server(tb testing.TB) string {
	tb.Helper()
	c := clustertest.Start(tb, cluster.Options{})
	schema, err := os.ReadFile(filepath.Join("testdata", "schema.sql"))
	if err != nil {
		tb.Fatal(err)
	}
	conn := dial(tb, c.URL("postgres"))
	if _, err := conn.Exec(tb.Context(), string(schema), pgx.QueryExecModeSimpleProtocol); err != nil {
		tb.Fatal(err)
	}
	return c.URL("postgres")
}

func dial(tb testing.TB, url string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close(tb.Context()) })
	return conn
}

func analyzer(tb testing.TB, url string) *explain.Analyzer {
	tb.Helper()
	a, err := explain.New(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := a.Close(); err != nil {
			tb.Error(err)
		}
	})
	return a
}

// statement reads a line of the test data: SQL, two blanks, a JSON list.
func statement(t *testing.T, line string) explain.Statement {
	t.Helper()
	sql, list, found := strings.Cut(line, "  [")
	s := explain.Statement{SQL: sql, Simple: !found}
	if !found {
		return s
	}
	var params []any
	if err := json.Unmarshal([]byte("["+list), &params); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	for _, p := range params {
		s.Params = append(s.Params, []byte(fmt.Sprint(p)))
	}
	return s
}

// TestStatements compares the footprint of every statement with the reviewed
// one. Every change of these lines is a change of what the search may leave out.
func TestStatements(t *testing.T) {
	a := analyzer(t, server(t))
	data, err := os.ReadFile(filepath.Join("testdata", "statements.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	var s *explain.Session
	status := byte('I')
	steps := 0
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "-- ") && line != "-- ping" {
			s, status = a.Session(), 'I'
			got.WriteString(line + "\n")
			continue
		}
		r := s.Analyze(t.Context(), []explain.Statement{statement(t, line)})
		status = after(line, status)
		s.Finished(status)
		got.WriteString(line + "\n" + show(r))
		steps++
	}
	if steps < 80 {
		t.Fatalf("only %d statements: the test data is not read rightly", steps)
	}
	golden := filepath.Join("testdata", "statements.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	g, w := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("line %d differs:\n got %q\nwant %q", i+1, at(g, i), at(w, i))
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// after is the transaction status that the server would report.
func after(sql string, status byte) byte {
	switch first := strings.ToUpper(strings.Fields(sql + " ;")[0]); {
	case first == "BEGIN" && !strings.Contains(sql, ";"):
		return 'T'
	case first == "COMMIT", first == "ROLLBACK" && !strings.Contains(sql, " TO "):
		return 'I'
	}
	return status
}

func show(r explain.Result) string {
	var b strings.Builder
	switch {
	case r.Quiet:
		b.WriteString("    quiet\n")
	case r.Footprint.Unknown:
		fmt.Fprintf(&b, "    %s\n", r.Footprint)
	case len(r.Footprint.Accesses) == 0:
		b.WriteString("    nothing\n")
	}
	for _, a := range r.Footprint.Accesses {
		fmt.Fprintf(&b, "    %s\n", a)
	}
	if r.Writes != nil {
		fmt.Fprintf(&b, "    writes %s\n", strings.Join(r.Writes, ", "))
	}
	if r.Splittable {
		fmt.Fprintf(&b, "    splits: %s | %s\n", r.First, r.Rest)
	}
	return b.String()
}

// TestShape: values do not count, everything else does.
func TestShape(t *testing.T) {
	a := explain.Shape("SELECT * FROM t WHERE id = 1 AND name = 'x''y' -- made up 7f3")
	b := explain.Shape("SELECT  *\nFROM t WHERE id = 23 AND name = E'\\n'")
	if a != b || a != "select * from t where id = ? and name = ?" {
		t.Errorf("shapes %q and %q", a, b)
	}
	if c := explain.Shape(`SELECT * FROM t WHERE "ID" = $1 AND name = 'x'`); c == a || !strings.Contains(c, `"ID" = $1`) {
		t.Errorf("shape %q", c)
	}
}
