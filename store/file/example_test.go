package file_test

import (
	"context"
	"fmt"
	"os"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	b, err := file.Open(ctx, dir, file.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := store.New(b, store.Options{})
	defer s.Close()
	if _, err := s.Put(ctx, "greeting", []byte("hello"), store.CreateOnly()); err != nil {
		fmt.Println(err)
		return
	}
	item, err := s.Get(ctx, "greeting")
	fmt.Println(string(item.Value), err)
	// Output: hello <nil>
}
