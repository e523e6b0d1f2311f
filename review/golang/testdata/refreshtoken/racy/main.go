// Package racy spends a single-use token upstream before it knows that it is the
// only one to do so.
package racy

import (
	"bytes"
	"database/sql"
	"net/http"
)

type Server struct {
	db     *sql.DB
	client *http.Client
}

func (s *Server) refresh(w http.ResponseWriter, r *http.Request) {
	id := r.FormValue("user")
	var token string
	if err := s.db.QueryRow("SELECT refresh_token FROM users WHERE id = $1", id).Scan(&token); err != nil {
		http.Error(w, "no", 500)
		return
	}
	resp, err := s.client.Post("https://forge.example/token", "text/plain", bytes.NewBufferString(token))
	if err != nil {
		http.Error(w, "no", 502)
		return
	}
	defer resp.Body.Close()
	if _, err := s.db.Exec("UPDATE users SET refresh_token = $2 WHERE id = $1", id, resp.Header.Get("token")); err != nil {
		http.Error(w, "no", 500)
		return
	}
}

func (s *Server) Routes() { http.HandleFunc("POST /refresh", s.refresh) }
