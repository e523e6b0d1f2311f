package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	b, err := sqlite.Open(ctx, filepath.Join(dir, "state.db"), sqlite.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := store.New(b, store.Options{})
	defer s.Close()
	// Two keys change together or not at all.
	_, err = s.Batch(ctx, []store.Op{
		{Key: "order/7", Value: []byte("paid"), Cond: store.CreateOnly()},
		{Key: "basket/7", Delete: true},
	})
	fmt.Println(err)
	// Output: <nil>
}
