package idempotency_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/idempotency"
	"github.com/holdfast-dev/holdfast/store"
)

// open makes a database with a table of payments.
func open() (db *sql.DB, remove func()) {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	db, err = sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE payments (id INTEGER PRIMARY KEY, amount INTEGER)"); err != nil {
		log.Fatal(err)
	}
	return db, func() {
		_ = db.Close()
		_ = os.RemoveAll(dir)
	}
}

// A form that is sent twice pays once, and both get the same answer.
func ExampleKeys_Handler() {
	db, remove := open()
	defer remove()
	keys, err := idempotency.NewSQL(db, guard.SQLite, idempotency.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := keys.Create(context.Background(), guard.SQL(db, guard.SQLite)); err != nil {
		log.Fatal(err)
	}
	pay := func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) error {
		res, err := tx.ExecContext(r.Context(), "INSERT INTO payments (amount) VALUES (10)")
		if err != nil {
			return err
		}
		id, err := res.LastInsertId()
		if err != nil {
			return err
		}
		w.WriteHeader(http.StatusCreated)
		_, err = fmt.Fprintf(w, "payment %d", id)
		return err
	}
	h := keys.Handler(idempotency.HTTPOptions{
		Scope: func(r *http.Request) string { return "the user of the session" },
	}, pay)
	for range 2 {
		r := httptest.NewRequest("POST", "/payments", strings.NewReader("10"))
		r.Header.Set(idempotency.HeaderName, `"8e03978e-40d5-43e8-bc93-6894a57f9324"`)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Printf("%d %s, replayed: %q\n", w.Code, w.Body, w.Header().Get(idempotency.ReplayedHeader))
	}
	// Output:
	// 201 payment 1, replayed: ""
	// 201 payment 1, replayed: "true"
}

// A queue that delivers at least once.
func ExampleKeys_Consume() {
	db, remove := open()
	defer remove()
	ctx := context.Background()
	keys, err := idempotency.NewSQL(db, guard.SQLite, idempotency.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := keys.Create(ctx, guard.SQL(db, guard.SQLite)); err != nil {
		log.Fatal(err)
	}
	for _, delivery := range []string{"evt_1", "evt_2", "evt_1"} {
		first, err := keys.Consume(ctx, idempotency.Request{Scope: "payments queue", Key: delivery}, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO payments (amount) VALUES (10)")
			return err
		})
		fmt.Println(delivery, first, err)
	}
	// Output:
	// evt_1 true <nil>
	// evt_2 true <nil>
	// evt_1 false <nil>
}

// Without a database: the key lives in the object that changes.
func ExampleObjects() {
	ctx := context.Background()
	s, err := store.Open(ctx, "mem:")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	type account struct{ Balance int }
	accounts, err := idempotency.NewObjects[account](s, idempotency.ObjectOptions{Prefix: "accounts"})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		r, err := accounts.Do(ctx, "alice", idempotency.Request{Key: "k1"}, func(a *account) (idempotency.Answer, error) {
			a.Balance += 10
			return idempotency.Answer{Body: fmt.Append(nil, "balance ", a.Balance)}, nil
		})
		fmt.Println(string(r.Body), r.Replayed, err)
	}
	// Output:
	// balance 10 false <nil>
	// balance 10 true <nil>
}
