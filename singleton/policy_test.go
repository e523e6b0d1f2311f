package singleton_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/fakeclock"
	"github.com/holdfast-dev/holdfast/singleton"
	"github.com/holdfast-dev/holdfast/store/mem"
)

// What a job returns is noted, also when the instance is ending, and is not
// tried again; the lease is free for the others at once.
func TestFailureAndEnd(t *testing.T) {
	b := mem.New()
	j := singleton.Job{Name: "job", Schedule: "* * * * *", Run: func(ctx context.Context, r singleton.Run) error {
		if r.Tick.Equal(noon.Add(time.Minute)) {
			return errors.New("no disk")
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	begun(t, b, j)
	in := newInstance(t, b, nil, "ann", j)
	in.start(t)
	if e := in.until(t, singleton.Ended, time.Second); e.Err == nil {
		t.Error("the failure is not told")
	}
	if e := in.until(t, singleton.Started, time.Second); !e.Tick.Equal(noon.Add(2 * time.Minute)) {
		t.Errorf("started %s", e.Tick)
	}
	in.stop()
	s, e := in.last(t, "job")
	if len(s.Last) != 2 || s.Last[0].Status != singleton.Failed || s.Last[0].Error != "no disk" || e.Status != singleton.Failed || e.Error != context.Canceled.Error() {
		t.Errorf("the record: %+v", s)
	}
	var did effects
	j.Run = did.run
	next := newInstance(t, b, fakeclock.New(noon.Add(3*time.Minute)), "bob", j)
	next.start(t)
	if e := next.until(t, singleton.Ended, 0); !e.Tick.Equal(noon.Add(3 * time.Minute)) {
		t.Errorf("then %s", e.Tick)
	}
}

// Nobody is there for three hours.
func TestMissed(t *testing.T) {
	for missed, want := range map[singleton.Missed]string{
		singleton.Skip:    "16:00+3",
		singleton.RunOnce: "15:00+2 16:00+0",
		singleton.RunAll:  "13:00+0 14:00+0 15:00+0 16:00+0",
	} {
		b := mem.New()
		var got []string
		j := singleton.Job{Name: "job", Schedule: "@hourly", Missed: missed, Run: func(_ context.Context, r singleton.Run) error {
			got = append(got, fmt.Sprintf("%s+%d", r.Tick.Format("15:04"), r.Skipped))
			return nil
		}}
		begun(t, b, j)
		in := newInstance(t, b, fakeclock.New(noon.Add(3*time.Hour+30*time.Minute)), "ann", j)
		in.start(t)
		for e := in.until(t, singleton.Ended, time.Second); e.Tick.Hour() != 16; {
			e = in.until(t, singleton.Ended, time.Second)
		}
		in.stop()
		text := strings.Join(got, " ")
		if missed == singleton.Skip {
			// The skipped ones are told by an event, not by the run.
			want = "16:00+0"
		}
		if s, _ := in.last(t, "job"); text != want || missed == singleton.Skip && s.Skipped != 3 {
			t.Errorf("%d: ran %q, want %q; %d skipped", missed, text, want, s.Skipped)
		}
	}
}

// The first instance ever begins now. A cursor in the future is told, and can
// be brought back.
func TestCursor(t *testing.T) {
	b := mem.New()
	var did effects
	j := singleton.Job{Name: "job", Schedule: "@hourly", Run: did.run}
	in := newInstance(t, b, fakeclock.New(noon.Add(90*time.Minute)), "ann", j)
	in.start(t)
	if e := in.until(t, singleton.Started, time.Second); !e.Tick.Equal(noon.Add(2 * time.Hour)) {
		t.Errorf("first tick %s", e.Tick)
	}
	in.until(t, singleton.Ended, 0)
	fast := newInstance(t, b, fakeclock.New(noon.Add(1000*time.Hour)), "fast", j)
	fast.start(t)
	ahead := fast.until(t, singleton.Ended, time.Second)
	fast.stop()
	if e := in.until(t, singleton.Ahead, time.Second); !e.Tick.Equal(ahead.Tick) {
		t.Errorf("ahead: %+v", e)
	}
	now := in.clock.Now()
	reset := make(chan error, 1)
	go func() { reset <- in.Reset(t.Context(), "job", now) }()
	if err := <-reset; err != nil {
		t.Fatal(err)
	}
	if e := in.until(t, singleton.Ended, time.Second); e.Tick.After(now.Add(time.Hour)) {
		t.Errorf("after the reset: %s", e.Tick)
	}
}
