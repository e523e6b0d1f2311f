package postgres_test

import (
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/holdfast-dev/holdfast/play/gate"
)

// raw is a client that sends what drivers do not.
type raw struct {
	*pgproto3.Frontend
	r    *rig
	sock net.Conn
}

func newRaw(r *rig, params ...string) *raw {
	r.t.Helper()
	var d net.Dialer
	sock, err := d.DialContext(r.ctx, "tcp", r.addr)
	r.must(err)
	r.t.Cleanup(func() { sock.Close() })
	deadline, _ := r.ctx.Deadline()
	r.must(sock.SetDeadline(deadline))
	c := &raw{pgproto3.NewFrontend(sock, sock), r, sock}
	m := &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30,
		Parameters: map[string]string{"user": "postgres", "database": r.db}}
	for i := 0; i+1 < len(params); i += 2 {
		m.Parameters[params[i]] = params[i+1]
	}
	c.send(m)
	return c
}

func (c *raw) send(ms ...pgproto3.FrontendMessage) {
	c.r.t.Helper()
	for _, m := range ms {
		c.Send(m)
	}
	c.r.must(c.Flush())
}

// until reads up to a message of this type byte and gives the types read.
func (c *raw) until(kind byte) string {
	c.r.t.Helper()
	var got []byte
	for {
		m, err := c.Receive()
		if err != nil {
			c.r.t.Fatalf("after %q: %v", got, err)
		}
		b, err := m.(interface{ Encode([]byte) ([]byte, error) }).Encode(nil)
		c.r.must(err)
		got = append(got, b[0])
		if b[0] == kind {
			return string(got)
		}
	}
}

// Parse, Describe and Flush pass at once; Execute and Flush is a step, and the
// Sync after it another one, because it commits.
func TestFlush(t *testing.T) {
	r := newRig(t)
	c := newRaw(r)
	c.until('Z')
	r.Hold(true)
	c.send(&pgproto3.Parse{Name: "s", Query: "UPDATE accounts SET balance = $1 WHERE id = 1"},
		&pgproto3.Describe{ObjectType: 'S', Name: "s"}, &pgproto3.Flush{})
	if got := c.until('n'); got != "1tn" {
		t.Errorf("got %q", got)
	}
	r.quiet()
	c.send(&pgproto3.Bind{PreparedStatement: "s", ParameterFormatCodes: []int16{1}, Parameters: [][]byte{{0, 0, 0, 7}}},
		&pgproto3.Execute{}, &pgproto3.Flush{})
	s, a := r.step()
	if s.Label != "UPDATE accounts SET balance = $1 WHERE id = 1  [7]" || a.Summary != "UPDATE 1" || !a.Open {
		t.Errorf("step %q answered %+v", s.Label, a)
	}
	if got := c.until('C'); got != "2C" {
		t.Errorf("got %q", got)
	}
	c.send(&pgproto3.Sync{})
	sync := r.next(gate.Held).Step
	if got := r.query("SELECT balance::text FROM accounts WHERE id = 1"); got != "100" {
		t.Errorf("before Sync: balance %s", got)
	}
	r.must(r.Release(r.ctx, sync.ID, false))
	if a := r.next(gate.Answered).Answer; a.Open {
		t.Error("open after Sync")
	}
	r.must(r.Deliver(r.ctx, sync.ID))
	c.until('Z')
	if got := r.query("SELECT balance::text FROM accounts WHERE id = 1"); got != "7" {
		t.Errorf("after Sync: balance %s", got)
	}
}

// After an error the server skips all up to Sync: those parts are no steps,
// and what they would have defined is not defined.
func TestErrorSkipsToSync(t *testing.T) {
	r := newRig(t)
	c := newRaw(r)
	c.until('Z')
	c.send(&pgproto3.Parse{Name: "s", Query: "SELECT 1 AS one"}, &pgproto3.Sync{})
	c.until('Z')
	r.Hold(true)
	c.send(&pgproto3.Parse{Query: "SELECT 1/0"}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Flush{},
		&pgproto3.Close{ObjectType: 'S', Name: "s"}, &pgproto3.Parse{Name: "s", Query: "SELECT 2"},
		&pgproto3.Bind{PreparedStatement: "s"}, &pgproto3.Execute{}, &pgproto3.Flush{}, &pgproto3.Sync{})
	if _, a := r.step(); a.Code != "22012" || a.Open {
		t.Errorf("answer %+v", a)
	}
	if got := c.until('Z'); got != "1EZ" {
		t.Errorf("got %q", got)
	}
	r.quiet()
	c.send(&pgproto3.Bind{PreparedStatement: "s"}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}, &pgproto3.Sync{})
	if s, a := r.step(); s.Label != "SELECT 1 AS one" || a.Summary != "one=1" {
		t.Errorf("step %q answered %q", s.Label, a.Summary)
	}
	c.until('Z')
}

// A statement that is known to the server and not to the gate is a step still.
func TestUnknownStatement(t *testing.T) {
	r := newRig(t)
	c := newRaw(r)
	c.until('Z')
	c.send(&pgproto3.Query{String: "PREPARE p AS SELECT 5 AS five"})
	c.until('Z')
	r.Hold(true)
	c.send(&pgproto3.Bind{PreparedStatement: "p"}, &pgproto3.Execute{}, &pgproto3.Sync{})
	s, a := r.step()
	if !contains(s.Label, `"p"`, "not parsed through the gate") || !s.Footprint.Unknown || a.Summary != "SELECT 1: (columns not described)" && a.Summary != "(columns not described)" {
		t.Errorf("step %+v answered %q", s, a.Summary)
	}
	c.until('Z')
}

// libpq's COPY in the extended protocol sends Sync before the data, which the
// server ignores, and again after it.
func TestExtendedCopy(t *testing.T) {
	r := newRig(t)
	c := newRaw(r)
	c.until('Z')
	r.Hold(true)
	c.send(&pgproto3.Parse{Query: "COPY accounts FROM STDIN"}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{})
	s := r.next(gate.Held).Step
	r.must(r.Release(r.ctx, s.ID, false))
	if got := c.until('G'); got != "12G" {
		t.Errorf("got %q", got)
	}
	c.send(&pgproto3.CopyData{Data: []byte("9\t9\t\\N\n")}, &pgproto3.CopyDone{}, &pgproto3.Sync{})
	if a := r.next(gate.Answered); a.Answer.Summary != "COPY 1" || a.Answer.Open {
		t.Errorf("answer %+v", a.Answer)
	}
	r.must(r.Deliver(r.ctx, s.ID))
	if got := c.until('Z'); got != "CZ" {
		t.Errorf("got %q", got)
	}
	c.send(&pgproto3.Query{String: "SELECT 1 AS one"})
	if _, a := r.step(); a.Summary != "one=1" {
		t.Errorf("after the copy: %q", a.Summary)
	}
	c.until('Z')
}

// A notification of another session arrives while a step's answer is kept.
func TestNotificationPasses(t *testing.T) {
	r := newRig(t)
	c := newRaw(r)
	c.until('Z')
	c.send(&pgproto3.Query{String: "LISTEN ch"})
	c.until('Z')
	r.Hold(true)
	c.send(&pgproto3.Query{String: "SELECT 1"})
	s := r.next(gate.Held).Step
	r.must(r.Release(r.ctx, s.ID, false))
	r.next(gate.Answered)
	r.exec("NOTIFY ch")
	if got := c.until('A'); got != "A" {
		t.Errorf("got %q", got)
	}
	r.must(r.Deliver(r.ctx, s.ID))
	c.until('Z')
}

// What the gate can not follow ends the connection and is named.
func TestFailsLoudly(t *testing.T) {
	r := newRig(t)
	for name, test := range map[string]struct {
		open func() *raw
		says string
	}{
		"function call": {func() *raw {
			c := newRaw(r)
			c.until('Z')
			c.send(&pgproto3.FunctionCall{Function: 1})
			return c
		}, "FunctionCall"},
		"unknown message": {func() *raw {
			c := newRaw(r)
			c.until('Z')
			_, err := c.sock.Write([]byte{'y', 0, 0, 0, 4})
			r.must(err)
			return c
		}, "'y'"},
		"replication": {func() *raw { return newRaw(r, "replication", "database") }, "replication"},
		"impossible length": {func() *raw {
			c := newRaw(r)
			c.until('Z')
			_, err := c.sock.Write([]byte{'Q', 0, 0, 0, 3})
			r.must(err)
			return c
		}, "length 3"},
	} {
		t.Run(name, func(t *testing.T) {
			c := test.open()
			m, err := c.Receive()
			r.must(err)
			e, ok := m.(*pgproto3.ErrorResponse)
			if !ok || e.Severity != "FATAL" || !contains(e.Message, "holdfast", test.says) {
				t.Errorf("the client got %+v", m)
			}
			if ev := r.next(gate.Failed); !contains(ev.Err.Error(), test.says) {
				t.Errorf("the player got %v", ev.Err)
			}
			if _, err := c.Receive(); err == nil {
				t.Error("the connection is still open")
			}
		})
	}
}

// After Abort the application gets the reason and nothing of the answer: node's
// driver takes rows after a FATAL error for a broken protocol and crashes.
func TestAbortIsTheLastWord(t *testing.T) {
	r := newRig(t)
	for _, test := range []struct {
		first string
		let   func(uint64) error
	}{
		// So much that the server sends it before the statement ends.
		{"SELECT repeat('x', 20000)", func(id uint64) error { return r.Release(r.ctx, id, false) }},
		{"SELECT 1", func(id uint64) error { return r.Pass(r.ctx, id) }},
	} {
		c := newRaw(r)
		c.until('Z')
		r.Hold(true)
		c.send(&pgproto3.Query{String: test.first + "; SELECT pg_sleep(60)"})
		r.must(test.let(r.next(gate.Held).Step.ID))
		for r.query("SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'PgSleep'") != "1" {
			r.must(r.ctx.Err())
		}
		r.must(r.Abort(r.ctx))
		r.next(gate.Closed)
		m, err := c.Receive()
		r.must(err)
		if e, ok := m.(*pgproto3.ErrorResponse); !ok || e.Code != "57P01" || !contains(e.Message, "holdfast") {
			t.Errorf("the client got %+v", m)
		}
		if m, err := c.Receive(); err == nil {
			t.Errorf("and then %+v", m)
		}
	}
}
