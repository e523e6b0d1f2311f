// Package racy counts and then writes the number.
package racy

import (
	"database/sql"
	"net/http"
)

type Posts struct{ db *sql.DB }

func (p *Posts) vote(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if _, err := p.db.Exec("INSERT INTO votes (post_id, user_name) VALUES (?, ?)", id, r.FormValue("user")); err != nil {
		http.Error(w, "no", 500)
		return
	}
	var n int
	if err := p.db.QueryRow("SELECT COUNT(*) FROM votes WHERE post_id = ?", id).Scan(&n); err != nil {
		http.Error(w, "no", 500)
		return
	}
	if _, err := p.db.Exec("UPDATE posts SET vote_count = ? WHERE id = ?", n, id); err != nil {
		http.Error(w, "no", 500)
		return
	}
}

func Routes(p *Posts) { http.HandleFunc("POST /posts/{id}/votes", p.vote) }
