// Package right bounds its rounds, waits, and looks at its context.
package right

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"time"
)

var errConflict = errors.New("conflict")

type Store struct{ db *sql.DB }

func (s *Store) touch(ctx context.Context, id string) error {
	for try := 0; try < 5; try++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.tryTouch(ctx, id)
		if !errors.Is(err, errConflict) {
			return err
		}
		time.Sleep(time.Duration(try) * time.Millisecond)
	}
	return errConflict
}

func (s *Store) tryTouch(ctx context.Context, id string) error {
	var version int
	if err := s.db.QueryRowContext(ctx, "SELECT version FROM nodes WHERE id = $1", id).Scan(&version); err != nil {
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
