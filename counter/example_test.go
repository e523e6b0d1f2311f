package counter_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-dev/holdfast/counter"
	"github.com/holdfast-dev/holdfast/store"
)

// A stock that is never negative. Being sold out is an answer, not an error.
func Example() {
	ctx := context.Background()
	s, err := store.Open(ctx, "mem:")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	stock, err := counter.New(s, counter.Options{Prefix: "stock", Bounds: counter.AtLeast(0)})
	if err != nil {
		log.Fatal(err)
	}
	for _, delta := range []int64{3, -2, -2} {
		r, err := stock.Add(ctx, "lamp", delta)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r)
	}
	// Output:
	// +3 applied: now 3
	// -2 applied: now 1
	// -2 refused: 1 would leave 0 to 9223372036854775807
}

// Seats are reserved while somebody fills in the form. Without a confirmation
// they are free again after a while.
func ExampleQuota() {
	ctx := context.Background()
	s, err := store.Open(ctx, "mem:")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	seats, err := counter.NewQuota(s, counter.QuotaOptions{Prefix: "seats", Limit: 2})
	if err != nil {
		log.Fatal(err)
	}
	mine, err := seats.Reserve(ctx, "concert", counter.Request{Amount: 2})
	if err != nil {
		log.Fatal(err)
	}
	yours, err := seats.Reserve(ctx, "concert", counter.Request{Amount: 1})
	if err != nil {
		log.Fatal(err)
	}
	outcome, err := seats.Confirm(ctx, "concert", mine.ID)
	fmt.Println(mine.Granted, yours.Granted, outcome, err)
	// Output: true false confirmed <nil>
}
