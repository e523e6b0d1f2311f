package postgres

import (
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgproto3"
)

// fromClient is the goroutine that reads the client. It ends when the client
// leaves, or with an error.
func (c *conn) fromClient() error {
	for {
		if err := c.client.in.fill(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		for {
			kind, raw, ok := c.client.in.next()
			if !ok {
				break
			}
			if kind == 'X' {
				return nil
			}
			complete, err := c.clientMessage(kind, raw)
			if err != nil {
				return err
			}
			if complete {
				c.advance()
			}
		}
		c.flushServer()
	}
}

// clientMessage adds one message to the unit that is being received, and says
// whether a unit is complete now.
func (c *conn) clientMessage(kind byte, raw []byte) (complete bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind == 'p' && !c.started {
		c.server.out.put(raw)
		return false, nil
	}
	if c.copyStream(kind, raw) {
		return false, nil
	}
	u := c.receiving
	if u == nil {
		u = &unit{conn: c, raw: make([]byte, 0, 2*len(raw)+64)}
		c.receiving = u
	}
	at := len(u.raw)
	u.raw = append(u.raw, raw...)
	if err := c.take(u, kind, u.raw[at+headerLen:]); err != nil {
		return false, fmt.Errorf("message %q of the client: %w", kind, err)
	}
	if kind != 'Q' && kind != 'S' && kind != 'H' {
		return false, nil
	}
	c.receiving = nil
	c.queue = append(c.queue, u)
	return true, nil
}

// copyStream passes what belongs to a COPY that the server is reading: the
// data, its end, and in the extended protocol the Sync after it (the one before
// the data is ignored by a server that is copying, and libpq sends both).
// Data that comes before the COPY is at the server waits with it.
func (c *conn) copyStream(kind byte, raw []byte) bool {
	data := kind == 'd' || kind == 'c' || kind == 'f'
	if !data && kind != 'S' && kind != 'H' {
		return false
	}
	if len(c.queue) == 0 {
		if data {
			c.server.out.put(raw)
		}
		return data
	}
	head, last := c.queue[0], c.queue[len(c.queue)-1]
	switch {
	case head.copying && c.receiving == nil:
		c.server.out.put(raw)
		extended := !head.simple
		if (kind == 'S' && extended) || (kind != 'S' && kind != 'H' && kind != 'd' && !extended) {
			head.copying = false
		}
		return true
	case !data:
		return false
	case last.state < releasing:
		last.raw = append(last.raw, raw...)
	default:
		c.server.out.put(raw)
	}
	return true
}

// take reads what the gate has to know of a message.
func (c *conn) take(u *unit, kind byte, body []byte) error {
	switch kind {
	case 'Q':
		var m pgproto3.Query
		if err := m.Decode(body); err != nil {
			return err
		}
		u.simple, u.runs = true, true
		u.execs = append(u.execs, execution{sql: m.String})
	case 'P':
		var m pgproto3.Parse
		if err := m.Decode(body); err != nil {
			return err
		}
		c.names.parse(u, &m)
	case 'B':
		var m pgproto3.Bind
		if err := m.Decode(body); err != nil {
			return err
		}
		c.names.bind(u, &m)
	case 'D':
		var m pgproto3.Describe
		if err := m.Decode(body); err != nil {
			return err
		}
		c.names.describe(u, &m)
	case 'C':
		var m pgproto3.Close
		if err := m.Decode(body); err != nil {
			return err
		}
		c.names.close(u, &m)
	case 'E':
		var m pgproto3.Execute
		if err := m.Decode(body); err != nil {
			return err
		}
		c.names.execute(u, &m)
	case 'S':
		u.sync = true
	case 'H':
	case 'F':
		return &UnsupportedError{What: "function calls (FunctionCall)"}
	default:
		return &UnsupportedError{What: fmt.Sprintf("protocol messages of type %q", kind)}
	}
	return nil
}

// advance sends or announces what has reached the head of the queue.
func (c *conn) advance() {
	for {
		c.mu.Lock()
		u := c.nextQueued()
		if u == nil || !c.started || c.ending {
			c.mu.Unlock()
			return
		}
		if !c.holds(u) {
			c.letBy(u)
			continue
		}
		if u != c.queue[0] {
			c.mu.Unlock()
			return
		}
		u.state = preparing
		c.mu.Unlock()
		if c.announce(u) {
			return
		}
	}
}

// letBy sends a unit that is not held, and gives back the connection's mutex.
func (c *conn) letBy(u *unit) {
	if u.runs && !c.skipping {
		c.unseen = true
		stmts := statementsOf(u.execs)
		u.state = preparing
		c.mu.Unlock()
		c.follow(c.gate.ctx, stmts)
		c.mu.Lock()
		if c.ending {
			c.mu.Unlock()
			return
		}
	}
	u.state = sent
	c.server.out.put(u.raw)
	var b batch
	c.reap(&b)
	c.mu.Unlock()
	c.flushServer()
}

// nextQueued is the first unit that has not been looked at, if no step before
// it is unfinished.
func (c *conn) nextQueued() *unit {
	for _, u := range c.queue {
		if u.state == queued {
			return u
		}
		if u.state != sent || u.keep {
			return nil
		}
	}
	return nil
}

// holds: the unit is a step and holding is on. A Sync after Execute and Flush
// is a step of its own, because it commits the implicit transaction. What the
// server skips after an error is none.
func (c *conn) holds(u *unit) bool {
	if !c.gate.holding.Load() || c.skipping {
		return false
	}
	return u.runs || (u.sync && c.implicit && c.status == 'I')
}
