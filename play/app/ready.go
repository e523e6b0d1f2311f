package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	// firstPoll and slowestPoll bound the pause between two probes.
	firstPoll, slowestPoll = 2 * time.Millisecond, 50 * time.Millisecond
	// probeTime bounds one probe, so that an instance that accepts and then
	// never answers while it starts is asked again.
	probeTime = 2 * time.Second
)

// Probe is how to ask whether an instance is ready.
type Probe struct {
	// Method and Path are a request. An empty Path asks only whether the
	// address accepts connections.
	Method, Path string
	// Status is the answer that means ready; 0 is 200.
	Status int
}

func (p Probe) String() string {
	if p.Path == "" {
		return "a connection"
	}
	return p.Method + " " + p.Path
}

// NotReadyError says that an instance did not get ready in time.
type NotReadyError struct {
	Instance int
	Addr     string
	Probe    Probe
	// Last is what the last probe met.
	Last error
	// Err is why the waiting ended: the end of the context.
	Err  error
	Tail []string
}

func (e *NotReadyError) Error() string {
	s := fmt.Sprintf("application instance %d on %s did not get ready: %v while asking for %v", e.Instance, e.Addr, e.Err, e.Probe)
	if e.Last != nil {
		s += fmt.Sprintf(", last answer: %v", e.Last)
	}
	return s + "; check that it listens on ${port}, or raise application.ready.timeout" + quoteTail(e.Tail, 20)
}

func (e *NotReadyError) Unwrap() error { return e.Err }

// Ready asks until the probe is answered as wanted. The error is an *[ExitError]
// when the process ends first, and a *[NotReadyError] when ctx ends first.
func (p *Process) Ready(ctx context.Context, probe Probe) error {
	if probe.Status == 0 {
		probe.Status = http.StatusOK
	}
	var last error
	pause := firstPoll
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.exited:
			return p.ExitError()
		case <-ctx.Done():
			return &NotReadyError{Instance: p.opts.Instance, Addr: p.opts.Addr, Probe: probe,
				Last: last, Err: context.Cause(ctx), Tail: p.Tail()}
		case <-timer.C:
		}
		err := p.probe(ctx, probe)
		if err == nil {
			// A stranger on the same port may have answered.
			if e := p.ExitError(); e != nil {
				return e
			}
			return nil
		}
		if !over(ctx) {
			last = err // else it only says that the time is over
		}
		timer.Reset(pause)
		pause = min(pause*3/2, slowestPoll)
	}
}

// over reports whether ctx has ended or is about to: a dial ends at the deadline
// by a timer of its own, which can be a little ahead of the context's.
func over(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || (ok && !time.Now().Before(end))
}

func (p *Process) probe(ctx context.Context, probe Probe) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if probe.Path == "" {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", p.opts.Addr)
		if err != nil {
			return plain(err)
		}
		return c.Close()
	}
	c := NewClient(p.opts.Addr, ClientOptions{})
	defer c.Close()
	r, err := c.Send(ctx, Request{Method: probe.Method, Path: probe.Path})
	if err != nil {
		return err
	}
	if r.Status != probe.Status {
		return fmt.Errorf("status %d instead of %d", r.Status, probe.Status)
	}
	return nil
}
