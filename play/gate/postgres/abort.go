package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// lastWord is how long the application may take to read why it is cut off.
const lastWord = 100 * time.Millisecond

// Abort gives up all that is under way: it closes the connections that have a
// held step, a step at the server or an open transaction, and leaves idle ones
// alone. When it returns without an error, the server's processes for these
// connections are gone, and with them their locks.
func (g *Gate) Abort(ctx context.Context) error {
	var busy []*conn
	for _, c := range g.allConns() {
		c.mu.Lock()
		if c.underWay() {
			busy = append(busy, c)
		}
		c.mu.Unlock()
	}
	return g.giveUp(ctx, busy, "the run was given up")
}

// giveUp ends these connections on both sides and waits for their backends. A
// backend closes its socket when its process ends, which is after it has rolled
// back and left pg_stat_activity; so the end of the stream is the proof.
func (g *Gate) giveUp(ctx context.Context, cs []*conn, why string) error {
	if len(cs) == 0 {
		return nil
	}
	var working []*conn
	for _, c := range cs {
		c.mu.Lock()
		if !c.ending {
			c.tell(fatal("57P01", why))
		}
		c.ending = true
		if c.current() != nil {
			working = append(working, c)
		}
		c.mu.Unlock()
		// An application that is not reading does not get the reason.
		_ = c.client.sock.SetWriteDeadline(time.Now().Add(lastWord))
		c.flushClient()
	}
	err := g.endBackends(ctx, working)
	for _, c := range cs {
		c.client.sock.Close()
	}
	for _, c := range cs {
		select {
		case <-c.over:
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("end the connections of the application: connection %d is still there: %w", c.id, ctx.Err()))
		}
	}
	return err
}

// endBackends ends the backends that are working on a statement, which do not
// see that their client has gone, and may wait for a lock. Without the right to
// end them, a cancel request ends the statement.
func (g *Gate) endBackends(ctx context.Context, cs []*conn) error {
	var pids []uint32
	for _, c := range cs {
		if c.key != nil {
			pids = append(pids, c.key.ProcessID)
		}
	}
	if len(pids) == 0 {
		return nil
	}
	err := g.watch.terminate(ctx, pids)
	if err == nil {
		return nil
	}
	for _, c := range cs {
		if c.key == nil {
			continue
		}
		raw, cerr := c.cancelRequest()
		if cerr == nil {
			cerr = g.forwardCancel(raw)
		}
		if cerr != nil {
			return errors.Join(err, cerr)
		}
	}
	return nil
}

// Close ends the listeners, the connections and the gate's own connections,
// and waits for all goroutines. Statements at the server are ended.
func (g *Gate) Close() error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		g.work.Wait()
		return nil
	}
	g.closed = true
	g.holding.Store(false)
	var errs []error
	for _, l := range g.listeners {
		errs = append(errs, l.Close())
	}
	for sock := range g.starting {
		sock.Close()
	}
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), sideTimeout)
	defer cancel()
	errs = append(errs, g.giveUp(ctx, g.allConns(), "the gate was closed"))
	g.stop()
	for _, c := range g.allConns() {
		c.server.sock.Close()
	}
	g.work.Wait()
	g.watch.close()
	g.split.close()
	return errors.Join(errs...)
}
