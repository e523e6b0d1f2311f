// Package right claims the token with a conditional update before spending it.
package right

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
	if token == "" {
		http.Error(w, "busy", 409)
		return
	}
	res, err := s.db.Exec("UPDATE users SET refresh_token = '' WHERE id = $1 AND refresh_token = $2", id, token)
	if err != nil {
		http.Error(w, "no", 500)
		return
	}
	if n, _ := res.RowsAffected(); n == 0 {
		http.Error(w, "busy", 409)
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
