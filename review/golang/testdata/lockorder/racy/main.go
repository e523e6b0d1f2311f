// Package racy takes two locks in two orders and holds one over a request.
package racy

import (
	"net/http"
	"sync"
)

type Bank struct {
	accounts sync.Mutex
	journal  sync.Mutex
	total    int
	entries  []string
}

func (b *Bank) pay(w http.ResponseWriter, r *http.Request) {
	b.accounts.Lock()
	defer b.accounts.Unlock()
	b.total++
	b.journal.Lock()
	b.entries = append(b.entries, r.FormValue("text"))
	b.journal.Unlock()
}

func (b *Bank) report(w http.ResponseWriter, r *http.Request) {
	b.journal.Lock()
	defer b.journal.Unlock()
	b.accounts.Lock()
	defer b.accounts.Unlock()
	if _, err := http.Post("https://reports.example/", "text/plain", nil); err != nil {
		http.Error(w, "no", 502)
		return
	}
	b.entries = nil
}

func (b *Bank) Routes() {
	http.HandleFunc("POST /pay", b.pay)
	http.HandleFunc("POST /report", b.report)
}
