package singleton_test

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/singleton"
	"github.com/holdfast-dev/holdfast/store"
)

// The same in every instance of a service: one of them runs each tick.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s, err := store.Open(ctx, "mem:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := singleton.New(s, singleton.Options{}, singleton.Job{
		Name:     "heartbeat",
		Schedule: "@every 1s",
		Run: func(ctx context.Context, run singleton.Run) error {
			fmt.Println("attempt", run.Attempt)
			stop()
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Run(ctx))
	// Output:
	// attempt 1
	// context canceled
}
