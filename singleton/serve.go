package singleton

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/lease"
)

// serve does, under the lease, all that is due.
func (r *Runner) serve(ctx context.Context, job *scheduled, g *lease.Guarded, l *lease.Lease) error {
	for ctx.Err() == nil {
		run, err := r.claim(ctx, job, g, l)
		if err != nil || run == nil {
			return err
		}
		if err := r.start(ctx, job, g, l, *run); err != nil {
			return err
		}
	}
	return nil
}

// claim closes a claim that was left open and claims the next tick, all in one
// write; nil means that nothing is to be run. Only after the answer of that
// write is the tick this instance's: if the answer is lost, it is not run here,
// and the claim is found open later like that of a runner that vanished.
func (r *Runner) claim(ctx context.Context, job *scheduled, g *lease.Guarded, l *lease.Lease) (*Run, error) {
	var run *Run
	var events []Event
	_, err := r.change(ctx, g, job.Name, l.Token(), func(s *State) error {
		run, events = nil, nil
		attempt, now := 1, r.now()
		var tick time.Time
		if open := s.open(); open != nil {
			events = append(events, Event{Kind: Gone, Job: job.Name, Tick: open.Tick, Attempt: open.Attempt})
			open.Status, open.Ended = Vanished, now
			if open.Attempt <= job.Rerun {
				tick, attempt = open.Tick, open.Attempt+1
			}
		}
		skipped := 0
		if tick.IsZero() {
			d := job.decide(s.Cursor, now)
			tick, skipped = d.tick, d.skipped
			s.Cursor = d.cursor
			s.Skipped += skipped
			if skipped > 0 {
				events = append(events, Event{Kind: Skips, Job: job.Name, Tick: d.cursor, Skipped: skipped})
			}
		}
		if tick.IsZero() {
			return nil
		}
		s.claim(Entry{Tick: tick, Status: Claimed, Attempt: attempt, Token: l.Token(), Holder: r.leases.Holder(), Started: now})
		run = &Run{Job: job.Name, Tick: tick, Attempt: attempt, Skipped: skipped, Token: l.Token()}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		r.opts.OnEvent(e)
	}
	return run, nil
}

// start runs the job and notes how it ended.
func (r *Runner) start(ctx context.Context, job *scheduled, g *lease.Guarded, l *lease.Lease, run Run) error {
	inner, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(l.Context(), func() { cancel(context.Cause(l.Context())) })
	defer func() { unhook(); cancel(nil) }()
	r.opts.OnEvent(Event{Kind: Started, Job: job.Name, Tick: run.Tick, Attempt: run.Attempt})
	failed := job.Run(inner, run)
	r.opts.OnEvent(Event{Kind: Ended, Job: job.Name, Tick: run.Tick, Attempt: run.Attempt, Err: failed})
	// What was done is noted also when the runner is ending.
	nctx, done := context.WithTimeout(context.WithoutCancel(ctx), releasePatience)
	defer done()
	_, err := r.change(nctx, g, job.Name, l.Token(), func(s *State) error {
		open := s.open()
		if open == nil || open.Token != run.Token || !open.Tick.Equal(run.Tick) {
			return errNotOpen
		}
		open.Status, open.Ended = Done, r.now()
		if failed != nil {
			open.Status, open.Error = Failed, failed.Error()
		}
		return nil
	})
	return err
}

// errNotOpen can only come from a record that was changed by hand: whoever
// closes a claim has a higher token, and the write is refused for that.
var errNotOpen = errors.New("the record no longer holds the claim of this run; it was changed by something that is no runner")
