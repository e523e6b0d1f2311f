package machine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-dev/holdfast/machine"
	"github.com/holdfast-dev/holdfast/store"
)

// Of two callers that move the same order from "new", one wins; the other learns
// where it is now.
func Example() {
	orders, err := machine.New(machine.Table{
		Name:    "order",
		States:  []machine.State{"new", "paid", "cancelled"},
		Initial: []machine.State{"new"},
		Final:   []machine.State{"paid", "cancelled"},
		Transitions: []machine.Transition{
			{From: "new", To: "paid", Name: "pay"},
			{From: "new", To: "cancelled", Name: "cancel"},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	s, err := store.Open(ctx, "mem:")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	things, err := machine.NewObjects(s, orders, machine.ObjectOptions{Prefix: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := things.Create(ctx, "7", "", nil); err != nil {
		log.Fatal(err)
	}
	o, err := things.Transition(ctx, "7", "new", "paid", machine.Step{By: "shop"})
	fmt.Println(o.State, err)
	_, err = things.Transition(ctx, "7", "new", "cancelled", machine.Step{By: "customer"})
	fmt.Println(err)
	// Output:
	// paid <nil>
	// order 7: new → cancelled: it is paid now, somebody else was faster; nothing was written; decide anew from there
}
