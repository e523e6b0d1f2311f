// Package right locks the entity's row first.
package right

import (
	"context"
	"database/sql"
	"net/http"
)

type Store struct{ db *sql.DB }

func (s *Store) set(ctx context.Context, id, name, value string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var version int
	if err := tx.QueryRowContext(ctx, "SELECT version FROM entities WHERE id = $1 FOR UPDATE", id).Scan(&version); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM attrs WHERE entity_id = $1 AND name = $2", id, name); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO attrs (entity_id, name, value) VALUES ($1, $2, $3)", id, name, value); err != nil {
		return err
	}
	return tx.Commit()
}

func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := s.set(r.Context(), r.FormValue("id"), r.FormValue("name"), r.FormValue("value")); err != nil {
		http.Error(w, "no", 500)
		return
	}
}
