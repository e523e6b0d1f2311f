// Package racy asks the pool for a second connection inside a transaction.
package racy

import (
	"context"
	"database/sql"
	"net/http"
)

type Store struct{ db *sql.DB }

func (s *Store) savePasscode(ctx context.Context, user, code string) error {
	_, err := s.db.ExecContext(ctx, "INSERT INTO passcodes (user_id, code) VALUES ($1, $2)", user, code)
	return err
}

type Server struct{ store *Store }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tx, err := s.store.db.Begin()
	if err != nil {
		http.Error(w, "no", 500)
		return
	}
	defer tx.Rollback()
	if _, err := tx.Exec("UPDATE flows SET step = 'passcode' WHERE id = $1", r.FormValue("flow")); err != nil {
		http.Error(w, "no", 500)
		return
	}
	if err := s.store.savePasscode(r.Context(), r.FormValue("user"), r.FormValue("code")); err != nil {
		http.Error(w, "no", 500)
		return
	}
	if err := tx.Commit(); err != nil {
		http.Error(w, "no", 500)
		return
	}
}
