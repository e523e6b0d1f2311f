// Package right hands the transaction down.
package right

import (
	"context"
	"database/sql"
	"net/http"
)

type DBTX interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

type Queries struct{ db DBTX }

func (q *Queries) WithTx(tx *sql.Tx) *Queries { return &Queries{db: tx} }

const insertPasscode = `-- name: InsertPasscode :exec
INSERT INTO passcodes (user_id, code) VALUES ($1, $2)
`

type InsertPasscodeParams struct {
	UserID string
	Code   string
}

func (q *Queries) InsertPasscode(ctx context.Context, arg InsertPasscodeParams) error {
	_, err := q.db.ExecContext(ctx, insertPasscode, arg.UserID, arg.Code)
	return err
}

type Server struct {
	db *sql.DB
	q  *Queries
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tx, err := s.db.Begin()
	if err != nil {
		http.Error(w, "no", 500)
		return
	}
	defer tx.Rollback()
	if _, err := tx.Exec("UPDATE flows SET step = 'passcode' WHERE id = $1", r.FormValue("flow")); err != nil {
		http.Error(w, "no", 500)
		return
	}
	if err := s.q.WithTx(tx).InsertPasscode(r.Context(), InsertPasscodeParams{UserID: r.FormValue("user"), Code: r.FormValue("code")}); err != nil {
		http.Error(w, "no", 500)
		return
	}
	if err := tx.Commit(); err != nil {
		http.Error(w, "no", 500)
		return
	}
}
