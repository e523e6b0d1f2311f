package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/conflict"
	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/machine"
	"github.com/holdfast-dev/holdfast/store"
)

// order is what an order may go through.
var order = machine.Must(machine.Table{
	Name:    "order",
	States:  []machine.State{"new", "paid", "shipped", "cancelled"},
	Initial: []machine.State{"new"},
	Final:   []machine.State{"shipped", "cancelled"},
	Transitions: []machine.Transition{
		{From: "new", To: "paid", Name: "pay"},
		{From: "new", To: "cancelled", Name: "cancel"},
		{From: "paid", To: "shipped", Name: "ship"},
	},
})

// action is a request that moves an order, and what else it does.
type action struct {
	from, to machine.State
	effect   func(ctx context.Context, tx guard.Handle, id int64) error
}

var actions = map[string]action{
	"pay":    {"new", "paid", takeMoney},
	"cancel": {"new", "cancelled", putBack},
	"ship":   {"paid", "shipped", func(context.Context, guard.Handle, int64) error { return nil }},
}

// takeMoney books the payment of an order.
func takeMoney(ctx context.Context, tx guard.Handle, id int64) error {
	_, err := guard.Exec(ctx, tx, "INSERT INTO payments (order_id, amount) SELECT id, total FROM orders WHERE id = $1", id)
	return err
}

// putBack returns the goods of an order to the stock.
func putBack(ctx context.Context, tx guard.Handle, id int64) error {
	_, err := guard.Exec(ctx, tx, "UPDATE stock SET n = n + o.quantity FROM orders o WHERE o.id = $1 AND stock.item = o.item", id)
	return err
}

// mover moves an order and does what goes with it.
type mover func(ctx context.Context, db *pgxpool.Pool, id int64, a action) error

var movers = map[string]mover{"racy": moveRacy, "guarded": moveGuarded}

// moveRacy looks whether the order may be moved, and then moves it. It is all in
// one transaction, which does not help at READ COMMITTED: another request can
// look before this one has written, and its UPDATE waits for the commit and then
// overwrites the state.
func moveRacy(ctx context.Context, db *pgxpool.Pool, id int64, a action) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		var status machine.State
		err := tx.QueryRow(ctx, "SELECT status FROM orders WHERE id = $1", id).Scan(&status)
		if errors.Is(err, pgx.ErrNoRows) {
			return &store.NotFoundError{Key: fmt.Sprint("orders ", id)}
		}
		if err != nil {
			return err
		}
		if status != a.from {
			return &machine.LostError{Machine: order.Name(), ID: strconv.FormatInt(id, 10), From: a.from, To: a.to, Current: status}
		}
		if _, err := tx.Exec(ctx, "UPDATE orders SET status = $2 WHERE id = $1", id, a.to); err != nil {
			return err
		}
		return a.effect(ctx, guard.Pgx(tx), id)
	})
}

// rows are the orders as package machine moves them.
var rows = machine.Rows{Machine: order, Table: "orders", Key: "id", State: "status", History: "order_history"}

// moveGuarded moves the order if it is still where the action starts: UPDATE …
// WHERE id = … AND status = …. Only the winner takes the money or puts back the
// goods, in the same transaction.
func moveGuarded(ctx context.Context, db *pgxpool.Pool, id int64, a action) error {
	return rows.Transition(ctx, guard.Pgx(db), id, a.from, a.to, machine.RowStep{
		Effect: func(ctx context.Context, tx guard.Handle) error { return a.effect(ctx, tx, id) },
	})
}

// newService routes the requests.
func newService(db *pgxpool.Pool, status string) (http.Handler, error) {
	if status == "" {
		status = "guarded"
	}
	move, ok := movers[status]
	if !ok {
		return nil, fmt.Errorf("STATUS=%s is not known: use guarded or racy", status)
	}
	policy := conflict.New("order-status", conflict.Options{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := db.Ping(r.Context()); err != nil {
			policy.WriteProblem(w, r, err)
			return
		}
		writeJSON(w, map[string]string{"status": "ok"})
	})
	for name, a := range actions {
		mux.Handle("POST /orders/{order}/"+name, policy.Handler(func(w http.ResponseWriter, r *http.Request) error {
			id, err := strconv.ParseInt(r.PathValue("order"), 10, 64)
			if err != nil {
				return &store.NotFoundError{Key: "orders " + r.PathValue("order")}
			}
			if err := move(r.Context(), db, id, a); err != nil {
				return err
			}
			writeJSON(w, map[string]any{"order": id, "status": a.to})
			return nil
		}))
	}
	return mux, nil
}

func writeJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(body); err != nil {
		log.Printf("write answer: %v", err)
	}
}
