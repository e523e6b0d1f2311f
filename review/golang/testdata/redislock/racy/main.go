// Package racy frees the lock whoever holds it now.
package racy

import (
	"errors"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
)

type Server struct{ rdb *redis.Client }

func (s *Server) pay(w http.ResponseWriter, r *http.Request) {
	key := "lock:" + r.FormValue("user")
	ok, err := s.rdb.SetNX(r.Context(), key, "1", time.Minute).Result()
	if err != nil || !ok {
		http.Error(w, "busy", 409)
		return
	}
	defer s.rdb.Del(r.Context(), key)
	n, err := s.rdb.Get(r.Context(), "balance:"+r.FormValue("user")).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		http.Error(w, "no", 500)
		return
	}
	if err := s.rdb.Set(r.Context(), "balance:"+r.FormValue("user"), n-1, 0).Err(); err != nil {
		http.Error(w, "no", 500)
		return
	}
}

func (s *Server) Routes() { http.HandleFunc("POST /pay", s.pay) }
