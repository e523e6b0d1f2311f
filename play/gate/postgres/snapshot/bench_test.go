package snapshot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/play/gate/postgres/snapshot"
)

// tablesScript makes 20 tables with a sequence and so many rows each; every
// second one refers to the one before.
func tablesScript(rows int) string {
	var b strings.Builder
	for i := range 20 {
		fmt.Fprintf(&b, "CREATE TABLE t%d (id serial PRIMARY KEY, owner text, balance numeric NOT NULL, body jsonb, at timestamptz", i)
		if i%2 == 1 {
			fmt.Fprintf(&b, ", ref int REFERENCES t%d", i-1)
		}
		b.WriteString(");\n")
		fmt.Fprintf(&b, `INSERT INTO t%d (owner, balance, body, at) SELECT 'owner ' || i, i, '{"a": 1, "b": [1, 2]}', now() FROM generate_series(1, %d) i;`, i, rows)
	}
	return b.String()
}

// BenchmarkReset compares ways back to the recorded state after a run that has
// updated one row and inserted two in two of the tables. Each reports the
// median in ms; the time of the run itself is left out.
func BenchmarkReset(b *testing.B) {
	for _, rows := range []int{100, 1000} {
		c := newServer(b, tablesScript(rows))
		w := open(b, c, "app", snapshot.Options{})
		run := func() {
			w.exec(`UPDATE t3 SET balance = balance - 1 WHERE id = 7`,
				`INSERT INTO t3 (owner, balance) VALUES ('new', 1)`, `INSERT INTO t4 (owner, balance) VALUES ('new', 1)`)
		}
		name := func(s string) string { return fmt.Sprintf("%d_rows/%s", 20*rows, s) }
		b.Run(name("two_dirty"), func(b *testing.B) {
			median(b, run, func() { w.reset([]string{"t3", "t4"}) })
		})
		b.Run(name("all_tables"), func(b *testing.B) {
			median(b, run, func() { w.reset(nil) })
		})
		b.Run(name("observe_two_dirty"), func(b *testing.B) {
			median(b, run, func() { observe(b, w, []string{"t3", "t4"}) })
			w.reset(nil)
		})
		b.Run(name("changed"), func(b *testing.B) {
			median(b, func() {}, func() { w.unchanged("bench") })
		})
		b.Run(name("check_schema"), func(b *testing.B) {
			median(b, func() {}, func() {
				if err := w.snap.CheckSchema(b.Context()); err != nil {
					b.Fatal(err)
				}
			})
		})
		b.Run(name("take"), func(b *testing.B) {
			median(b, func() {}, func() { w.take(snapshot.Options{}) })
		})
		b.Run(name("delete_and_insert"), func(b *testing.B) {
			// What a reset costs that does not compare: also quiet, one round
			// trip, without a verification.
			sqls := deleteAndInsert(w)
			median(b, run, func() {
				batch := new(pgx.Batch)
				for _, sql := range sqls {
					batch.Queue(sql)
				}
				if err := w.conn.SendBatch(b.Context(), batch).Close(); err != nil {
					b.Fatal(err)
				}
			})
		})
		b.Run(name("create_database_template"), func(b *testing.B) {
			median(b, func() {}, func() {
				if err := c.CreateDatabase(b.Context(), "other", "seed"); err != nil {
					b.Fatal(err)
				}
				if err := c.DropDatabase(b.Context(), "other"); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func deleteAndInsert(w *world) (sqls []string) {
	for _, t := range []string{"t3", "t4"} {
		oid := w.query("SELECT '" + t + "'::regclass::oid::text")
		sqls = append(sqls, "DELETE FROM "+t, "INSERT INTO "+t+` SELECT * FROM _holdfast_snapshot."t`+oid+`"`)
	}
	return sqls
}

// median runs prepare and f in turn and reports the median and the 99th
// percentile of f.
func median(b *testing.B, prepare, f func()) {
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		prepare()
		b.StartTimer()
		began := time.Now()
		f()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(took[len(took)/2]), "ms/median")
	b.ReportMetric(ms(took[len(took)*99/100]), "ms/p99")
	b.ReportMetric(0, "ns/op")
}
