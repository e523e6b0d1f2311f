package postgres

// Busy reports whether something is under way between the application and the
// server that the application waits for and no event has told of yet: a
// connection that is starting, a cycle that has arrived in part or passes
// ungated, a step whose footprint is still being computed, an event that is on
// its way to the sink, bytes that the gate has not handed on, or bytes that it
// has not dealt with. So look at the sink's events after Busy, not before.
//
// The last needs Linux, where the kernel tells how many bytes have arrived. On
// a loaded machine an application can be asleep again before the gate's
// goroutine has had its turn; elsewhere this gap remains.
func (g *Gate) Busy() bool {
	g.mu.Lock()
	busy := len(g.starting) > 0
	for _, l := range g.listeners {
		busy = busy || unaccepted(l)
	}
	g.mu.Unlock()
	for _, c := range g.allConns() {
		busy = busy || c.busy()
	}
	return busy
}

func (c *conn) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return false
	}
	out := &c.client.out
	if !c.started || c.receiving != nil || c.telling > 0 || out.sending || len(out.pending) > 0 || unread(c.client.socket) {
		return true
	}
	if len(c.queue) == 0 {
		return false
	}
	// Behind a step, everything waits for the player.
	u := c.queue[0]
	return u.state == queued || u.state == preparing || u.state == sent && !u.keep
}
