package singleton

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/mem"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	tm, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

func job(t *testing.T, j Job) *scheduled {
	t.Helper()
	j.Name = "job"
	j.Run = func(context.Context, Run) error { return nil }
	s, err := newScheduled(j, at(t, "2026-01-01T00:00:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What becomes of the ticks between a cursor and now.
func TestDecide(t *testing.T) {
	const hourly = "0 * * * *"
	for _, c := range []struct {
		job         Job
		cursor, now string // of 2026-05-05
		tick, to    string // empty: none, not moved
		skipped     int
	}{
		{Job{Schedule: hourly}, "10:00:00", "10:59:59", "", "", 0},
		{Job{Schedule: hourly}, "10:00:00", "11:00:00", "11:00:00", "11:00:00", 0},
		{Job{Schedule: hourly}, "12:00:00", "11:00:00", "", "", 0},
		{Job{Schedule: hourly}, "10:00:00", "15:30:00", "15:00:00", "15:00:00", 4},
		{Job{Schedule: hourly, Missed: Skip}, "10:00:00", "11:01:00", "11:00:00", "11:00:00", 0},
		{Job{Schedule: hourly, Missed: Skip}, "10:00:00", "11:01:01", "", "11:00:00", 1},
		{Job{Schedule: hourly, Missed: Skip}, "10:00:00", "15:00:30", "15:00:00", "15:00:00", 4},
		{Job{Schedule: hourly, Missed: Skip, Late: time.Hour}, "10:00:00", "15:30:00", "15:00:00", "15:00:00", 4},
		{Job{Schedule: hourly, Missed: RunAll}, "10:00:00", "15:30:00", "11:00:00", "11:00:00", 0},
		{Job{Schedule: hourly, Missed: RunAll, MaxMissed: 5}, "10:00:00", "15:30:00", "11:00:00", "11:00:00", 0},
		{Job{Schedule: hourly, Missed: RunAll, MaxMissed: 2}, "10:00:00", "15:30:00", "14:00:00", "14:00:00", 3},
		{Job{Schedule: hourly, Missed: RunAll, MaxMissed: 3}, "10:00:00", "23:30:00", "21:00:00", "21:00:00", 10},
		{Job{Schedule: "@every 7m"}, "10:00:00", "10:15:00", "10:14:00", "10:14:00", 1},
	} {
		day := func(clock string) time.Time {
			if clock == "" {
				return time.Time{}
			}
			return at(t, "2026-05-05T"+clock+"Z")
		}
		got := job(t, c.job).decide(day(c.cursor), day(c.now))
		want := decision{tick: day(c.tick), cursor: day(c.to), skipped: c.skipped}
		if c.to == "" {
			want.cursor = day(c.cursor)
		}
		if got != want {
			t.Errorf("%+v from %s at %s: got %+v, want %+v", c.job, c.cursor, c.now, got, want)
		}
	}
}

// The library's reading of a schedule is the one that the package comment
// promises.
func TestSchedules(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		job  Job
		from string
		want []string
	}{
		// Day of month or day of week: the 13th, and Fridays.
		{Job{Schedule: "0 0 13 * FRI"}, "2026-01-10T00:00:00Z", []string{"2026-01-13T00:00:00Z", "2026-01-16T00:00:00Z"}},
		{Job{Schedule: "30 2 * * *", Location: berlin}, "2026-03-28T12:00:00Z", []string{"2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"}},
		{Job{Schedule: "30 2 * * *", Location: berlin}, "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"}},
		{Job{Schedule: "CRON_TZ=Europe/Berlin 0 12 * * *"}, "2026-07-01T00:00:00Z", []string{"2026-07-01T10:00:00Z"}},
	} {
		s, from := job(t, c.job), at(t, c.from)
		for _, want := range c.want {
			if from = s.next(from); !from.Equal(at(t, want)) {
				t.Errorf("%q: got %s, want %s", c.job.Schedule, from.Format(time.RFC3339), want)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	run := func(context.Context, Run) error { return nil }
	s := store.New(mem.New(), store.Options{})
	for _, jobs := range [][]Job{
		{{Name: "", Schedule: "@hourly", Run: run}},
		{{Name: "a/b", Schedule: "@hourly", Run: run}},
		{{Name: "a", Schedule: "@hourly"}},
		{{Name: "a", Schedule: "TZ=0", Run: run}},
		{{Name: "a", Schedule: "61 * * * *", Run: run}},
		{{Name: "a", Schedule: "0 0 30 2 *", Run: run}},
		{{Name: "a", Schedule: "@hourly", Run: run, Missed: 9}},
		{{Name: "a", Schedule: "@hourly", Run: run, Late: -1}},
		{{Name: "a", Schedule: "@hourly", Run: run}, {Name: "a", Schedule: "@daily", Run: run}},
	} {
		if _, err := New(s, Options{}, jobs...); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: got %v", fmt.Sprint(jobs), err)
		}
	}
}
