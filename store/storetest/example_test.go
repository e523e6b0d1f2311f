package storetest_test

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/mem"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// Outside of a test, a case can be run by itself.
func ExampleRunCase() {
	s := store.New(mem.New(), store.Options{})
	defer s.Close()
	for _, c := range storetest.Cases() {
		if c.Name == "compare-and-set counter" {
			fmt.Println(storetest.RunCase(context.Background(), s, c))
		}
	}
	// Output: <nil>
}
