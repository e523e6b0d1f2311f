package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// withdrawFunc takes an amount out of an account and returns the new balance.
type withdrawFunc func(ctx context.Context, db *pgxpool.Pool, account, amount int64) (int64, error)

var withdrawals = map[string]withdrawFunc{
	"autocommit":     withdrawAutocommit,
	"read-committed": withdrawReadCommitted,
	"atomic":         withdrawAtomic,
	"for-update":     withdrawForUpdate,
}

func handleWithdraw(db *pgxpool.Pool, withdraw withdrawFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Amount int64 `json:"amount"`
		}
		account, err := strconv.ParseInt(r.PathValue("account"), 10, 64)
		if err != nil {
			writeProblem(w, errNoAccount)
			return
		}
		if err := readJSON(w, r, &body); err != nil {
			writeProblem(w, err)
			return
		}
		if body.Amount <= 0 {
			writeProblem(w, errBadRequest)
			return
		}
		balance, err := withdraw(r.Context(), db, account, body.Amount)
		if err != nil {
			writeProblem(w, err)
			return
		}
		writeJSON(w, http.StatusOK, "application/json", map[string]int64{"balance": balance})
	}
}

// withdrawAutocommit reads the balance and writes it back. Another request can
// do both between the two statements.
func withdrawAutocommit(ctx context.Context, db *pgxpool.Pool, account, amount int64) (int64, error) {
	return readThenWrite(ctx, db, "SELECT balance FROM accounts WHERE id = $1", account, amount)
}

// withdrawReadCommitted does the same in a transaction. At READ COMMITTED, which
// is the default, this changes nothing: each statement sees what was committed
// before it, and the balance that was read may be out of date by then.
func withdrawReadCommitted(ctx context.Context, db *pgxpool.Pool, account, amount int64) (balance int64, err error) {
	err = pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		balance, err = readThenWrite(ctx, tx, "SELECT balance FROM accounts WHERE id = $1", account, amount)
		return err
	})
	return balance, err
}

// withdrawForUpdate locks the row that it reads, so the balance stays what it is
// until the commit.
func withdrawForUpdate(ctx context.Context, db *pgxpool.Pool, account, amount int64) (balance int64, err error) {
	err = pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		balance, err = readThenWrite(ctx, tx, "SELECT balance FROM accounts WHERE id = $1 FOR UPDATE", account, amount)
		return err
	})
	return balance, err
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func readThenWrite(ctx context.Context, db querier, read string, account, amount int64) (balance int64, err error) {
	err = db.QueryRow(ctx, read, account).Scan(&balance)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, errNoAccount
	}
	if err != nil {
		return 0, err
	}
	if balance < amount {
		return 0, errFunds
	}
	err = db.QueryRow(ctx, "UPDATE accounts SET balance = $2 WHERE id = $1 RETURNING balance", account, balance-amount).Scan(&balance)
	return balance, err
}

// withdrawAtomic lets the database do the arithmetic and the check, in one
// statement that waits for others on the same row and then looks again.
func withdrawAtomic(ctx context.Context, db *pgxpool.Pool, account, amount int64) (balance int64, err error) {
	err = db.QueryRow(ctx, `UPDATE accounts SET balance = balance - $2
		WHERE id = $1 AND balance >= $2 RETURNING balance`, account, amount).Scan(&balance)
	if !errors.Is(err, pgx.ErrNoRows) {
		return balance, err
	}
	var exists bool
	if err := db.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM accounts WHERE id = $1)", account).Scan(&exists); err != nil {
		return 0, err
	}
	if !exists {
		return 0, errNoAccount
	}
	return 0, errFunds
}
