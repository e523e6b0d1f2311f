package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// transferFunc moves an amount from one account to another and returns the new
// balance of the first.
type transferFunc func(ctx context.Context, db *pgxpool.Pool, from, to, amount int64) (int64, error)

var transfers = map[string]transferFunc{
	"as-requested": transferAsRequested,
	"ordered":      transferOrdered,
}

func handleTransfer(db *pgxpool.Pool, transfer transferFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			From   int64 `json:"from"`
			To     int64 `json:"to"`
			Amount int64 `json:"amount"`
		}
		if err := readJSON(w, r, &body); err != nil {
			writeProblem(w, err)
			return
		}
		if body.Amount <= 0 || body.From == body.To {
			writeProblem(w, errBadRequest)
			return
		}
		balance, err := transfer(r.Context(), db, body.From, body.To, body.Amount)
		if err != nil {
			writeProblem(w, err)
			return
		}
		writeJSON(w, http.StatusOK, "application/json", map[string]int64{"balance": balance})
	}
}

// transferAsRequested changes the two accounts in the order of the request, and
// an UPDATE locks its row until the commit. Two transfers in opposite directions
// can each hold the row that the other one needs.
func transferAsRequested(ctx context.Context, db *pgxpool.Pool, from, to, amount int64) (balance int64, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		balance, err = move(ctx, tx, from, to, amount)
		return err
	})
	return balance, err
}

// transferOrdered first locks both accounts in the order of their numbers, which
// is the same for every transfer.
func transferOrdered(ctx context.Context, db *pgxpool.Pool, from, to, amount int64) (balance int64, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT id FROM accounts WHERE id IN ($1, $2) ORDER BY id FOR UPDATE", from, to); err != nil {
			return err
		}
		balance, err = move(ctx, tx, from, to, amount)
		return err
	})
	return balance, err
}

func move(ctx context.Context, tx pgx.Tx, from, to, amount int64) (balance int64, err error) {
	err = tx.QueryRow(ctx, "UPDATE accounts SET balance = balance - $2 WHERE id = $1 RETURNING balance", from, amount).Scan(&balance)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, errNoAccount
	}
	if err != nil {
		return 0, err
	}
	if balance < 0 {
		return 0, errFunds // the transaction is rolled back
	}
	tag, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance + $2 WHERE id = $1", to, amount)
	if err == nil && tag.RowsAffected() == 0 {
		err = errNoAccount
	}
	return balance, err
}
