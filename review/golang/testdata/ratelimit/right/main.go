// Package right counts in the shared store, in one step.
package right

import (
	"net/http"

	"github.com/redis/go-redis/v9"
)

type Server struct{ rdb *redis.Client }

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	n, err := s.rdb.Incr(r.Context(), "attempts:"+r.FormValue("user")).Result()
	if err != nil {
		http.Error(w, "no", 500)
		return
	}
	if n > 5 {
		http.Error(w, "too many", 429)
		return
	}
}

func (s *Server) Routes() { http.HandleFunc("POST /login", s.login) }
