// Package racy retries a conflict for ever and runs a cascade in each round.
package racy

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
)

var errConflict = errors.New("conflict")

type Store struct{ db *sql.DB }

func (s *Store) touch(ctx context.Context, id string) error {
	for {
		err := s.tryTouch(ctx, id)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errConflict) {
			return err
		}
	}
}

func (s *Store) tryTouch(ctx context.Context, id string) error {
	var version int
	if err := s.db.QueryRowContext(ctx, "SELECT version FROM nodes WHERE id = $1", id).Scan(&version); err != nil {
		return err
	}
	if _, err := s.db.ExecContext(ctx, "DELETE FROM pings WHERE node_id = $1", id); err != nil {
		return err
	}
	res, err := s.db.ExecContext(ctx, "UPDATE nodes SET version = version + 1 WHERE id = $1 AND version = $2", id, version)
	if err != nil {
		return err
	}
	if n, _ := res.RowsAffected(); n == 0 {
		return errConflict
	}
	return nil
}

func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := s.touch(r.Context(), r.FormValue("id")); err != nil {
		http.Error(w, "no", 500)
		return
	}
}
