// Package racy looks a target up and inserts it when it is not there.
package racy

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/http"
)

type Links struct{ db *sql.DB }

func (l *Links) find(ctx context.Context, target string) (string, bool, error) {
	var code string
	err := l.db.QueryRowContext(ctx, "SELECT code FROM links WHERE target = $1", target).Scan(&code)
	if err == sql.ErrNoRows {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return code, true, nil
}

func (l *Links) create(w http.ResponseWriter, r *http.Request) {
	target := r.FormValue("target")
	code, ok, err := l.find(r.Context(), target)
	if err != nil {
		http.Error(w, "no", 500)
		return
	}
	if !ok {
		code = rand.Text()
		if _, err := l.db.ExecContext(r.Context(), "INSERT INTO links (code, target) VALUES ($1, $2)", code, target); err != nil {
			http.Error(w, "no", 500)
			return
		}
	}
	w.Write([]byte(code))
}

func Routes(l *Links) { http.HandleFunc("POST /links", l.create) }
