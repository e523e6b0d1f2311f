package postgres

import (
	"context"
	"errors"
)

// Release lets a held step through to the server and keeps the answer. In two
// parts, it stops at the trigger of InstallSplit; if it ends without having
// fired one, it is simply Answered.
func (g *Gate) Release(ctx context.Context, id uint64, twoParts bool) error {
	u, err := g.lookup("release", id)
	if err != nil {
		return err
	}
	c := u.conn
	if err := c.move(u, "release", held, releasing); err != nil {
		return err
	}
	if twoParts {
		if err := g.split.lock(ctx, c); err != nil {
			return errors.Join(err, c.move(u, "release", releasing, held))
		}
	}
	c.mu.Lock()
	u.armed = twoParts
	c.send(u)
	c.mu.Unlock()
	c.flushServer()
	return nil
}

// Resume lets a paused step do its second part.
func (g *Gate) Resume(ctx context.Context, id uint64) error {
	u, err := g.lookup("resume", id)
	if err != nil {
		return err
	}
	c := u.conn
	c.mu.Lock()
	paused, at := u.paused && u.armed, u.state
	if paused {
		u.paused, u.armed = false, false
	}
	c.mu.Unlock()
	if !paused {
		return &StepError{Op: "resume", ID: id, State: at.String() + " and not paused"}
	}
	return g.split.unlock(ctx, c.key.ProcessID)
}

// Deliver hands the kept answer to the application. The next step of a pipeline
// is announced after that.
func (g *Gate) Deliver(_ context.Context, id uint64) error {
	u, err := g.lookup("deliver", id)
	if err != nil {
		return err
	}
	return u.conn.deliver(u, "deliver")
}

// Pass lets a held step through and its answer back without further events.
// On a released step it means that its answer is not kept.
func (g *Gate) Pass(_ context.Context, id uint64) error {
	u, err := g.lookup("pass", id)
	if err != nil {
		return err
	}
	u.conn.pass(u)
	return nil
}

// move changes the state of a step if it is the expected one.
func (c *conn) move(u *unit, op string, from, to state) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moveLocked(u, op, from, to)
}

func (c *conn) moveLocked(u *unit, op string, from, to state) error {
	if u.state == gone {
		return &StepError{Op: op, ID: u.step.ID, Err: ErrGone}
	}
	if u.state != from {
		return &StepError{Op: op, ID: u.step.ID, State: u.state.String()}
	}
	u.state = to
	return nil
}

// send lets the unit through. A connection that is ending sends no more, and
// its end reports the step gone.
func (c *conn) send(u *unit) {
	if c.ending {
		return
	}
	u.state = sent
	c.server.out.put(u.raw)
}

func (c *conn) deliver(u *unit, op string) error {
	c.mu.Lock()
	err := c.moveLocked(u, op, answered, gone)
	if err == nil {
		if !c.told {
			c.client.out.put(u.reply)
		}
		c.leave(u)
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	c.gate.forget(u)
	c.flushClient()
	return nil
}

// leave takes a delivered unit, which is the head, out of the queue and lets
// the next one of the pipeline come on a goroutine of the connection.
func (c *conn) leave(u *unit) {
	if len(c.queue) == 0 || c.queue[0] != u {
		return
	}
	c.queue = c.queue[1:]
	if len(c.queue) > 0 && !c.ending {
		c.work.Go(c.advance)
	}
}

// pass lets the step go wherever it stands.
func (c *conn) pass(u *unit) {
	c.mu.Lock()
	switch u.state {
	case held:
		u.keep = false
		c.send(u)
	case releasing, sent:
		u.keep = false
		c.client.out.put(u.reply)
		u.reply = nil
	case answered:
		c.mu.Unlock()
		if err := c.deliver(u, "pass"); err != nil {
			c.gate.log.Debug("pass an answered step", "step", u.step.ID, "err", err)
		}
		return
	}
	c.mu.Unlock()
	c.disarm(u)
	c.flushServer()
	c.flushClient()
}

// pidAtServer is the server's process for the unit, if it is working on it.
func (c *conn) pidAtServer(u *unit) (uint32, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.key == nil || u.state != sent || u.paused {
		return 0, false
	}
	return c.key.ProcessID, true
}
