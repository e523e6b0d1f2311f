// Package racy reads a balance, checks it, and writes what it computed.
package racy

import (
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
)

type Server struct{ db *sql.DB }

func (s *Server) Routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /accounts/{id}/withdraw", s.withdraw)
}

type request struct {
	Amount int `json:"amount"`
}

func (s *Server) withdraw(w http.ResponseWriter, r *http.Request) {
	var req request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	id := r.PathValue("id")
	var balance int
	err := s.db.QueryRowContext(r.Context(), "SELECT balance FROM accounts WHERE id = ?", id).Scan(&balance)
	if errors.Is(err, sql.ErrNoRows) {
		http.Error(w, "no such account", http.StatusNotFound)
		return
	}
	if err != nil {
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	}
	if balance < req.Amount {
		http.Error(w, "too little", http.StatusConflict)
		return
	}
	balance -= req.Amount
	if _, err := s.db.ExecContext(r.Context(), "UPDATE accounts SET balance = ? WHERE id = ?", balance, id); err != nil {
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
