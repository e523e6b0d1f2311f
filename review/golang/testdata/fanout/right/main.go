// Package right waits for all writes and answers what came of them.
package right

import (
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
)

type Server struct{ db *sql.DB }

func (s *Server) save(w http.ResponseWriter, r *http.Request) {
	var items []string
	if err := json.NewDecoder(r.Body).Decode(&items); err != nil {
		http.Error(w, "bad", 400)
		return
	}
	var wg sync.WaitGroup
	errs := make([]error, len(items))
	for i, it := range items {
		wg.Go(func() {
			_, errs[i] = s.db.Exec("INSERT INTO items (name) VALUES ($1)", it)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		http.Error(w, "no", 500)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

func (s *Server) Routes() { http.HandleFunc("POST /items", s.save) }
