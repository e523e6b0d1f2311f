package postgres_test

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
)

func ExampleOpen() {
	ctx := context.Background()
	b, err := postgres.Open(ctx, "postgres://app@db.internal/app?pool_max_conns=20", postgres.Options{Table: "app_state"})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := store.New(b, store.Options{})
	defer s.Close()
	if _, err := s.Put(ctx, "greeting", []byte("hello"), store.CreateOnly()); err != nil {
		fmt.Println(err)
	}
}
