package report

import (
	"strings"
	"testing"
	"time"
)

// clock is a time source that a test moves.
type clock struct{ t time.Time }

func (c *clock) now() time.Time          { return c.t }
func (c *clock) forward(d time.Duration) { c.t = c.t.Add(d) }

func TestProgressOnTerminal(t *testing.T) {
	var b strings.Builder
	c := &clock{time.Unix(1000, 0)}
	p := NewProgress(&b, ProgressOptions{Terminal: true, Width: 60, Now: c.now})
	p.Phase("between statements, with a rather long name")
	for n := 1; n <= 2000; n++ { // 2 s of one update a millisecond
		c.forward(time.Millisecond)
		p.Update(Counts{Schedules: n / 5, Findings: n / 1999, Inconclusive: 2})
	}
	p.Phase("confirm")
	p.Done()
	out := b.String()
	lines := strings.Split(out, "\r")[1:]
	if len(lines) > 1+20+1+2 {
		t.Errorf("%d lines in 2 s", len(lines))
	}
	screen := strings.Repeat(" ", 60)
	for _, l := range lines {
		if n := cellWidth(l); n >= 60 {
			t.Errorf("line of %d cells on a terminal of 60: %q", n, l)
		}
		screen = l + screen[min(len(l), len(screen)):] // ASCII up to the ellipsis
		if strings.HasPrefix(l, "confirm") && strings.TrimSpace(screen[:59]) != "confirm" {
			t.Errorf("the line before shows through: %q", screen)
		}
	}
	if strings.TrimSpace(lines[len(lines)-2]) != "" || lines[len(lines)-1] != "" {
		t.Errorf("Done leaves the line there: %q", lines[len(lines)-2:])
	}
	if strings.Contains(out, "\n") {
		t.Error("a line end on a terminal")
	}
}

func TestProgressInLog(t *testing.T) {
	var b strings.Builder
	c := &clock{time.Unix(1000, 0)}
	p := NewProgress(&b, ProgressOptions{Now: c.now})
	p.Phase("between statements")
	for n := 1; n <= 120; n++ { // 12 s
		c.forward(100 * time.Millisecond)
		p.Update(Counts{Schedules: 20 * n, Of: 5000, Findings: 1, Inconclusive: n / 60})
	}
	p.Done()
	want := "between statements  1000 of 5000 schedules  200/s  1 finding\n" +
		"between statements  2000 of 5000 schedules  200/s  1 finding  1 inconclusive\n"
	if b.String() != want {
		t.Errorf("log:\n%s\nwant:\n%s", b.String(), want)
	}
}
