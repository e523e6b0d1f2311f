// Package racy remembers keys in a map of the process.
package racy

import (
	"database/sql"
	"net/http"
	"sync"
)

type Ledger struct {
	db   *sql.DB
	mu   sync.Mutex
	seen map[string]bool
}

func New(db *sql.DB) *Ledger { return &Ledger{db: db, seen: map[string]bool{}} }

func (l *Ledger) transfer(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[key] {
		w.WriteHeader(http.StatusOK)
		return
	}
	if _, err := l.db.Exec("INSERT INTO logs (data) VALUES ($1)", r.FormValue("data")); err != nil {
		http.Error(w, "no", 500)
		return
	}
	l.seen[key] = true
}

func (l *Ledger) Routes() { http.HandleFunc("POST /transfer", l.transfer) }
