package report

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// How often a progress line is printed at most.
const (
	terminalEvery = 100 * time.Millisecond
	logEvery      = 5 * time.Second
)

// ProgressOptions say how a [Progress] prints.
type ProgressOptions struct {
	// Terminal: one line that is rewritten, at most ten times a second.
	// Otherwise a new line at most every 5 s, so that a log stays short and a
	// short play prints none.
	Terminal bool
	// Width of the terminal in cells; 0 is 80.
	Width int
	// Now is the time source; nil is time.Now.
	Now func() time.Time
}

// Counts are how far a phase has come.
type Counts struct {
	Schedules int
	// Of is the number of schedules to come to where it is known, else 0.
	Of           int
	Findings     int
	Inconclusive int
}

// Progress shows how a play goes on while it runs. It prints when it is told
// something, from the caller's goroutine, and only one may use it. Errors of
// the writer are ignored: a play does not end because nobody can watch it.
type Progress struct {
	w      io.Writer
	opts   ProgressOptions
	phase  string
	counts Counts
	began  time.Time // of the phase
	shown  time.Time // of the last line
	cells  int       // of the line that is on the terminal
}

// NewProgress makes a Progress that prints to w.
func NewProgress(w io.Writer, o ProgressOptions) *Progress {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Width <= 0 {
		o.Width = defaultWidth
	}
	now := o.Now()
	return &Progress{w: w, opts: o, began: now, shown: now}
}

// Phase begins a phase, such as "serial runs" or a pass, with counts of zero.
// On a terminal it shows at once.
func (p *Progress) Phase(name string) {
	p.phase, p.counts, p.began = printable(name), Counts{}, p.opts.Now()
	if p.opts.Terminal {
		p.print(p.began)
	}
}

// Update says how far the phase has come. It prints where the last line is old
// enough.
func (p *Progress) Update(c Counts) {
	p.counts = c
	every := logEvery
	if p.opts.Terminal {
		every = terminalEvery
	}
	if now := p.opts.Now(); now.Sub(p.shown) >= every {
		p.print(now)
	}
}

// Done takes the line off the terminal, so that the report begins on a clean
// one. A Progress may be used again after it.
func (p *Progress) Done() {
	if p.opts.Terminal && p.cells > 0 {
		io.WriteString(p.w, "\r"+strings.Repeat(" ", p.cells)+"\r")
		p.cells = 0
	}
}

func (p *Progress) print(now time.Time) {
	p.shown = now
	line := p.line(now.Sub(p.began))
	if !p.opts.Terminal {
		io.WriteString(p.w, line+"\n")
		return
	}
	// The last cell stays free: some terminals wrap when it is written. What
	// is left of a longer line before is overwritten with spaces, which every
	// terminal understands.
	line = cut(line, p.opts.Width-1)
	n := cellWidth(line)
	io.WriteString(p.w, "\r"+pad(line, p.cells))
	p.cells = n
}

func (p *Progress) line(elapsed time.Duration) string {
	c := p.counts
	parts := []string{p.phase}
	switch {
	case c.Of > 0:
		parts = append(parts, fmt.Sprintf("%d of %s", c.Schedules, count(c.Of, "schedule")))
	case c.Schedules > 0:
		parts = append(parts, count(c.Schedules, "schedule"))
	}
	if s := elapsed.Seconds(); s > 0 && c.Schedules > 0 {
		digits := 0
		if float64(c.Schedules)/s < 10 {
			digits = 1
		}
		parts = append(parts, fmt.Sprintf("%.*f/s", digits, float64(c.Schedules)/s))
	}
	if c.Findings > 0 {
		parts = append(parts, count(c.Findings, "finding"))
	}
	if c.Inconclusive > 0 {
		parts = append(parts, fmt.Sprintf("%d inconclusive", c.Inconclusive))
	}
	return strings.Join(parts, "  ")
}
