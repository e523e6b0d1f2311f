package mem_test

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/mem"
)

func Example() {
	ctx := context.Background()
	s := store.New(mem.New(), store.Options{})
	defer s.Close()
	if _, err := s.Put(ctx, "greeting", []byte("hello"), store.CreateOnly()); err != nil {
		fmt.Println(err)
		return
	}
	item, err := s.Get(ctx, "greeting")
	fmt.Println(string(item.Value), err)
	// Output: hello <nil>
}
