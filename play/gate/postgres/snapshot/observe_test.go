package snapshot_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/play/gate/postgres/snapshot"
	"github.com/holdfast-dev/holdfast/play/oracle"
)

func observe(t testing.TB, w *world, dirty []string) []oracle.Table {
	t.Helper()
	tables, err := w.snap.Observe(t.Context(), dirty)
	if err != nil {
		t.Fatalf("Observe(%q): %v", dirty, err)
	}
	return tables
}

func text(rows [][]*string) string {
	var b strings.Builder
	for _, r := range rows {
		for i, c := range r {
			if i > 0 {
				b.WriteByte('|')
			}
			if c == nil {
				b.WriteString("NULL")
			} else {
				b.WriteString(*c)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// difference names the first table that differs in two observations.
func difference(a, b []oracle.Table) string {
	for i := range min(len(a), len(b)) {
		if !reflect.DeepEqual(a[i], b[i]) {
			return fmt.Sprintf("table %s:\n%s-- against %s:\n%s", a[i].Name, text(a[i].Rows), b[i].Name, text(b[i].Rows))
		}
	}
	if len(a) != len(b) {
		return fmt.Sprintf("%d tables against %d", len(a), len(b))
	}
	return ""
}

func find(t testing.TB, tables []oracle.Table, name string) oracle.Table {
	t.Helper()
	i := slices.IndexFunc(tables, func(x oracle.Table) bool { return x.Name == name })
	if i < 0 {
		t.Fatalf("table %s was not observed", name)
	}
	return tables[i]
}

// shape is "name:type>references*" for each column, * for those of the key.
func shape(tb oracle.Table) string {
	var s []string
	for i, c := range tb.Columns {
		x := c.Name + ":" + string(c.Type)
		if c.References != "" {
			x += ">" + c.References
		}
		if slices.Contains(tb.Key, i) {
			x += "*"
		}
		s = append(s, x)
	}
	return strings.Join(s, " ")
}

func TestObserveShape(t *testing.T) {
	w := open(t, newServer(t, fixture+`
		CREATE TABLE a (id uuid PRIMARY KEY, u uuid UNIQUE DEFAULT gen_random_uuid(), fixed uuid DEFAULT '00000000-0000-0000-0000-000000000001');
		CREATE TABLE b (a uuid PRIMARY KEY REFERENCES a (u), code text DEFAULT 'B-' || nextval('tickets'), plain int REFERENCES "Odd ""Name""");
		CREATE TABLE c (b uuid REFERENCES b, t time, d workday, ts timestamp, span interval, tag text DEFAULT gen_random_uuid()::text);
		CREATE TABLE early (x uuid); CREATE TABLE late (y uuid UNIQUE REFERENCES a (u)); ALTER TABLE early ADD FOREIGN KEY (x) REFERENCES late (y);
		CREATE TABLE d (kind text, id int, FOREIGN KEY (kind, id) REFERENCES events (kind, id));
	`), "app", snapshot.Options{})
	tables := observe(t, w, nil)
	for name, want := range map[string]string{
		"accounts":              "id:id* owner:plain balance:plain doubled:plain updated_at:time m:plain",
		"transfers":             "id:id* source:id>accounts.id target:id>accounts.id amount:plain note:json tags:plain raw:plain at:time",
		"lines":                 "a:plain* b:plain* qty:plain",
		"documents":             "id:id* parent:id>documents.id body:json due:time",
		`"Billing.eu".Invoices`: "id:id t_id:id>transfers.id total:plain",
		"events":                "id:id* kind:plain* v:plain",
		"audit":                 "what:plain n:plain doc:plain place:plain",
		"a":                     "id:plain* u:id fixed:plain",
		"b":                     `a:id>a.u* code:id plain:plain>Odd "Name".Select`,
		"c":                     "b:id>b.a t:time d:time ts:time span:plain tag:id",
		"d":                     "kind:plain>events.kind id:id>events.id",
		"early":                 "x:id>late.y",
		"nothing":               "",
	} {
		if got := shape(find(t, tables, name)); got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
	}
	if key := find(t, tables, "lines").Key; !slices.Equal(key, []int{1, 0}) {
		t.Errorf("key of lines = %v: want its order in the key, (b, a)", key)
	}
	if slices.ContainsFunc(tables, func(x oracle.Table) bool { return strings.HasPrefix(x.Name, "events_") }) {
		t.Error("partitions are observed beside their root")
	}
	notes := strings.Join(w.snap.Notes(), "\n")
	for _, want := range []string{"materialized view totals", "sequence shouting hands out 10 values"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes %q do not say %q", notes, want)
		}
	}
}

func TestObserveRows(t *testing.T) {
	c := newServer(t, `
		CREATE TABLE t (id int PRIMARY KEY, f float8, ts timestamptz, b bytea, flag bool, s text);
		INSERT INTO t VALUES (10, 0.1, '2024-03-01 12:00:00+02', '\xFF00', true, NULL), (9, 1e300, NULL, '', NULL, '');
		CREATE TABLE other (x int); INSERT INTO other VALUES (2), (NULL), (10)`)
	if err := c.CreateDatabase(t.Context(), "app", "seed"); err != nil {
		t.Fatal(err)
	}
	// The database's and the role's own settings must not show in the text.
	admin := dial(t, c.URL("postgres"))
	for _, set := range []string{"DateStyle = 'German'", "TimeZone = 'Asia/Tokyo'", "bytea_output = escape", "extra_float_digits = -15"} {
		if _, err := admin.Exec(t.Context(), "ALTER DATABASE app SET "+set); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, c: c, db: "app", app: dial(t, c.URL("app")), conn: dial(t, c.URL("app"))}
	w.take(snapshot.Options{})

	const first = "9|1e+300|NULL|\\x|NULL|\n10|0.1|2024-03-01 10:00:00+00|\\xff00|true|NULL\n"
	if got := text(find(t, observe(t, w, nil), "t").Rows); got != first {
		t.Errorf("rows:\n%swant:\n%s", got, first)
	}
	// Neither dirty tables nor sequences: nothing to send.
	w.reset([]string{})
	if got := text(find(t, observe(t, w, []string{}), "t").Rows); got != first {
		t.Errorf("rows from memory:\n%swant:\n%s", got, first)
	}
	w.exec(`UPDATE t SET s = 'changed' WHERE id = 10`, `INSERT INTO other VALUES (1)`)
	tables := observe(t, w, []string{"t"})
	if got := text(find(t, tables, "t").Rows); !strings.Contains(got, "changed") {
		t.Errorf("a dirty table was not read:\n%s", got)
	}
	if got := text(find(t, tables, "other").Rows); got != "NULL\n10\n2\n" {
		t.Errorf("a table that is not dirty was not taken from memory:\n%s", got)
	}
	if got := text(find(t, observe(t, w, nil), "other").Rows); got != "NULL\n1\n10\n2\n" {
		t.Errorf("Observe(nil) did not read all:\n%s", got)
	}
	if got := text(find(t, observe(t, w, []string{"no such table"}), "other").Rows); got != "NULL\n1\n10\n2\n" {
		t.Errorf("Observe of an unknown name did not read all:\n%s", got)
	}
	w.reset(nil)
	if got := text(find(t, observe(t, w, []string{"t"}), "t").Rows); got != first {
		t.Errorf("rows after reset:\n%s", got)
	}
}

func TestExclude(t *testing.T) {
	c := newServer(t, fixture)
	w := open(t, c, "app", snapshot.Options{Exclude: []string{"audit", "accounts.updated_at", `"Billing.eu".Invoices`, "lines.b"}})
	tables := observe(t, w, nil)
	for _, name := range []string{"audit", `"Billing.eu".Invoices`} {
		if slices.ContainsFunc(tables, func(x oracle.Table) bool { return x.Name == name }) {
			t.Errorf("%s is observed although excluded", name)
		}
	}
	accounts := find(t, tables, "accounts")
	if got, want := shape(accounts), "id:id* owner:plain balance:plain doubled:plain m:plain"; got != want {
		t.Errorf("accounts: %s, want %s", got, want)
	}
	if len(accounts.Rows[0]) != len(accounts.Columns) {
		t.Errorf("%d cells for %d columns", len(accounts.Rows[0]), len(accounts.Columns))
	}
	if lines := find(t, tables, "lines"); len(lines.Key) != 0 {
		t.Errorf("lines without a column of its key has the key %v", lines.Key)
	}
	// Excluded is restored all the same.
	want := w.content()
	w.exec(`UPDATE accounts SET updated_at = 'epoch'`, `DELETE FROM audit`)
	w.reset([]string{"accounts", "audit"})
	sameContent(t, "excluded", w.content(), want)

	conn := dial(t, c.URL("app"))
	for _, name := range []string{"acounts", "accounts.nme"} {
		_, err := snapshot.Take(t.Context(), conn, snapshot.Options{Exclude: []string{name}})
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "accounts") {
			t.Errorf("exclude %s: %v", name, err)
		}
	}
}

// TestLargeTables: with every table "large", runs that leave the same content
// are observed the same, and others are not.
func TestLargeTables(t *testing.T) {
	w := open(t, newServer(t, fixture), "app", snapshot.Options{LargeRows: 1, Exclude: []string{"accounts.updated_at", "accounts.m"}})
	want := w.content()
	for _, tb := range observe(t, w, nil) {
		if len(tb.Columns) > 0 && tb.Columns[0].Name == "(change)" && len(tb.Rows) > 0 {
			t.Errorf("%s differs at once:\n%s", tb.Name, text(tb.Rows))
		}
	}
	w.exec(
		`UPDATE accounts SET balance = 11 WHERE id = 2`, `UPDATE accounts SET m = 'sad' WHERE id = 3`,
		`INSERT INTO accounts (id, owner, balance) VALUES (10, 'x', 1)`,
		`INSERT INTO audit SELECT * FROM audit WHERE what = 'twin' LIMIT 1`,
		`UPDATE events SET id = 400 WHERE v = 2`, `DELETE FROM lines WHERE a = 9`)
	tables := observe(t, w, []string{"accounts", "audit", "events", "lines"})
	for name, rows := range map[string]string{
		"accounts": "added|2|o2|11.00|22.00\nremoved|2|o2|20.00|40.00\nadded|10|x|1.00|2.00\n",
		"audit": "added|INSERT|1|NULL|NULL\nadded|UPDATE|1|NULL|NULL\nadded|UPDATE|1|NULL|NULL\n" +
			"added|twin|1|<a/>|(1,2)\n",
		"events": "removed|2|c|2\nadded|400|c|2\n",
		"lines":  "removed|9|B0|9\n",
	} {
		tb := find(t, tables, name)
		if got := text(tb.Rows); got != rows {
			t.Errorf("%s:\n%swant:\n%s", name, got, rows)
		}
	}
	if got, key := shape(find(t, tables, "events")), find(t, tables, "events").Key; got != "(change):plain* id:id* kind:plain* v:plain" || key[0] != 0 {
		t.Errorf("events: %s, key %v", got, key)
	}
	w.reset(nil)
	sameContent(t, "large", w.content(), want)
	if notes := strings.Join(w.snap.Notes(), "\n"); !strings.Contains(notes, "table accounts has 8 rows") {
		t.Errorf("notes = %s", notes)
	}
}
