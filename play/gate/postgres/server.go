package postgres

import (
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/holdfast-dev/holdfast/play/gate"
)

// batch is what one look at the server's bytes led to, done after the
// connection's mutex has been given back.
type batch struct {
	finished []*unit // kept answers that are complete
	passed   []*unit // units whose answer has streamed by
	paused   *unit
	err      error
}

// fromServer is the goroutine that reads the server. It ends with the
// server's connection.
func (c *conn) fromServer() error {
	for {
		if err := c.server.in.fill(); err != nil {
			return err
		}
		var b batch
		c.mu.Lock()
		for b.err == nil {
			kind, raw, ok := c.server.in.next()
			if !ok {
				break
			}
			b.err = c.serverMessage(&b, kind, raw)
		}
		tells := b.paused != nil || len(b.finished) > 0
		if tells {
			c.telling++
		}
		more := len(c.queue) > 0 && c.queue[len(c.queue)-1].state == queued
		c.mu.Unlock()
		c.flushClient()
		c.settle(&b)
		if tells {
			c.toldSink()
		}
		if b.err != nil {
			return b.err
		}
		if more {
			c.advance()
		}
	}
}

// settle tells the sink what the batch has brought.
func (c *conn) settle(b *batch) {
	for _, u := range b.passed {
		c.disarm(u)
		c.gate.forget(u)
	}
	if u := b.paused; u != nil {
		c.emit(gate.Event{Kind: gate.Paused, ID: u.step.ID})
	}
	for _, u := range b.finished {
		c.disarm(u)
		c.emit(gate.Event{Kind: gate.Answered, ID: u.step.ID, Answer: u.seen.finish(c.gate.values, u.open)})
	}
}

// current is the unit that the server is answering.
func (c *conn) current() *unit {
	if len(c.queue) > 0 && c.queue[0].state == sent {
		return c.queue[0]
	}
	return nil
}

// serverMessage handles one message. The connection's mutex is held.
func (c *conn) serverMessage(b *batch, kind byte, raw []byte) error {
	if c.told {
		return nil
	}
	u := c.current()
	switch kind {
	case 'N':
		if isPause(raw) {
			if u != nil && u.armed && !u.paused {
				u.paused = true
				b.paused = u
			}
			return nil
		}
		c.client.out.put(raw)
		return nil
	case 'A', 'S':
		c.client.out.put(raw)
		return nil
	case 'W':
		return &UnsupportedError{What: "replication (CopyBothResponse)"}
	case 'V':
		return &UnsupportedError{What: "function calls (FunctionCallResponse)"}
	}
	if u == nil {
		return c.unasked(kind, raw)
	}
	if u.keep {
		u.reply = append(u.reply, raw...)
	} else {
		c.client.out.put(raw)
	}
	if err := u.read(c, kind, raw); err != nil {
		return err
	}
	if kind == 'Z' {
		c.ready(raw[headerLen])
	}
	if kind == 'Z' {
		c.finish(b, u)
	}
	c.reap(b)
	return nil
}

// reap ends the flush parts that the server owes nothing more: all is answered,
// or an error makes it skip what comes before the next Sync.
func (c *conn) reap(b *batch) {
	for {
		u := c.current()
		if u == nil || u.simple || u.sync || (u.next < len(u.ops) && !c.skipping) {
			return
		}
		c.finish(b, u)
	}
}

// unasked handles what belongs to no unit at the server: the start-up, and an
// error with which the server ends the connection.
func (c *conn) unasked(kind byte, raw []byte) error {
	if len(c.queue) > 0 && c.queue[0].state == answered {
		c.queue[0].reply = append(c.queue[0].reply, raw...)
		return nil
	}
	c.client.out.put(raw)
	switch kind {
	case 'K':
		var k pgproto3.BackendKeyData
		if err := k.Decode(raw[headerLen:]); err != nil {
			return err
		}
		c.key = &k
	case 'Z':
		c.started = true
		c.ready(raw[headerLen])
	}
	return nil
}

func (c *conn) ready(status byte) {
	c.status = status
	c.skipping = false
	c.implicit = false
	if status == 'I' {
		c.unseen = false
		clear(c.names.portals)
		c.rebindQueued()
	}
	if c.session != nil {
		c.session.Finished(status)
	}
}

// rebindQueued keeps the portals that cycles further down the pipeline have
// already bound; they come to life only when their Bind is processed.
func (c *conn) rebindQueued() {
	for _, u := range c.queue {
		for _, o := range u.ops[u.next:] {
			if o.kind == 'B' {
				c.names.portals[o.name] = o.portal
			}
		}
	}
}

// finish ends a unit: its answer is complete. What the server has skipped after
// an error has defined nothing.
func (c *conn) finish(b *batch, u *unit) {
	c.names.undo(u)
	u.next = len(u.ops)
	if !u.sync && !u.simple {
		c.implicit = !c.skipping && (c.implicit || u.runs)
	}
	u.open = c.implicit || c.status != 'I'
	if u.keep {
		u.state = answered
		b.finished = append(b.finished, u)
		return
	}
	u.state = gone
	c.queue = c.queue[1:]
	b.passed = append(b.passed, u)
}

// read follows the answer: which op it completes, and what the player is told.
func (u *unit) read(c *conn, kind byte, raw []byte) error {
	body := raw[headerLen:]
	switch kind {
	case '1', '2', '3', 'n':
		u.next = min(u.next+1, len(u.ops))
	case 't':
		return u.parameters(body)
	case 'T':
		return u.columns(raw)
	case 'D':
		if u.keep {
			u.seen.row(u.resultFields(), body)
		}
	case 'C', 'I', 's':
		if u.keep {
			u.seen.end(u.resultFields(), kind, body)
		}
		u.next = min(u.next+1, len(u.ops))
	case 'G':
		u.copying = true
		c.client.out.put(u.reply)
		u.reply = u.reply[:0]
	case 'E':
		u.copying = u.copying && u.sync
		if !u.simple {
			c.skipping = true
		}
		if u.keep {
			return u.seen.fail(body)
		}
	}
	return nil
}

// parameters takes ParameterDescription: the server's word on the types.
func (u *unit) parameters(body []byte) error {
	var d pgproto3.ParameterDescription
	if err := d.Decode(body); err != nil {
		return err
	}
	if u.next < len(u.ops) && u.ops[u.next].stmt != nil {
		u.ops[u.next].stmt.oids = d.ParameterOIDs
	}
	return nil
}

// columns takes RowDescription, which in the extended protocol answers a
// Describe and in the simple one begins a result.
func (u *unit) columns(raw []byte) error {
	if u.simple && u.next >= len(u.ops) {
		if !u.keep {
			return nil
		}
		fs, err := fieldsOf(raw)
		u.seen.fields = fs
		return err
	}
	fs, err := fieldsOf(raw)
	if err != nil {
		return err
	}
	if u.next < len(u.ops) {
		switch o := u.ops[u.next]; {
		case o.stmt != nil:
			o.stmt.fields = fs
		case o.portal != nil:
			o.portal.fields = fs
		}
		u.next++
	}
	return nil
}

// resultFields are the columns of the rows that come now.
func (u *unit) resultFields() []field {
	if u.next < len(u.ops) && u.ops[u.next].portal != nil {
		return u.ops[u.next].portal.resultFields()
	}
	return u.seen.fields
}

// isPause recognises the message of the split trigger by its code, which no
// server and no extension uses.
func isPause(raw []byte) bool {
	var n pgproto3.NoticeResponse
	return n.Decode(raw[headerLen:]) == nil && n.Code == pauseCode
}
