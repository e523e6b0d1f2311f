package singleton

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/fakeclock"
	"github.com/holdfast-dev/holdfast/store/mem"
)

// What a job returns is noted, also when the instance is ending, and is not
// tried again; the lease is free for the others at once.
func TestFailureAndEnd(t *testing.T) {
	b := mem.New()
	j := Job{Name: "job", Schedule: "* * * * *", Run: func(ctx context.Context, r Run) error {
		if r.Tick.Equal(noon.Add(time.Minute)) {
			return errors.New("no disk")
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	begun(t, b, j)
	in := newInstance(t, b, nil, "ann", j)
	in.start(t)
	if e := in.until(t, Ended, time.Second); e.Err == nil {
		t.Error("the failure is not told")
	}
	if e := in.until(t, Started, time.Second); !e.Tick.Equal(noon.Add(2 * time.Minute)) {
		t.Errorf("started %s", e.Tick)
	}
	in.stop()
	s, e := in.last(t, "job")
	if len(s.Last) != 2 || s.Last[0].Status != Failed || s.Last[0].Error != "no disk" || e.Status != Failed || e.Error != context.Canceled.Error() {
		t.Errorf("the record: %+v", s)
	}
	var did effects
	j.Run = did.run
	next := newInstance(t, b, fakeclock.New(noon.Add(3*time.Minute)), "bob", j)
	next.start(t)
	if e := next.until(t, Ended, 0); !e.Tick.Equal(noon.Add(3 * time.Minute)) {
		t.Errorf("then %s", e.Tick)
	}
}

// Nobody is there for three hours.
func TestMissed(t *testing.T) {
	for missed, want := range map[Missed]string{
		Skip:    "16:00+3",
		RunOnce: "15:00+2 16:00+0",
		RunAll:  "13:00+0 14:00+0 15:00+0 16:00+0",
	} {
		b := mem.New()
		var got []string
		j := Job{Name: "job", Schedule: "@hourly", Missed: missed, Run: func(_ context.Context, r Run) error {
			got = append(got, fmt.Sprintf("%s+%d", r.Tick.Format("15:04"), r.Skipped))
			return nil
		}}
		begun(t, b, j)
		in := newInstance(t, b, fakeclock.New(noon.Add(3*time.Hour+30*time.Minute)), "ann", j)
		in.start(t)
		for e := in.until(t, Ended, time.Second); e.Tick.Hour() != 16; {
			e = in.until(t, Ended, time.Second)
		}
		in.stop()
		text := strings.Join(got, " ")
		if missed == Skip {
			// The skipped ones are told by an event, not by the run.
			want = "16:00+0"
		}
		if s, _ := in.last(t, "job"); text != want || missed == Skip && s.Skipped != 3 {
			t.Errorf("%d: ran %q, want %q; %d skipped", missed, text, want, s.Skipped)
		}
	}
}

// The first instance ever begins now. A cursor in the future is told, and can
// be brought back.
func TestCursor(t *testing.T) {
	b := mem.New()
	var did effects
	j := Job{Name: "job", Schedule: "@hourly", Run: did.run}
	in := newInstance(t, b, fakeclock.New(noon.Add(90*time.Minute)), "ann", j)
	in.start(t)
	if e := in.until(t, Started, time.Second); !e.Tick.Equal(noon.Add(2 * time.Hour)) {
		t.Errorf("first tick %s", e.Tick)
	}
	in.until(t, Ended, 0)
	fast := newInstance(t, b, fakeclock.New(noon.Add(1000*time.Hour)), "fast", j)
	fast.start(t)
	ahead := fast.until(t, Ended, time.Second)
	fast.stop()
	if e := in.until(t, Ahead, time.Second); !e.Tick.Equal(ahead.Tick) {
		t.Errorf("ahead: %+v", e)
	}
	now := in.clock.Now()
	reset := make(chan error, 1)
	go func() { reset <- in.Reset(t.Context(), "job", now) }()
	if err := <-reset; err != nil {
		t.Fatal(err)
	}
	if e := in.until(t, Ended, time.Second); e.Tick.After(now.Add(time.Hour)) {
		t.Errorf("after the reset: %s", e.Tick)
	}
}
