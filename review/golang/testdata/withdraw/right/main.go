// Package right lets the statement check and compute.
package right

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

type Server struct{ pool *pgxpool.Pool }

func (s *Server) Routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /accounts/{id}/withdraw", s.withdraw)
}

type request struct {
	Amount int `json:"amount"`
}

func inTx(ctx context.Context, p *pgxpool.Pool, fn func(tx pgx.Tx) error) error {
	tx, err := p.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func (s *Server) withdraw(w http.ResponseWriter, r *http.Request) {
	var req request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	id := r.PathValue("id")
	rows := int64(0)
	err := inTx(r.Context(), s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(r.Context(), "UPDATE accounts SET balance = balance - $1 WHERE id = $2 AND balance >= $1", req.Amount, id)
		if err != nil {
			return err
		}
		rows = tag.RowsAffected()
		_, err = tx.Exec(r.Context(), "INSERT INTO ledger (account_id, amount) VALUES ($1, $2)", id, -req.Amount)
		return err
	})
	if err != nil {
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	}
	if rows == 0 {
		http.Error(w, "too little", http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
