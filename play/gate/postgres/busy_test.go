package postgres_test

import (
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/holdfast-dev/holdfast/play/gate"
)

func (r *rig) idle() {
	r.t.Helper()
	for r.Busy() {
		r.must(r.ctx.Err())
	}
}

// Busy is true from the moment an application has sent something, and false
// when only the player can go on.
func TestBusy(t *testing.T) {
	r := newRig(t)
	if r.Busy() {
		t.Error("busy without a connection")
	}
	c := newRaw(r)
	c.until('Z')
	r.idle()
	r.Hold(true)
	c.send(&pgproto3.Parse{Name: "s", Query: "SELECT 1 AS one"})
	for range 100 {
		if runtime.GOOS == "linux" && !r.Busy() {
			t.Fatal("not busy with half a cycle")
		}
	}
	c.send(&pgproto3.Sync{})
	c.until('Z')
	r.idle()
	for range 100 {
		c.send(&pgproto3.Query{String: "SELECT 1 AS one"})
		// A held step is announced before Busy ends.
		r.idle()
		if len(r.events) != 1 {
			t.Fatal("not busy, and no event")
		}
		s := r.next(gate.Held).Step
		r.must(r.Release(r.ctx, s.ID, false))
		r.next(gate.Answered)
		if r.idle(); len(r.events) != 0 {
			t.Fatal("an event came from nothing")
		}
		r.must(r.Deliver(r.ctx, s.ID))
		c.until('Z')
	}
}
