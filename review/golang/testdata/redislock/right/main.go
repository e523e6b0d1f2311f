// Package right needs no lock: the store subtracts.
package right

import (
	"net/http"

	"github.com/redis/go-redis/v9"
)

type Server struct{ rdb *redis.Client }

func (s *Server) pay(w http.ResponseWriter, r *http.Request) {
	if err := s.rdb.Incr(r.Context(), "payments:"+r.FormValue("user")).Err(); err != nil {
		http.Error(w, "no", 500)
		return
	}
}

func (s *Server) Routes() { http.HandleFunc("POST /pay", s.pay) }
