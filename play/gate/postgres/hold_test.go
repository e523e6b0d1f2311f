package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/gate/postgres"
)

func execute(r *rig, c *pgx.Conn, sql string, args ...any) func() error {
	return r.async(func() error {
		_, err := c.Exec(r.ctx, sql, args...)
		return err
	})
}

// A held statement has no effect, a released one has it and its answer is not
// known to the application, a delivered one is.
func TestHoldReleaseDeliver(t *testing.T) {
	r := newRig(t)
	c := r.connect()
	r.Hold(true)
	delivered := make(chan struct{})
	wait := r.async(func() error {
		defer close(delivered)
		_, err := c.Exec(r.ctx, "UPDATE accounts\n SET balance = balance - $1 WHERE id = $2", 30, 1)
		return err
	})
	e := r.next(gate.Held)
	if e.Step.Conn != e.Conn || e.Step.ID != e.ID || e.Step.Gate != "postgres" || e.Step.Instance != 0 {
		t.Errorf("step %+v of event %+v", e.Step, e)
	}
	if want := "UPDATE accounts SET balance = balance - $1 WHERE id = $2  [30, 1]"; e.Step.Label != want {
		t.Errorf("label %q, want %q", e.Step.Label, want)
	}
	if got := r.query("SELECT balance::text FROM accounts WHERE id = 1"); got != "100" {
		t.Errorf("while held: balance %s", got)
	}
	var stepErr *postgres.StepError
	if err := r.Deliver(r.ctx, e.ID); !errors.As(err, &stepErr) || stepErr.State != "held" {
		t.Errorf("deliver a held step: %v", err)
	}
	r.must(r.Release(r.ctx, e.ID, false))
	a := r.next(gate.Answered)
	if a.ID != e.ID || a.Answer.Summary != "UPDATE 1" || a.Answer.Open || a.Answer.Code != "" {
		t.Errorf("answer %+v", a.Answer)
	}
	if got := r.query("SELECT balance::text FROM accounts WHERE id = 1"); got != "70" {
		t.Errorf("after release: balance %s", got)
	}
	select {
	case <-delivered:
		t.Error("the application has the answer before Deliver")
	default:
	}
	r.must(r.Deliver(r.ctx, e.ID))
	r.must(wait())
	if err := r.Deliver(r.ctx, e.ID); !errors.Is(err, postgres.ErrGone) {
		t.Errorf("deliver twice: %v", err)
	}
	r.quiet()
}

func TestTransactionIsOpen(t *testing.T) {
	r := newRig(t)
	c := r.connect()
	r.Hold(true)
	wait := r.async(func() error {
		return pgx.BeginFunc(r.ctx, c, func(tx pgx.Tx) error {
			var n int
			return tx.QueryRow(r.ctx, "SELECT balance FROM accounts WHERE id = $1", 1).Scan(&n)
		})
	})
	for _, want := range []struct {
		label, summary string
		open           bool
	}{
		{"begin", "BEGIN", true},
		{"SELECT balance FROM accounts WHERE id = $1  [1]", "balance=100", true},
		{"commit", "COMMIT", false},
	} {
		s, a := r.step()
		if s.Label != want.label || a.Summary != want.summary || a.Open != want.open {
			t.Errorf("step %q answered %q open %t, want %+v", s.Label, a.Summary, a.Open, want)
		}
	}
	r.must(wait())
}

// An update that waits for another's row lock is seen waiting, and for whom;
// the holder's COMMIT wakes it.
func TestWaiting(t *testing.T) {
	r := newRig(t)
	a, b := r.connect(), r.connect()
	_, err := a.Exec(r.ctx, "BEGIN")
	r.must(err)
	r.Hold(true)
	waitA := execute(r, a, "UPDATE accounts SET balance = 1 WHERE id = 1")
	sa, _ := r.step()
	r.must(waitA())
	waitB := execute(r, b, "UPDATE accounts SET balance = 2 WHERE id = 1")
	sb := r.next(gate.Held).Step
	if ws, err := r.Waiting(r.ctx, []uint64{sb.ID}); err != nil || len(ws) != 0 {
		t.Errorf("held step waits: %v %v", ws, err)
	}
	r.must(r.Release(r.ctx, sb.ID, false))
	ws := r.waits(sb.ID)
	if len(ws) != 1 || ws[0].ID != sb.ID || len(ws[0].For) != 1 || ws[0].For[0] != sa.Conn {
		t.Fatalf("waits %+v, want step %d for connection %d", ws, sb.ID, sa.Conn)
	}
	waitCommit := execute(r, a, "COMMIT")
	sc := r.next(gate.Held).Step
	r.must(r.Release(r.ctx, sc.ID, false))
	got := map[uint64]string{}
	for range 2 {
		e := r.next(gate.Answered)
		got[e.ID] = e.Answer.Summary
	}
	if got[sb.ID] != "UPDATE 1" || got[sc.ID] != "COMMIT" {
		t.Errorf("answers %v", got)
	}
	if ws, err := r.Waiting(r.ctx, []uint64{sb.ID}); err != nil || len(ws) != 0 {
		t.Errorf("answered step waits: %v %v", ws, err)
	}
	r.must(r.Deliver(r.ctx, sb.ID))
	r.must(r.Deliver(r.ctx, sc.ID))
	r.must(waitB())
	r.must(waitCommit())
}

// waits asks until the step waits; the context ends a test where it never does.
func (r *rig) waits(id uint64) []gate.Wait {
	r.t.Helper()
	for {
		ws, err := r.Waiting(r.ctx, []uint64{id})
		r.must(err)
		if len(ws) > 0 {
			return ws
		}
	}
}

// Abort with a held step, an open transaction, a step that waits for a lock and
// an idle connection: the first three go, and no lock of theirs is left.
func TestAbort(t *testing.T) {
	r := newRig(t)
	idle, holder, waiter, late := r.connect(), r.connect(), r.connect(), r.connect()
	_, err := holder.Exec(r.ctx, "BEGIN; UPDATE accounts SET balance = 0 WHERE id = 1")
	r.must(err)
	r.Hold(true)
	waitWaiter := execute(r, waiter, "UPDATE accounts SET balance = 2 WHERE id = 1")
	sw := r.next(gate.Held).Step
	r.must(r.Release(r.ctx, sw.ID, false))
	r.waits(sw.ID)
	waitLate := execute(r, late, "UPDATE accounts SET balance = 3 WHERE id = 2")
	sl := r.next(gate.Held).Step

	pids := []uint32{holder.PgConn().PID(), waiter.PgConn().PID(), late.PgConn().PID()}
	r.must(r.Abort(r.ctx))
	var left int
	r.must(r.admin.QueryRow(r.ctx, "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY($1)", pids).Scan(&left))
	if left != 0 {
		t.Errorf("%d backends are left", left)
	}
	r.must(r.admin.QueryRow(r.ctx, "SELECT count(*) FROM pg_locks WHERE pid = ANY($1)", pids).Scan(&left))
	if left != 0 {
		t.Errorf("%d locks are left", left)
	}
	if waitWaiter() == nil || waitLate() == nil {
		t.Error("an aborted statement succeeded")
	}
	closed := map[uint64]bool{}
	for range 3 {
		closed[r.next(gate.Closed).Conn] = true
	}
	if !closed[sw.Conn] || !closed[sl.Conn] {
		t.Errorf("closed %v, want %d and %d and the holder's", closed, sw.Conn, sl.Conn)
	}
	if err := r.Release(r.ctx, sl.ID, false); !errors.Is(err, postgres.ErrGone) {
		t.Errorf("release after abort: %v", err)
	}
	if got := r.query("SELECT string_agg(balance::text, ' ' ORDER BY id) FROM accounts"); got != "100 50" {
		t.Errorf("balances %s: something had an effect", got)
	}
	r.Hold(false)
	r.must(idle.Ping(r.ctx))
}

// Abort returns after the locks are gone, not before: the next look finds none.
func TestAbortWaits(t *testing.T) {
	r := newRig(t)
	for range 20 {
		c := r.connect()
		_, err := c.Exec(r.ctx, "BEGIN; LOCK TABLE accounts")
		r.must(err)
		r.must(r.Abort(r.ctx))
		r.exec("BEGIN; LOCK TABLE accounts NOWAIT; COMMIT")
	}
}

// Without the right to end backends, Abort cancels what waits.
func TestAbortWithoutRights(t *testing.T) {
	weaken(t)
	r := newRig(t, func(c *postgres.Config) { c.Admin = strings.Replace(c.Admin, "postgres@", "weak@", 1) })
	holder, waiter := r.connect(), r.connect()
	_, err := holder.Exec(r.ctx, "BEGIN; UPDATE accounts SET balance = 0 WHERE id = 1")
	r.must(err)
	r.Hold(true)
	wait := execute(r, waiter, "UPDATE accounts SET balance = 2 WHERE id = 1")
	s := r.next(gate.Held).Step
	r.must(r.Release(r.ctx, s.ID, false))
	r.waits(s.ID)
	r.must(r.Abort(r.ctx))
	if wait() == nil {
		t.Error("an aborted statement succeeded")
	}
	if got := r.query("SELECT string_agg(balance::text, ' ' ORDER BY id) FROM accounts"); got != "100 50" {
		t.Errorf("balances %s", got)
	}
}

// Hold(false) lets go what is held, at the server and answered.
func TestHoldOffPassesAll(t *testing.T) {
	r := newRig(t)
	a, b := r.connect(), r.connect()
	r.Hold(true)
	waitA := execute(r, a, "UPDATE accounts SET balance = 1 WHERE id = 1")
	r.next(gate.Held)
	waitB := execute(r, b, "UPDATE accounts SET balance = 2 WHERE id = 2")
	s := r.next(gate.Held).Step
	r.must(r.Release(r.ctx, s.ID, false))
	r.next(gate.Answered)
	r.Hold(false)
	r.must(waitA())
	r.must(waitB())
	r.quiet()
	if got := r.query("SELECT string_agg(balance::text, ' ' ORDER BY id) FROM accounts"); got != "1 2" {
		t.Errorf("balances %s", got)
	}
}

func TestPass(t *testing.T) {
	r := newRig(t)
	c := r.connect()
	r.Hold(true)
	wait := execute(r, c, "UPDATE accounts SET balance = 1 WHERE id = 1")
	s := r.next(gate.Held).Step
	r.must(r.Pass(r.ctx, s.ID))
	r.must(wait())
	r.quiet()
	if _, err := r.Waiting(r.ctx, []uint64{s.ID}); err != nil {
		t.Error(err)
	}
}

// Each instance has its own way in, and its number is on its steps.
func TestInstances(t *testing.T) {
	r := newRig(t)
	n, addr, err := r.AddInstance(r.ctx)
	r.must(err)
	if n != 1 || addr == r.addr {
		t.Errorf("instance %d at %s, the first at %s", n, addr, r.addr)
	}
	r.addr = addr
	c := r.connect()
	r.Hold(true)
	wait := execute(r, c, "SELECT 1 AS one")
	if s, _ := r.step(); s.Instance != 1 {
		t.Errorf("step of instance %d", s.Instance)
	}
	r.must(wait())
}

// A client that leaves with a held step takes it along.
func TestClientLeaves(t *testing.T) {
	r := newRig(t)
	c := r.connect()
	r.Hold(true)
	wait := execute(r, c, "UPDATE accounts SET balance = 1 WHERE id = 1")
	s := r.next(gate.Held).Step
	r.must(c.PgConn().Conn().Close())
	if e := r.next(gate.Closed); e.Conn != s.Conn {
		t.Errorf("closed %d, want %d", e.Conn, s.Conn)
	}
	if wait() == nil {
		t.Error("the statement succeeded")
	}
	if err := r.Release(context.Background(), s.ID, false); !errors.Is(err, postgres.ErrGone) {
		t.Errorf("release: %v", err)
	}
	if got := r.query("SELECT balance::text FROM accounts WHERE id = 1"); got != "100" {
		t.Errorf("balance %s", got)
	}
}
