package singleton

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	cron "github.com/netresearch/go-cron"

	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/store"
)

// Missed says what becomes of ticks that were not run when they were due.
type Missed int

const (
	// RunOnce runs the last one, however late, and leaves the others out.
	RunOnce Missed = iota
	// Skip runs the last one if it is not later than Job.Late, and leaves the
	// others out.
	Skip
	// RunAll runs the last Job.MaxMissed of them, oldest first, and leaves
	// those before out.
	RunAll
)

// Job is a scheduled job. Name, Schedule and Run are needed, and should be the
// same in all instances.
type Job struct {
	Name string
	// Schedule is a cron expression; see the package comment.
	Schedule string
	// Location is the zone of the schedule; nil means UTC. A CRON_TZ= in the
	// schedule goes before it.
	Location *time.Location
	// Run does the work of one tick. Its context ends when the lease is lost
	// and when the runner ends.
	Run func(ctx context.Context, run Run) error

	Missed Missed
	// Late is how late Skip still runs a tick; 0 means one minute.
	Late time.Duration
	// MaxMissed bounds RunAll; 0 means 10.
	MaxMissed int
	// Rerun is how often a tick is run again whose runner vanished in the
	// middle. 0 means never: at most once.
	Rerun int
}

// Run is one start of a job.
type Run struct {
	Job string
	// Tick is the time that the run is for, in UTC.
	Tick time.Time
	// Attempt is 1, and higher when earlier runners have vanished.
	Attempt int
	// Skipped is how many ticks were left out just before this one.
	Skipped int
	// Token is the fencing token of this run's lease.
	Token lease.Token
}

// scheduled is a job with its schedule read.
type scheduled struct {
	Job
	when cron.Schedule
}

func newScheduled(j Job, now time.Time) (*scheduled, error) {
	invalid := func(what, why string) error {
		return &store.InvalidError{Op: fmt.Sprintf("new job %q", j.Name), What: what, Why: why}
	}
	switch {
	case j.Name == "" || strings.Contains(j.Name, "/"):
		return nil, invalid("name", "it is not empty and has no slash")
	case j.Run == nil:
		return nil, invalid("Run", "it is missing")
	case j.Missed < RunOnce || j.Missed > RunAll:
		return nil, invalid("Missed", "it is RunOnce, Skip or RunAll")
	case j.Late < 0 || j.MaxMissed < 0 || j.Rerun < 0:
		return nil, invalid("Late, MaxMissed and Rerun", "they are not negative")
	}
	j.Late, j.MaxMissed = cmp.Or(j.Late, time.Minute), cmp.Or(j.MaxMissed, 10)
	j.Location = cmp.Or(j.Location, time.UTC)
	parser, err := cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)
	if err != nil {
		return nil, err
	}
	when, err := parser.Parse(j.Schedule)
	if err != nil {
		return nil, invalid(fmt.Sprintf("schedule %q", j.Schedule), err.Error())
	}
	s := &scheduled{Job: j, when: when}
	if s.next(now).IsZero() {
		return nil, invalid(fmt.Sprintf("schedule %q", j.Schedule), "there is no such day")
	}
	return s, nil
}

// next is the first tick after t, in UTC.
func (s *scheduled) next(t time.Time) time.Time {
	n := s.when.Next(t.In(s.Location))
	if n.IsZero() {
		return time.Time{}
	}
	return n.UTC()
}

// decision is what to do with the ticks that are due.
type decision struct {
	// tick is to be run; zero for none.
	tick time.Time
	// cursor is how far ticks are decided by this.
	cursor  time.Time
	skipped int
}

// decide looks at the ticks after cursor up to now. Nothing due gives the same
// cursor back.
func (s *scheduled) decide(cursor, now time.Time) decision {
	keep := 1
	if s.Missed == RunAll {
		keep = s.MaxMissed
	}
	// The last keep ticks, as a ring: after a long absence there are many.
	last := make([]time.Time, 0, keep)
	n := 0
	for t := s.next(cursor); !t.IsZero() && !t.After(now); t = s.next(t) {
		if len(last) < keep {
			last = append(last, t)
		} else {
			last[n%keep] = t
		}
		n++
	}
	if n == 0 {
		return decision{cursor: cursor}
	}
	tick := last[0]
	if n > keep {
		tick = last[n%keep]
	}
	d := decision{tick: tick, cursor: tick, skipped: n - len(last)}
	if s.Missed == Skip && now.Sub(tick) > s.Late {
		d.tick, d.skipped = time.Time{}, n
	}
	return d
}
