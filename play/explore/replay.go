package explore

import (
	"context"
	"fmt"
)

// Replay runs one schedule. It returns where the actors stand at its end, which
// is after the last choice even when some are still Ready; the run counts as
// complete only when none is. events, if not nil, receives what happened.
//
// A choice that can not be taken gives an [InconclusiveError].
func Replay(ctx context.Context, sys System, s Schedule, events *[]Event) (actors []Status, err error) {
	exec, err := sys.Begin(ctx)
	if err != nil {
		return nil, err
	}
	complete := false
	defer func() {
		if endErr := exec.End(ctx, complete); endErr != nil && err == nil {
			err = endErr
		}
	}()
	for i, a := range s {
		actors = exec.Actors()
		if a < 0 || a >= len(actors) || actors[a].State != Ready {
			return actors, &InconclusiveError{Reason: "replay diverged",
				Detail: fmt.Sprintf("choice %d of the schedule is actor %d, which is not ready", i+1, a)}
		}
		e, err := exec.Step(ctx, a)
		if err != nil {
			return exec.Actors(), err
		}
		if events != nil {
			*events = append(*events, e)
		}
	}
	actors = exec.Actors()
	complete = !anyReady(actors)
	return actors, nil
}
