package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/play/gate"
)

// BenchmarkSelect is an autocommit SELECT by primary key, over the direct
// connection, through the gate with holding off, and as a step that is held,
// released, answered and delivered.
func BenchmarkSelect(b *testing.B) {
	r := analysedRig(b)
	srv, err := server()
	r.must(err)
	selects := func(c *pgx.Conn, n int) error {
		for range n {
			var balance int
			if err := c.QueryRow(r.ctx, "SELECT balance FROM accounts WHERE id = $1", 1).Scan(&balance); err != nil {
				return err
			}
		}
		return nil
	}
	b.Run("direct", func(b *testing.B) {
		c, err := pgx.Connect(r.ctx, srv.URL(r.db))
		r.must(err)
		defer c.Close(r.ctx)
		r.must(selects(c, 1))
		b.ResetTimer()
		r.must(selects(c, b.N))
	})
	c := r.connect()
	r.must(selects(c, 1))
	b.Run("passed", func(b *testing.B) { r.must(selects(c, b.N)) })
	b.Run("held", func(b *testing.B) {
		r.Hold(true)
		defer r.Hold(false)
		wait := r.async(func() error { return selects(c, b.N) })
		for range b.N {
			id := (<-r.events).ID
			r.must(r.Release(r.ctx, id, false))
			<-r.events
			r.must(r.Deliver(r.ctx, id))
		}
		r.must(wait())
	})
	b.Run("waiting", func(b *testing.B) {
		r.Hold(true)
		defer r.Hold(false)
		wait := r.async(func() error {
			_, err := c.Exec(r.ctx, "SELECT pg_sleep(3600)")
			return err
		})
		id := r.next(gate.Held).ID
		r.must(r.Release(r.ctx, id, false))
		for b.Loop() {
			if ws, err := r.Waiting(r.ctx, []uint64{id}); err != nil || len(ws) != 0 {
				b.Fatal(ws, err)
			}
		}
		r.must(r.Abort(r.ctx))
		if wait() == nil {
			b.Error("the sleep ended")
		}
	})
}
