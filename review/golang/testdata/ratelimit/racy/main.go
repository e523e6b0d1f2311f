// Package racy counts attempts in the memory of each process, and checks before it
// counts.
package racy

import (
	"net/http"
	"sync"
)

type Limiter struct {
	mu       sync.Mutex
	attempts map[string]int
}

func (l *Limiter) count(user string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attempts[user]
}

func (l *Limiter) add(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts[user]++
}

type Server struct{ limit *Limiter }

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	user := r.FormValue("user")
	if s.limit.count(user) > 5 {
		http.Error(w, "too many", 429)
		return
	}
	s.limit.add(user)
}

func (s *Server) Routes() { http.HandleFunc("POST /login", s.login) }
