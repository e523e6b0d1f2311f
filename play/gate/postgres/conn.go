package postgres

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/explain"
)

// sideTimeout bounds what the gate does on side connections on its own.
const sideTimeout = 5 * time.Second

// side is one of the two ends of a proxied connection.
type side struct {
	sock net.Conn
	// socket is below the encryption, of the client's side.
	socket *counted
	in     *reader
	out    outbox
}

func newSide(sock net.Conn) *side {
	return &side{sock: sock, in: newReader(sock), out: outbox{dst: sock}}
}

// conn is one connection of the application, with its own to the server.
//
// Two goroutines serve it, one for each direction. Steps are let through and
// delivered on the caller's goroutine.
type conn struct {
	gate           *Gate
	id             uint64
	instance       int
	client, server *side
	session        *explain.Session
	// over is closed when both ends are closed and the server's process for
	// the connection is gone.
	over chan struct{}

	mu sync.Mutex
	// queue are the units in order of arrival, those at the server first.
	queue     []*unit
	receiving *unit
	names     names
	key       *pgproto3.BackendKeyData
	// started: the first ReadyForQuery has come; status is the latest one's.
	started bool
	status  byte
	// skipping: after an error in the extended protocol the server skips all
	// up to Sync. implicit: an Execute has been answered and no Sync since.
	skipping, implicit bool
	// unseen: the open transaction has executed what was not analysed.
	unseen bool
	// ending: no unit is sent or announced any more. told: the client has got
	// the gate's last word, and what the server still says is dropped; a driver
	// that gets rows after a FATAL error takes it for a broken protocol.
	ending, told bool
	// telling counts the events that are on their way to the sink.
	telling int
	work    sync.WaitGroup
}

// run serves the connection until both directions have ended.
func (c *conn) run() {
	var up sync.WaitGroup
	up.Go(func() {
		err := c.fromServer()
		c.fail(err)
		c.serverLeft()
	})
	err := c.fromClient()
	c.fail(err)
	c.clientLeft()
	up.Wait()
	c.work.Wait()
	c.end()
}

// fail reports an error that is the gate's: what it does not understand. That
// a peer has gone is none.
func (c *conn) fail(err error) {
	var unsupported *UnsupportedError
	var network net.Error
	if err == nil || errors.As(err, &network) || isEOF(err) {
		return
	}
	c.mu.Lock()
	ending := c.ending
	c.ending = true
	if !ending {
		code := "08P01"
		if errors.As(err, &unsupported) {
			code = "0A000"
		}
		c.tell(fatal(code, err.Error()))
	}
	c.mu.Unlock()
	if ending {
		return
	}
	c.emit(gate.Event{Kind: gate.Failed, Err: err})
	c.flushClient()
	c.client.sock.Close()
}

// tell gives the client the gate's last word.
func (c *conn) tell(raw []byte) {
	c.client.out.put(raw)
	c.told = true
}

// clientLeft tells the server that no more comes. A statement that is at the
// server is finished by it first, as it would be without the gate.
func (c *conn) clientLeft() {
	c.mu.Lock()
	c.ending = true
	c.server.out.put([]byte{'X', 0, 0, 0, 4})
	c.mu.Unlock()
	c.flushServer()
}

// serverLeft hands the client what has been kept, since nothing else will come.
func (c *conn) serverLeft() {
	c.mu.Lock()
	c.ending = true
	for _, u := range c.queue {
		if u.keep && !c.told && (u.state == sent || u.state == answered) {
			c.client.out.put(u.reply)
			u.reply = nil
		}
	}
	c.mu.Unlock()
	c.flushClient()
	c.client.sock.Close()
	c.server.sock.Close()
}

// end forgets the connection and its steps and reports Closed.
func (c *conn) end() {
	c.mu.Lock()
	left := c.queue
	c.queue = nil
	c.mu.Unlock()
	steps := 0
	for _, u := range left {
		c.disarm(u)
		c.mu.Lock()
		u.state = gone
		c.mu.Unlock()
		if u.step != nil {
			steps++
		}
		c.gate.forget(u)
	}
	c.gate.drop(c)
	if steps > 0 || c.gate.holding.Load() {
		c.emit(gate.Event{Kind: gate.Closed})
	}
	close(c.over)
}

// announce describes the unit and reports it held. It is false when holding
// has ended in the meantime and the unit has been passed.
func (c *conn) announce(u *unit) bool {
	step := &gate.Step{Conn: c.id, Gate: Name, Instance: c.instance}
	c.mu.Lock()
	l := c.gate.labels.of(u.execs)
	stmts := statementsOf(u.execs)
	c.mu.Unlock()
	step.Shape, step.Label, step.Text = l.shape, l.name, l.text
	c.describe(step, u, stmts)

	c.mu.Lock()
	if c.ending {
		c.mu.Unlock()
		return true
	}
	step.ID = c.gate.ids.Add(1)
	u.step = step
	if !c.gate.register(u) {
		u.step, u.state = nil, queued
		c.mu.Unlock()
		return false
	}
	u.state, u.keep = held, true
	c.telling++
	c.mu.Unlock()
	c.emit(gate.Event{Kind: gate.Held, ID: step.ID, Step: step})
	c.toldSink()
	return true
}

// disarm gives back the split lock that was taken for the unit, if it was.
func (c *conn) disarm(u *unit) {
	c.mu.Lock()
	armed := u.armed
	u.armed, u.paused = false, false
	c.mu.Unlock()
	if !armed {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sideTimeout)
	defer cancel()
	if err := c.gate.split.unlock(ctx, c.key.ProcessID); err != nil {
		c.gate.log.Error("give back the lock of a step released in two parts", "pid", c.key.ProcessID, "err", err)
	}
}

func (c *conn) emit(e gate.Event) {
	e.Conn = c.id
	c.gate.sink(e)
}

// toldSink notes that the events counted by telling have arrived.
func (c *conn) toldSink() {
	c.mu.Lock()
	c.telling--
	c.mu.Unlock()
}

// flushServer and flushClient write what is pending. An error means that the
// peer is gone, which the reading goroutine of that side finds and handles.
func (c *conn) flushServer() {
	if err := c.server.out.flush(&c.mu); err != nil {
		c.gate.log.Debug("write to the server", "conn", c.id, "err", err)
	}
}

func (c *conn) flushClient() {
	if err := c.client.out.flush(&c.mu); err != nil {
		c.gate.log.Debug("write to the application", "conn", c.id, "err", err)
	}
}

// underWay: the connection has something that Abort gives up.
func (c *conn) underWay() bool {
	return c.started && (len(c.queue) > 0 || c.receiving != nil || c.implicit || c.status != 'I')
}

// cancelRequest asks the server to cancel what the connection does.
func (c *conn) cancelRequest() ([]byte, error) {
	r := pgproto3.CancelRequest{ProcessID: c.key.ProcessID, SecretKey: c.key.SecretKey}
	return r.Encode(nil)
}

func fatal(code, message string) []byte {
	e := pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: "holdfast: " + message}
	b, err := e.Encode(nil)
	if err != nil {
		return nil
	}
	return b
}
