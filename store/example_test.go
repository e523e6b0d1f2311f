package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/store"
)

// Two writers saw the same version. One wins, the other learns it and has
// overwritten nothing.
func ExampleStore_Put() {
	ctx := context.Background()
	s, err := store.Open(ctx, "mem:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	v, err := s.Put(ctx, "door", []byte("open"), store.CreateOnly())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, first := s.Put(ctx, "door", []byte("closed"), store.IfVersion(v))
	_, second := s.Put(ctx, "door", []byte("ajar"), store.IfVersion(v))
	fmt.Println("first:", first)
	fmt.Println("second lost the race:", errors.Is(second, store.ErrConflict))
	// Output:
	// first: <nil>
	// second lost the race: true
}

func ExampleStore_Update() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(ctx, "sqlite:"+filepath.Join(dir, "state.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	item, err := s.Update(ctx, "greeting", store.Retry{}, func(item store.Item, exists bool) ([]byte, error) {
		return append(item.Value, "hello"...), nil
	})
	fmt.Println(string(item.Value), err)
	// Output: hello <nil>
}

func ExampleStore_List() {
	ctx := context.Background()
	s, err := store.Open(ctx, "mem:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	for _, key := range []string{"jobs/2", "jobs/1", "users/1"} {
		if _, err := s.Put(ctx, key, nil, store.None()); err != nil {
			fmt.Println(err)
			return
		}
	}
	for item, err := range s.List(ctx, store.ListOptions{Prefix: "jobs/"}) {
		fmt.Println(item.Key, err)
	}
	// Output:
	// jobs/1 <nil>
	// jobs/2 <nil>
}

func ExampleStore_Add() {
	ctx := context.Background()
	s, err := store.Open(ctx, "mem:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	if _, _, err := s.Add(ctx, "stock", 1, 0, 100); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		left, _, err := s.Add(ctx, "stock", -1, 0, 100)
		var out *store.BoundsError
		if errors.As(err, &out) {
			fmt.Println("sold out")
			continue
		}
		fmt.Println("left:", left, err)
	}
	// Output:
	// left: 0 <nil>
	// sold out
}
