package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/outbox"
)

// A message goes out if, and only if, the change it tells of was committed.
func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	box, err := outbox.New(guard.SQLite, outbox.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := box.Create(ctx, guard.SQL(db, guard.SQLite)); err != nil {
		log.Fatal(err)
	}

	// The application: the change and the message in one transaction.
	for _, order := range []string{"paid", "cancelled", "shipped"} {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		// ... the change of the order ...
		if _, err := box.Add(ctx, guard.SQL(tx, guard.SQLite), outbox.Message{Key: "order 7", Payload: []byte(order)}); err != nil {
			log.Fatal(err)
		}
		if order == "cancelled" {
			err = tx.Rollback()
		} else {
			err = tx.Commit()
		}
		if err != nil {
			log.Fatal(err)
		}
	}

	// The relay, in the same process or another one; Run does this all the time.
	relay, err := outbox.NewRelaySQL(box, db, func(ctx context.Context, d outbox.Delivery) error {
		fmt.Println(d.Key, "is", string(d.Payload))
		return nil
	}, outbox.RelayOptions{})
	if err != nil {
		log.Fatal(err)
	}
	stats, err := relay.Once(ctx)
	fmt.Println(stats.Published, err)
	// Output:
	// order 7 is paid
	// order 7 is shipped
	// 2 <nil>
}
