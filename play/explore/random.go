package explore

import (
	"context"
	"errors"
	"math/rand/v2"
)

// random makes Options.Random runs by probabilistic concurrency testing: every
// actor has a random priority, the ready actor with the highest one goes on,
// and at Depth-1 random steps the running actor falls behind all others. A bug
// that Depth ordering constraints bring out is hit by one run with probability
// at least 1/(n·k^(Depth-1)) for n actors and k steps.
func (x *explorer) random(ctx context.Context) error {
	length := 1 // steps of the longest run so far: the range of change points
	for i := range x.opts.Random {
		if err := x.budget(ctx); err != nil {
			return err
		}
		var events []Event
		var stuck bool
		var err error
		for try := range tries {
			// The same numbers at each try: a run is named by seed and number.
			rng := rand.New(rand.NewPCG(x.opts.Seed, uint64(i)))
			events, stuck, _, err = x.attempt(ctx, pct(rng, x.opts.Depth, length))
			if !errors.Is(err, ErrInconclusive) {
				if try > 0 {
					x.result.Retried++
				}
				break
			}
		}
		if errors.Is(err, ErrInconclusive) {
			x.inconclusive(err)
			continue
		}
		if err != nil {
			return err
		}
		length = max(length, len(events))
		if err := x.visit(events, stuck); err != nil {
			return err
		}
	}
	return nil
}

func pct(rng *rand.Rand, depth, length int) policy {
	if depth <= 0 {
		depth = 3
	}
	change := map[int]int{} // step → the low priority to fall to
	for d := range depth - 1 {
		change[rng.IntN(length)] = d
	}
	var priority []int
	return policy{
		choose: func(step int, actors []Status) int {
			if priority == nil {
				priority = rng.Perm(len(actors))
				for a := range priority {
					priority[a] += depth
				}
			}
			best := highest(priority, actors)
			if low, ok := change[step]; ok {
				priority[best] = low
				best = highest(priority, actors)
			}
			return best
		},
		done: func(int, []Status, Event) error { return nil },
	}
}

func highest(priority []int, actors []Status) int {
	best := -1
	for a, s := range actors {
		if s.State == Ready && (best < 0 || priority[a] > priority[best]) {
			best = a
		}
	}
	return best
}
