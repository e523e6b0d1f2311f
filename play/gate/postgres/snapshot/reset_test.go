package snapshot_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/play/gate/postgres/snapshot"
)

func TestReset(t *testing.T) {
	w := open(t, newServer(t, fixture), "app", snapshot.Options{})
	if got := w.snap.Tables(); !slices.Equal(got, fixtureTables) {
		t.Fatalf("Tables() = %q, want %q", got, fixtureTables)
	}
	want := w.content()
	for _, tc := range []struct {
		name    string
		sql     []string
		changed []string // nil: none
	}{
		{"nothing", nil, nil},
		{"insert", []string{`INSERT INTO accounts (owner, balance) VALUES ('new', 5)`}, []string{"accounts", "audit"}},
		{"update", []string{`UPDATE accounts SET balance = 0 WHERE id = 3`}, []string{"accounts", "audit"}},
		{"update to the same", []string{`UPDATE lines SET qty = qty`}, nil},
		{"null to value and back", []string{`UPDATE transfers SET target = 1 WHERE target IS NULL`, `UPDATE transfers SET target = NULL WHERE id = 1`}, []string{"transfers"}},
		{"null against empty", []string{`UPDATE "Odd ""Name""" SET "from" = '' WHERE "Select" = 2`}, []string{`Odd "Name"`}},
		{"delete with cascade", []string{`DELETE FROM accounts WHERE id IN (1, 2)`}, []string{`"Billing.eu".Invoices`, "accounts", "audit", "transfers"}},
		{"delete what is referred to", []string{`DELETE FROM transfers`, `DELETE FROM accounts`}, []string{`"Billing.eu".Invoices`, "accounts", "audit", "transfers"}},
		{"truncate and restart", []string{`TRUNCATE accounts, transfers, "Billing.eu"."Invoices" RESTART IDENTITY`}, []string{`"Billing.eu".Invoices`, "accounts", "transfers"}},
		{"keys swapped", []string{`UPDATE accounts SET owner = 'x' WHERE id = 1`, `UPDATE accounts SET owner = 'o1' WHERE id = 2`, `UPDATE accounts SET owner = 'o2' WHERE id = 1`}, []string{"accounts", "audit"}},
		{"key changed", []string{`UPDATE lines SET a = a + 100 WHERE qty < 5`}, []string{"lines"}},
		{"letter case of a citext key", []string{`UPDATE lines SET b = lower(b::text) WHERE a = 1`}, []string{"lines"}},
		{"key type of another schema", []string{`UPDATE tree SET n = 0 WHERE path::text = 'a.b'`, `DELETE FROM tree WHERE n = 1`}, []string{"tree"}},
		{"rule must not stop the delete", []string{`INSERT INTO lines VALUES (1, 'z', 99)`}, []string{"lines"}},
		{"spacing in json", []string{`UPDATE transfers SET note = '{"a":1}' WHERE note IS NOT NULL`}, []string{"transfers"}},
		{"arrays and bytea", []string{`UPDATE transfers SET tags = tags || 'w'::text, raw = raw || '\x01' WHERE id < 5`}, []string{"transfers"}},
		{"scale of a numeric", []string{`UPDATE transfers SET amount = amount + 0.00`}, []string{"transfers"}},
		{"trigger refuses deletes", []string{`INSERT INTO documents (body) VALUES ('{}')`}, []string{"documents"}},
		{"one of two twins", []string{`DELETE FROM audit WHERE ctid = (SELECT min(ctid) FROM audit WHERE what = 'twin')`}, []string{"audit"}},
		{"a third twin", []string{`INSERT INTO audit SELECT * FROM audit WHERE what = 'twin' LIMIT 1`}, []string{"audit"}},
		{"xml and point", []string{`UPDATE audit SET doc = '<b/>', place = '(0,0)' WHERE n IS NULL`}, []string{"audit"}},
		{"no key, all gone", []string{`TRUNCATE audit`}, []string{"audit"}},
		{"partition moved", []string{`UPDATE events SET kind = 'a' WHERE v = 1`, `UPDATE events SET id = 300 WHERE v = 2`}, []string{"events"}},
		{"partition by its own name", []string{`DELETE FROM events_low`, `INSERT INTO events_high (id, kind, v) VALUES (999, 'q', 9)`}, []string{"events"}},
		{"parent of an inheritance", []string{`UPDATE animals SET legs = 3`}, []string{"animals", "dogs"}},
		{"dropped column", []string{`UPDATE dropped SET kept = 'x'`, `INSERT INTO dropped VALUES (3)`}, []string{"dropped"}},
		{"no columns", []string{`INSERT INTO nothing DEFAULT VALUES`}, []string{"nothing"}},
		{"no columns, all gone", []string{`TRUNCATE nothing, only_generated`}, []string{"nothing", "only_generated"}},
		{"unlogged", []string{`UPDATE cache SET v = 'w'`}, []string{"cache"}},
		{"sequences", []string{`SELECT nextval('tickets'), nextval('countdown'), setval('shouting', 77)`}, nil},
		{"sequence to its uncalled self", []string{`SELECT setval('shouting', 1, true)`}, nil},
	} {
		for how, dirty := range map[string][]string{"all": nil, "named": tc.changed} {
			w.exec(tc.sql...)
			changed, err := w.snap.Changed(t.Context())
			if err != nil || !slices.Equal(changed, tc.changed) {
				t.Errorf("%s: Changed() = %q %v, want %q", tc.name, changed, err, tc.changed)
			}
			if how == "named" && dirty == nil {
				dirty = []string{}
			}
			w.reset(dirty)
			sameContent(t, tc.name+" ("+how+")", w.content(), want)
			w.unchanged(tc.name)
			if t.Failed() {
				t.FailNow()
			}
		}
	}
}

func TestResetStats(t *testing.T) {
	w := open(t, newServer(t, fixture), "app", snapshot.Options{CheckEvery: 2})
	w.exec(`UPDATE accounts SET balance = 1 WHERE id < 3`, `INSERT INTO lines VALUES (1, 'new', 1)`, `SELECT nextval('tickets')`)
	got := w.reset([]string{"accounts", "lines"})
	// Two changed rows are deleted and inserted, one new row is deleted. The
	// trigger's rows in audit are not announced and stay.
	if got.Tables != 2 || got.Deleted != 3 || got.Inserted != 2 || got.Sequences != 1 || got.Checked || got.Took <= 0 {
		t.Errorf("stats = %+v", got)
	}
	if changed, err := w.snap.Changed(t.Context()); err != nil || !slices.Equal(changed, []string{"audit"}) {
		t.Errorf("Changed() = %q %v: the write that nobody announced", changed, err)
	}
	if got := w.reset([]string{"events"}); got.Tables != 3 || !got.Checked {
		t.Errorf("stats of a partitioned table = %+v", got)
	}
	// The view writes to a table: a name that is no table means every table.
	w.exec(`UPDATE rich SET balance = 77 WHERE id = 8`)
	if got := w.reset([]string{"rich"}); !got.Checked {
		t.Errorf("stats of a view = %+v", got)
	}
	w.unchanged("view")
}

// TestRandom runs random statements and compares everything after each reset.
func TestRandom(t *testing.T) {
	w := open(t, newServer(t, fixture), "app", snapshot.Options{})
	want := w.content()
	initial := observe(t, w, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	statements := []func() string{
		func() string {
			return fmt.Sprintf(`INSERT INTO accounts (owner, balance) VALUES ('r%d', %d)`, rng.IntN(9), rng.IntN(100))
		},
		func() string {
			return fmt.Sprintf(`UPDATE accounts SET balance = balance + %d, m = 'sad' WHERE id %% 3 = %d`, rng.IntN(3), rng.IntN(3))
		},
		func() string { return fmt.Sprintf(`DELETE FROM accounts WHERE id = %d`, rng.IntN(9)) },
		func() string {
			return fmt.Sprintf(`UPDATE accounts SET id = id + %d WHERE id > 5`, rng.IntN(3)*50)
		},
		func() string {
			return fmt.Sprintf(`INSERT INTO transfers (source, amount, tags) VALUES (%d, 1, '{}')`, rng.IntN(9))
		},
		func() string {
			return fmt.Sprintf(`UPDATE transfers SET note = '{"n":%d}' WHERE id %% 5 = 0`, rng.IntN(3))
		},
		func() string { return fmt.Sprintf(`INSERT INTO audit (what, n) VALUES ('twin', %d)`, rng.IntN(2)) },
		func() string {
			return fmt.Sprintf(`DELETE FROM audit WHERE ctid IN (SELECT ctid FROM audit OFFSET %d LIMIT 1)`, rng.IntN(4))
		},
		func() string {
			return fmt.Sprintf(`INSERT INTO audit SELECT * FROM audit OFFSET %d LIMIT 2`, rng.IntN(3))
		},
		func() string { return fmt.Sprintf(`UPDATE lines SET qty = qty + 1 WHERE a = %d`, rng.IntN(9)) },
		func() string { return fmt.Sprintf(`UPDATE lines SET b = 'c%d' WHERE a = %d`, rng.IntN(3), rng.IntN(9)) },
		func() string { return `INSERT INTO documents (body) SELECT body FROM documents LIMIT 1` },
		func() string { return fmt.Sprintf(`UPDATE events SET id = id + 97 WHERE v = %d`, rng.IntN(9)) },
		func() string { return fmt.Sprintf(`UPDATE events SET kind = 'a' WHERE v = %d`, rng.IntN(9)) },
		func() string { return fmt.Sprintf(`DELETE FROM animals WHERE legs = %d`, rng.IntN(5)) },
		func() string { return `TRUNCATE "Billing.eu"."Invoices" RESTART IDENTITY` },
		func() string { return `SELECT nextval('tickets')` },
		func() string {
			return fmt.Sprintf(`INSERT INTO "Billing.eu"."Invoices" (total) VALUES (%d)`, rng.IntN(3))
		},
	}
	ran, failed := 0, 0
	for round := range 60 {
		for range 1 + rng.IntN(6) {
			// Some are refused by a constraint, as an application's are.
			if _, err := w.app.PgConn().Exec(t.Context(), statements[rng.IntN(len(statements))]()).ReadAll(); err != nil {
				failed++
			}
			ran++
		}
		changed, err := w.snap.Changed(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// What is not dirty comes from memory; it must be what a full read gives.
		if diff := difference(observe(t, w, orEmpty(changed)), observe(t, w, nil)); diff != "" {
			t.Fatalf("round %d: Observe(%q) differs from Observe(nil): %s", round, changed, diff)
		}
		if round%2 == 0 {
			w.reset(orEmpty(changed))
		} else {
			w.reset(nil)
		}
		sameContent(t, fmt.Sprintf("round %d", round), w.content(), want)
		w.unchanged(fmt.Sprintf("round %d", round))
		if diff := difference(observe(t, w, nil), initial); diff != "" {
			t.Errorf("round %d: %s", round, diff)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	if failed*2 > ran {
		t.Errorf("%d of %d statements failed: the test does too little", failed, ran)
	}
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func TestSchemaChange(t *testing.T) {
	c := newServer(t, fixture)
	for i, tc := range []struct{ name, ddl, dirty, says string }{
		{"column added", `ALTER TABLE lines ADD extra int`, "", "+ column lines.extra"},
		{"column dropped, table dirty", `ALTER TABLE lines DROP qty CASCADE`, "lines", "- column lines.qty"},
		{"type changed", `ALTER TABLE transfers ALTER amount TYPE numeric(14,2)`, "", "numeric(14,2)"},
		{"default changed", `ALTER TABLE lines ALTER qty SET DEFAULT 4`, "", "lines.qty"},
		{"table dropped, dirty", `DROP TABLE lines`, "lines", "- table lines"},
		{"table made, dirty", `CREATE TABLE fresh (x int)`, "fresh", "+ table fresh"},
		{"constraint", `ALTER TABLE accounts DROP CONSTRAINT accounts_owner_key`, "", "- constraint accounts accounts_owner_key"},
		{"index", `CREATE INDEX ON lines (qty)`, "", "+ index"},
		{"trigger disabled", `ALTER TABLE accounts DISABLE TRIGGER log`, "", "trigger"},
		{"partition", `CREATE TABLE events_z PARTITION OF events FOR VALUES IN ('z')`, "", "events_z"},
		{"function", `CREATE OR REPLACE FUNCTION log_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`, "", "function log_change()"},
		{"sequence", `ALTER SEQUENCE tickets INCREMENT 2`, "", "sequence tickets"},
		{"enum", `ALTER TYPE mood ADD VALUE 'angry'`, "", "angry"},
	} {
		w := open(t, c, fmt.Sprintf("app%d", i), snapshot.Options{})
		if err := w.snap.CheckSchema(t.Context()); err != nil {
			t.Errorf("%s: before: %v", tc.name, err)
		}
		w.exec(tc.ddl)
		var need *snapshot.NeedTemplateError
		err := w.snap.CheckSchema(t.Context())
		if !errors.As(err, &need) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: CheckSchema: %v, want %q", tc.name, err, tc.says)
		}
		if tc.dirty != "" {
			_, err := w.snap.Reset(t.Context(), []string{tc.dirty})
			if !errors.As(err, &need) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: Reset: %v, want %q", tc.name, err, tc.says)
			}
		}
		w.close()
	}
	// What runs and Holdfast itself do is no change of schema.
	w := open(t, c, "quiet", snapshot.Options{CheckEvery: 1})
	w.exec(`TRUNCATE events, accounts, transfers, "Billing.eu"."Invoices" RESTART IDENTITY`, `VACUUM ANALYZE`, `REINDEX TABLE lines`,
		`CREATE SCHEMA _holdfast`, `CREATE FUNCTION _holdfast.pause() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`,
		`CREATE TRIGGER pause BEFORE INSERT ON lines FOR EACH ROW EXECUTE FUNCTION _holdfast.pause()`, `CREATE TEMP TABLE mine (x int)`)
	w.reset(nil)
	w.unchanged("quiet")
	// The schema is compared every so many resets without being asked.
	w.exec(`ALTER TABLE lines ADD extra int`)
	var need *snapshot.NeedTemplateError
	if _, err := w.snap.Reset(t.Context(), []string{"cache"}); !errors.As(err, &need) {
		t.Errorf("Reset with CheckEvery: %v", err)
	}
	// After the change, a new Take on the same connection works.
	w.take(snapshot.Options{})
	w.exec(`UPDATE lines SET extra = 1`)
	w.reset([]string{"lines"})
	w.unchanged("taken again")
}

func TestVerificationFindsTampering(t *testing.T) {
	w := open(t, newServer(t, fixture), "app", snapshot.Options{})
	copies := w.query(`SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = '_holdfast_snapshot'::regnamespace
		AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'balance')`)
	w.exec(`UPDATE ` + copies + ` SET balance = 12 WHERE id = 4`)
	_, err := w.snap.Reset(t.Context(), []string{"accounts"})
	var need *snapshot.NeedTemplateError
	if !errors.As(err, &need) || need.Table != "accounts" || len(need.Changes) > 0 {
		t.Errorf("Reset from a copy that was tampered with: %v", err)
	}
	if err := w.snap.CheckSchema(t.Context()); err != nil {
		t.Errorf("the connection is not usable after that: %v", err)
	}
}

func TestTriggerThatAlwaysFires(t *testing.T) {
	w := open(t, newServer(t, fixture+`ALTER TABLE accounts ENABLE ALWAYS TRIGGER log;`), "app", snapshot.Options{})
	if notes := strings.Join(w.snap.Notes(), "\n"); !strings.Contains(notes, "trigger log on accounts is enabled ALWAYS") {
		t.Errorf("notes = %s", notes)
	}
	w.exec(`UPDATE accounts SET balance = 3 WHERE id = 2`)
	// Tables are restored in the order of the names given: audit, then
	// accounts, whose trigger writes to audit again.
	var need *snapshot.NeedTemplateError
	if _, err := w.snap.Reset(t.Context(), []string{"audit", "accounts"}); !errors.As(err, &need) || need.Table != "audit" {
		t.Errorf("err = %v", err)
	}
}

func TestBusy(t *testing.T) {
	w := open(t, newServer(t, fixture), "app", snapshot.Options{LockTimeout: 20 * time.Millisecond})
	w.exec(`UPDATE accounts SET balance = 1 WHERE id = 1`, `BEGIN`, `SELECT FROM accounts FOR UPDATE`)
	var busy *snapshot.BusyError
	if _, err := w.snap.Reset(t.Context(), []string{"accounts", "audit"}); !errors.As(err, &busy) || busy.Table != "accounts" {
		t.Fatalf("err = %v", err)
	}
	w.exec(`ROLLBACK`)
	w.reset([]string{"accounts", "audit"})
	w.unchanged("after the lock is gone")
}

func TestPrivilege(t *testing.T) {
	w := open(t, newServer(t, fixture), "app", snapshot.Options{})
	w.exec(`CREATE ROLE clerk LOGIN`)
	cfg := w.conn.Config().Copy()
	cfg.User = "clerk"
	_, err := snapshot.Take(t.Context(), dialConfig(t, cfg), snapshot.Options{})
	var denied *snapshot.PrivilegeError
	if !errors.As(err, &denied) {
		t.Errorf("err = %v", err)
	}
}

func TestTakeInTransaction(t *testing.T) {
	w := open(t, newServer(t, `CREATE TABLE t (x int)`), "app", snapshot.Options{})
	if _, err := w.app.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Take(t.Context(), w.app, snapshot.Options{}); err == nil || !strings.Contains(err.Error(), "inside a transaction") {
		t.Errorf("err = %v", err)
	}
}

func TestAdvanceSequences(t *testing.T) {
	w := open(t, newServer(t, fixture), "app", snapshot.Options{})
	next := func() string {
		return w.query(`INSERT INTO accounts (owner, balance) VALUES (gen_random_uuid()::text, 1) RETURNING id::text`) + " " +
			w.query(`SELECT nextval('tickets')::text`) + " " + w.query(`SELECT nextval('countdown')::text`)
	}
	if got := next(); got != "9 1005 -3" {
		t.Fatalf("before: %s", got)
	}
	w.reset(nil)
	if err := w.snap.AdvanceSequences(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	// accounts_id_seq is the second sequence by name, countdown (by -2) the third
	// and tickets (by 5) the sixth.
	if got := next(); got != "23 1215 -45" {
		t.Errorf("advanced by 7: %s", got)
	}
	w.reset(nil)
	if got := next(); got != "9 1005 -3" {
		t.Errorf("after the next reset: %s", got)
	}
	w.reset(nil)
	if err := w.snap.AdvanceSequences(t.Context(), 60); err != nil {
		t.Fatal(err)
	}
	// countdown ends at -100 and stays; the others go on.
	if got := next(); got != "129 2805 -3" {
		t.Errorf("advanced by 60: %s", got)
	}
	if notes := strings.Join(w.snap.Notes(), "\n"); !strings.Contains(notes, "1 sequence(s) are less than 60 steps from their end") {
		t.Errorf("notes = %s", notes)
	}
}

// TestVacuum: without vacuum every run leaves dead rows, and a small table
// grows without end.
func TestVacuum(t *testing.T) {
	w := open(t, newServer(t, `CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 100) i`),
		"app", snapshot.Options{})
	vacuums := 0
	for range 410 {
		w.exec(`UPDATE t SET v = v || 'y'`)
		if w.reset([]string{"t"}).Vacuumed {
			vacuums++
		}
	}
	if vacuums != 2 {
		t.Errorf("vacuumed %d times in 410 resets, want 2", vacuums)
	}
	if n := w.query(`SELECT vacuum_count::text FROM pg_stat_all_tables WHERE relname = 't'`); n != "3" {
		t.Errorf("the server counts %s vacuums, want 3 with that of Take", n)
	}
}
