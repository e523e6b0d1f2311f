// Package racy replaces all attributes of an entity from its old copy.
package racy

import (
	"context"
	"database/sql"
	"net/http"
)

type Store struct{ db *sql.DB }

type Attr struct{ Name, Value string }

func (s *Store) attrs(ctx context.Context, tx *sql.Tx, id string) ([]Attr, error) {
	rows, err := tx.QueryContext(ctx, "SELECT name, value FROM attrs WHERE entity_id = $1", id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Attr
	for rows.Next() {
		var a Attr
		if err := rows.Scan(&a.Name, &a.Value); err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, rows.Err()
}

func (s *Store) set(ctx context.Context, id string, a Attr) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	all, err := s.attrs(ctx, tx, id)
	if err != nil {
		return err
	}
	all = append(all, a)
	if _, err := tx.ExecContext(ctx, "DELETE FROM attrs WHERE entity_id = $1", id); err != nil {
		return err
	}
	for _, x := range all {
		if _, err := tx.ExecContext(ctx, "INSERT INTO attrs (entity_id, name, value) VALUES ($1, $2, $3)", id, x.Name, x.Value); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := s.set(r.Context(), r.FormValue("id"), Attr{r.FormValue("name"), r.FormValue("value")}); err != nil {
		http.Error(w, "no", 500)
		return
	}
}
