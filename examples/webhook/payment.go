package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"

	"github.com/jackc/pgx/v5"
)

// payment is the body of webhooks and forms.
type payment struct {
	Account int64 `json:"account"`
	Amount  int64 `json:"amount"`
}

var (
	errBadRequest = errors.New("the request is not understood")
	errNoAccount  = errors.New("there is no such account")
	errNoJob      = errors.New("there is no such job")
)

func readPayment(r io.Reader) (p payment, err error) {
	d := json.NewDecoder(io.LimitReader(r, 1<<16))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, errors.Join(errBadRequest, err)
	}
	if p.Amount <= 0 {
		return p, errBadRequest
	}
	return p, nil
}

// runner is a pool or a transaction.
type runner interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// book is the effect that must happen once: the money is on the account, and the
// payment in the books.
func book(ctx context.Context, db runner, p payment, cause string) (id int64, err error) {
	err = db.QueryRow(ctx, "UPDATE accounts SET balance = balance + $2 WHERE id = $1 RETURNING id", p.Account, p.Amount).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, errNoAccount
	}
	if err != nil {
		return 0, err
	}
	err = db.QueryRow(ctx, "INSERT INTO payments (account, amount, cause) VALUES ($1, $2, $3) RETURNING id", p.Account, p.Amount, cause).Scan(&id)
	return id, err
}

func readJob(ctx context.Context, db runner, id string) (p payment, err error) {
	err = db.QueryRow(ctx, "SELECT account, amount FROM jobs WHERE id::text = $1", id).Scan(&p.Account, &p.Amount)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, errNoJob
	}
	return p, err
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		log.Printf("write answer: %v", err)
	}
}

// fail answers with problem details (RFC 9457).
func fail(w http.ResponseWriter, err error) {
	status, title := http.StatusInternalServerError, http.StatusText(http.StatusInternalServerError)
	for known, s := range map[error]int{errBadRequest: http.StatusBadRequest, errNoAccount: http.StatusNotFound, errNoJob: http.StatusNotFound} {
		if errors.Is(err, known) {
			status, title = s, known.Error()
		}
	}
	if status == http.StatusInternalServerError {
		log.Printf("error: %v", err)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(map[string]any{"title": title, "status": status}); err != nil {
		log.Printf("write answer: %v", err)
	}
}
