// Package right counts up in the statement, in the transaction of the vote.
package right

import (
	"context"
	"database/sql"
	"net/http"
)

type Posts struct{ db *sql.DB }

func (p *Posts) withTx(ctx context.Context, fn func(*sql.Tx) error) (err error) {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			tx.Rollback()
			return
		}
		err = tx.Commit()
	}()
	return fn(tx)
}

func (p *Posts) vote(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	err := p.withTx(r.Context(), func(tx *sql.Tx) error {
		if _, err := tx.Exec("INSERT INTO votes (post_id, user_name) VALUES (?, ?)", id, r.FormValue("user")); err != nil {
			return err
		}
		_, err := tx.Exec("UPDATE posts SET vote_count = vote_count + 1 WHERE id = ?", id)
		return err
	})
	if err != nil {
		http.Error(w, "no", 500)
	}
}

func Routes(p *Posts) { http.HandleFunc("POST /posts/{id}/votes", p.vote) }
