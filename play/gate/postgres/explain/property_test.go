package explain_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/explain"
)

// randomStatement is one statement over accounts, payments, coupons and people.
func randomStatement(rng *rand.Rand) string {
	id := rng.IntN(3)
	other := rng.IntN(3)
	code := string(rune('A' + rng.IntN(2)))
	return []string{
		fmt.Sprintf("SELECT balance, note FROM accounts WHERE id = %d", id),
		"SELECT count(*), sum(balance) FROM accounts",
		fmt.Sprintf("SELECT id FROM accounts WHERE owner = 'o%d' ORDER BY id", id),
		fmt.Sprintf("SELECT count(*) FROM payments WHERE account = %d", id),
		fmt.Sprintf("SELECT count(*) FROM payments p JOIN accounts a ON a.id = p.account WHERE a.owner = 'o%d'", id),
		fmt.Sprintf("UPDATE accounts SET balance = balance + 1 WHERE id = %d RETURNING balance", id),
		fmt.Sprintf("UPDATE accounts SET balance = balance * 2 WHERE id = %d RETURNING balance", id),
		fmt.Sprintf("UPDATE accounts SET owner = 'o%d' WHERE id = %d", other, id),
		fmt.Sprintf("UPDATE accounts SET owner = 'o%d' WHERE owner = 'o%d'", other, id),
		fmt.Sprintf("DELETE FROM accounts WHERE id = %d", id),
		fmt.Sprintf("DELETE FROM payments WHERE account = %d", id),
		fmt.Sprintf("INSERT INTO payments (account, amount) VALUES (%d, 1) RETURNING id", id),
		fmt.Sprintf("INSERT INTO accounts VALUES (%d, 'o9', 0, '') ON CONFLICT DO NOTHING", id),
		fmt.Sprintf("INSERT INTO coupons SELECT '%s', %d WHERE NOT EXISTS (SELECT FROM coupons WHERE code = '%s')", code, id, code),
		fmt.Sprintf("UPDATE coupons SET account = %d WHERE code = '%s'", other, code),
		fmt.Sprintf("SELECT account FROM coupons WHERE code = '%s' ORDER BY account", code),
		fmt.Sprintf("UPDATE people SET email = 'e%d' WHERE id = %d", other, id),
		fmt.Sprintf("UPDATE people SET name = 'n%d' WHERE id = %d", other, id),
		fmt.Sprintf("SELECT name FROM people WHERE email = 'e%d'", other),
		fmt.Sprintf("UPDATE events SET n = n + 1 WHERE at = '202%d-05-01'", 5+rng.IntN(2)),
		"SELECT sum(n) FROM events",
		fmt.Sprintf("SELECT sum(n) FROM events_202%d", 5+rng.IntN(2)),
		"INSERT INTO events VALUES ('2026-06-01', 1)",
	}[rng.IntN(23)]
}

const startState = `
INSERT INTO accounts SELECT i, 'o' || i, 10, '' FROM generate_series(0, 2) i;
INSERT INTO payments (account, amount) VALUES (0, 1), (1, 1);
INSERT INTO coupons VALUES ('A', 0);
INSERT INTO people SELECT i, 'm' || i, 'p' || i FROM generate_series(0, 2) i;
INSERT INTO events VALUES ('2025-05-01', 1), ('2026-05-01', 1);`

// content is everything that a statement could have changed.
const content = `SELECT (SELECT string_agg(a::text, ';' ORDER BY a::text) FROM accounts a)
 || (SELECT coalesce(string_agg(p::text, ';' ORDER BY p::text), '') FROM payments p)
 || (SELECT coalesce(string_agg(c::text, ';' ORDER BY c::text), '') FROM coupons c)
 || (SELECT string_agg(p::text, ';' ORDER BY p::text) FROM people p)
 || (SELECT string_agg(e::text, ';' ORDER BY e::text) FROM events e)
 || (SELECT last_value::text FROM payments_id_seq)`

// TestIndependentStatementsCommute is the promise of the package on the real
// server: where the footprints of two statements do not conflict, both orders
// give the same results and the same final state.
func TestIndependentStatementsCommute(t *testing.T) {
	url := server(t)
	conn := dial(t, url)
	if _, err := conn.Exec(t.Context(), startState, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	a := analyzer(t, url)
	rng := rand.New(rand.NewPCG(1, 2))
	footprintOf := func(sql string) explore.Footprint {
		return a.Session().Analyze(t.Context(), []explain.Statement{{SQL: sql, Simple: true}}).Footprint
	}
	independent, noticed := 0, 0
	for range 1500 {
		p, q := randomStatement(rng), randomStatement(rng)
		conflict := footprintOf(p).Conflicts(footprintOf(q))
		if conflict && rng.IntN(3) > 0 {
			continue
		}
		pq, qp := bothOrders(t, conn, p, q)
		if conflict {
			if pq != qp {
				noticed++
			}
			continue
		}
		independent++
		if pq != qp {
			t.Fatalf("these do not conflict, and their order can be seen:\n  %s\n  %s\n  %s\n  %s\n  %s\n  %s",
				p, footprintOf(p), q, footprintOf(q), pq, qp)
		}
	}
	t.Logf("%d independent pairs commute; the order of %d sampled conflicting pairs shows", independent, noticed)
	if independent < 200 || noticed < 10 {
		t.Errorf("too few pairs: %d independent, %d whose order shows", independent, noticed)
	}
}

// bothOrders runs the two statements in both orders, each in a transaction that
// is rolled back, and gives what was seen, by statement.
func bothOrders(t *testing.T, conn *pgx.Conn, p, q string) (pq, qp string) {
	t.Helper()
	order := func(first, second string) (a, b, state string) {
		// The sequence is not transactional.
		exec(t, conn, "SELECT setval('payments_id_seq', 10)")
		exec(t, conn, "BEGIN")
		a, b = exec(t, conn, first), exec(t, conn, second)
		state = exec(t, conn, content)
		exec(t, conn, "ROLLBACK")
		return a, b, state
	}
	pa, qa, sa := order(p, q)
	qb, pb, sb := order(q, p)
	return strings.Join([]string{pa, qa, sa}, "|"), strings.Join([]string{pb, qb, sb}, "|")
}

// exec runs a statement under a savepoint of its own, so that an error is an
// outcome like any other, and returns its result as text.
func exec(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	inTx := conn.PgConn().TxStatus() == 'T'
	if inTx {
		if _, err := conn.Exec(t.Context(), "SAVEPOINT s"); err != nil {
			t.Fatal(err)
		}
	}
	res, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		if !inTx || strings.HasPrefix(sql, "SELECT (SELECT") {
			t.Fatalf("%s: %v", sql, err)
		}
		if _, rerr := conn.Exec(t.Context(), "ROLLBACK TO s"); rerr != nil {
			t.Fatal(rerr)
		}
		return err.Error()
	}
	return fmt.Sprintf("%s %q", res[0].CommandTag, res[0].Rows)
}

// FuzzSplit: cutting text into statements never fails and loses no token.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"SELECT 1; SELECT 'a;b'", `E'\'; x'`, "$$;$$;", "/* ; /* */ */ a", `"a"";"`, "-- ;\nb", "$1 $a$ $a$", "'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		whole := explain.Tokens(sql)
		n := 0
		for _, p := range explain.Split(sql) {
			n += p
		}
		for _, tok := range whole {
			if tok == ";" {
				n++
			}
		}
		if n != len(whole) {
			t.Errorf("%q: %d tokens in statements and separators, %d in all", sql, n, len(whole))
		}
	})
}
