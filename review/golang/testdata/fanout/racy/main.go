// Package racy starts a write per item and answers before it knows of any.
package racy

import (
	"database/sql"
	"encoding/json"
	"net/http"
)

type Server struct{ db *sql.DB }

func (s *Server) save(w http.ResponseWriter, r *http.Request) {
	var items []string
	if err := json.NewDecoder(r.Body).Decode(&items); err != nil {
		http.Error(w, "bad", 400)
		return
	}
	for _, it := range items {
		go func() {
			s.db.Exec("INSERT INTO items (name) VALUES ($1)", it)
		}()
	}
	w.WriteHeader(http.StatusAccepted)
}

func (s *Server) Routes() { http.HandleFunc("POST /items", s.save) }
