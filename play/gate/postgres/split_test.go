package postgres_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast/play/gate"
)

const insertOnce = "INSERT INTO once SELECT $1::int, $2::text WHERE NOT EXISTS (SELECT FROM once WHERE id = $1)"

func splitRig(t *testing.T) *rig {
	r := newRig(t)
	r.exec(`DROP TABLE IF EXISTS once, "Odd name"; CREATE TABLE once (id int, who text); CREATE TABLE "Odd name" (id int)`)
	r.must(r.InstallSplit(r.ctx, []string{"once", "public.accounts", "Odd name", `public."Odd name"`}))
	t.Cleanup(func() {
		if err := r.RemoveSplit(r.ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// The race inside one statement. Both statements take their snapshot before
// either inserts, so both insert, every time; released whole, one after the
// other, only the first does.
func TestSplitInsertWhereNotExists(t *testing.T) {
	r := splitRig(t)
	a, b := r.connect(), r.connect("lock_timeout=1")
	for _, two := range []bool{false, true} {
		both := 0
		for i := range 20 {
			r.Hold(true)
			var waits []func() error
			var ids []uint64
			waits = append(waits, execute(r, a, insertOnce, i, "a"))
			ids = append(ids, r.next(gate.Held).ID)
			waits = append(waits, execute(r, b, insertOnce, i, "b"))
			ids = append(ids, r.next(gate.Held).ID)
			for _, id := range ids {
				r.must(r.Release(r.ctx, id, two))
				if two {
					if e := r.next(gate.Paused); e.ID != id {
						t.Fatalf("paused %d, want %d", e.ID, id)
					}
				} else {
					r.next(gate.Answered)
				}
			}
			for _, id := range ids {
				if two {
					r.must(r.Resume(r.ctx, id))
					r.next(gate.Answered)
				}
				r.must(r.Deliver(r.ctx, id))
			}
			for _, w := range waits {
				r.must(w())
			}
			r.Hold(false)
			if r.query(fmt.Sprintf("SELECT count(*)::text FROM once WHERE id = %d", i)) == "2" {
				both++
			}
		}
		r.exec("DELETE FROM once")
		if want := map[bool]int{false: 0, true: 20}[two]; both != want {
			t.Errorf("in two parts %t: both inserted in %d of 20, want %d", two, both, want)
		}
	}
}

// The pause is before the first row is read or locked: while an UPDATE is
// paused, another's change of the same row goes through at once, and is then
// what the UPDATE goes on from.
func TestSplitPausesBeforeRows(t *testing.T) {
	r := splitRig(t)
	c := r.connect()
	r.Hold(true)
	wait := execute(r, c, "UPDATE accounts SET balance = balance - 1 WHERE id = 1")
	id := r.next(gate.Held).ID
	r.must(r.Release(r.ctx, id, true))
	r.next(gate.Paused)
	if ws, err := r.Waiting(r.ctx, []uint64{id}); err != nil || len(ws) != 0 {
		t.Errorf("the pause counts as a wait: %v %v", ws, err)
	}
	r.exec("SET lock_timeout = '5s'; UPDATE accounts SET balance = 10 WHERE id = 1")
	r.must(r.Resume(r.ctx, id))
	r.next(gate.Answered)
	r.must(r.Deliver(r.ctx, id))
	r.must(wait())
	if got := r.query("SELECT balance::text FROM accounts WHERE id = 1"); got != "9" {
		t.Errorf("balance %s", got)
	}
	if err := r.Resume(r.ctx, id); err == nil {
		t.Error("a step was resumed twice")
	}
}

// A statement that fires no trigger answers, and its lock is given back: the
// next one, released whole, is not stopped.
func TestSplitWithoutTrigger(t *testing.T) {
	r := splitRig(t)
	c := r.connect()
	r.Hold(true)
	wait := execute(r, c, "SELECT count(*) FROM accounts")
	id := r.next(gate.Held).ID
	r.must(r.Release(r.ctx, id, true))
	if a := r.next(gate.Answered).Answer; a.Summary != "count=2" {
		t.Errorf("answer %q", a.Summary)
	}
	r.must(r.Deliver(r.ctx, id))
	r.must(wait())
	wait = execute(r, c, "DELETE FROM accounts WHERE id = 2")
	if _, a := r.step(); a.Summary != "DELETE 1" {
		t.Errorf("answer %q", a.Summary)
	}
	r.must(wait())
	r.advisory(0)
}

// Abort ends a paused statement, and its lock is free afterwards. Hold(false)
// lets it go on.
func TestSplitEnds(t *testing.T) {
	r := splitRig(t)
	for _, abort := range []bool{true, false} {
		c := r.connect()
		r.Hold(true)
		wait := execute(r, c, "DELETE FROM accounts WHERE id = 1")
		r.must(r.Release(r.ctx, r.next(gate.Held).ID, true))
		r.next(gate.Paused)
		r.advisory(2)
		if abort {
			r.must(r.Abort(r.ctx))
			r.next(gate.Closed)
			r.Hold(false)
		} else {
			r.Hold(false)
		}
		if err := wait(); (err != nil) != abort {
			t.Errorf("abort %t: %v", abort, err)
		}
		r.advisory(0)
	}
}

// advisory waits until there are this many advisory locks, held or waited for;
// the trigger's message comes just before it waits.
func (r *rig) advisory(want int) {
	r.t.Helper()
	for r.query("SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory'") != fmt.Sprint(want) {
		r.must(r.ctx.Err())
	}
}

// Any user can run the trigger, also one with an empty search_path.
func TestSplitForOtherUser(t *testing.T) {
	weaken(t)
	r := splitRig(t)
	r.exec(`GRANT ALL ON "Odd name" TO weak`)
	c := r.connect("user=weak", "search_path=")
	r.Hold(true)
	wait := execute(r, c, `INSERT INTO public."Odd name" VALUES (1)`)
	id := r.next(gate.Held).ID
	r.must(r.Release(r.ctx, id, true))
	r.next(gate.Paused)
	r.must(r.Resume(r.ctx, id))
	r.next(gate.Answered)
	r.must(r.Deliver(r.ctx, id))
	r.must(wait())
}

func TestInstallSplitNamesTheTable(t *testing.T) {
	r := newRig(t)
	if err := r.InstallSplit(r.ctx, []string{"nowhere"}); err == nil || !contains(err.Error(), `"nowhere"`, "no such table") {
		t.Errorf("error %v", err)
	}
}
