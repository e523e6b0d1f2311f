// Package racy locks a row that may not exist yet.
package racy

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
)

type Server struct{ db *sql.DB }

func (s *Server) spend(ctx context.Context, account string, amount int) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var spent int
	err = tx.QueryRowContext(ctx, `SELECT spent FROM volumes WHERE account_id = $1 FOR UPDATE`, account).Scan(&spent)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if spent+amount > 100 {
		return errors.New("over the limit")
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO volumes (account_id, spent) VALUES ($1, $2) ON CONFLICT (account_id) DO UPDATE SET spent = volumes.spent + excluded.spent`, account, amount)
	if err != nil {
		return err
	}
	return tx.Commit()
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := s.spend(r.Context(), r.FormValue("account"), len(r.FormValue("amount"))); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
