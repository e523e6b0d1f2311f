package app

import (
	"errors"
	"testing"
	"time"
)

// settle looks until two looks in a row are the same.
func settle(t *testing.T, p *Process) Look {
	t.Helper()
	last := look(t, p)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		l := look(t, p)
		if l.SameAs(last) {
			return l
		}
		last = l
		time.Sleep(2 * time.Millisecond) // the pause between two looks, as a player has it
	}
	t.Fatalf("the application never sleeps: %+v", last)
	return Look{}
}

func look(t *testing.T, p *Process) Look {
	t.Helper()
	l, err := p.Idle()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func send(t *testing.T, p *Process, method, path string) {
	t.Helper()
	c := NewClient(p.Addr(), ClientOptions{})
	defer c.Close()
	if r, err := c.Send(t.Context(), Request{Method: method, Path: path}); err != nil || r.Status != 200 {
		t.Fatalf("%s %s: %v, %v", method, path, r, err)
	}
}

func TestIdle(t *testing.T) {
	for _, role := range []string{"serve", "wrap"} {
		t.Run(role, func(t *testing.T) {
			p := start(t, role, Options{})
			ready(t, p)
			before := settle(t, p)

			// The shortest request leaves a trace.
			send(t, p, "GET", "/healthz")
			after := settle(t, p)
			if after.SameAs(before) || after.CPU <= before.CPU {
				t.Errorf("a request does not show: %+v, then %+v", before, after)
			}

			// A request that waits inside the application for another one: asleep.
			done := make(chan struct{})
			go func() {
				defer close(done)
				c := NewClient(p.Addr(), ClientOptions{})
				defer c.Close()
				if _, err := c.Send(t.Context(), Request{Method: "GET", Path: "/wait/x"}); err != nil {
					t.Error(err)
				}
			}()
			settle(t, p)
			send(t, p, "POST", "/go/x")
			<-done

			// A thread that computes without system calls: not asleep, never the same.
			send(t, p, "POST", "/spin/y")
			for range 20 {
				a, b := look(t, p), look(t, p)
				if a.Sleeping || b.Sleeping || a.SameAs(b) {
					t.Fatalf("it computes and looks asleep: %+v, %+v", a, b)
				}
			}
			send(t, p, "POST", "/go/y")
			settle(t, p)
		})
	}
}

func TestIdleSeesChildren(t *testing.T) {
	p := start(t, "serve", Options{})
	ready(t, p)
	before := settle(t, p)
	send(t, p, "POST", "/fork")
	after := settle(t, p)
	if after.Threads <= before.Threads {
		t.Errorf("a child does not show: %d threads, then %d", before.Threads, after.Threads)
	}
}

// A child that has ended and that nobody asks for stays listed for ever.
func TestIdleWithZombie(t *testing.T) {
	p := start(t, "serve", Options{})
	ready(t, p)
	send(t, p, "POST", "/zombie")
	settle(t, p)
}

func TestIdleAfterTheEnd(t *testing.T) {
	p := start(t, "serve", Options{})
	ready(t, p)
	settle(t, p)
	p.Kill()
	for {
		_, err := p.Idle()
		if err == nil {
			continue // the kernel has not ended it yet
		}
		if !errors.As(err, new(*ExitError)) {
			t.Errorf("got %v", err)
		}
		return
	}
}

// BenchmarkIdle is the price of one look at a Go program that sleeps.
func BenchmarkIdle(b *testing.B) {
	p := start(b, "serve", Options{})
	ready(b, p)
	l, err := p.Idle()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := p.Idle(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(l.Threads), "threads")
}
