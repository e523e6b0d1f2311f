// Package right takes the locks in one order and sends after it let go.
package right

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

func (b *Bank) take() []string {
	b.journal.Lock()
	defer b.journal.Unlock()
	e := b.entries
	b.entries = nil
	return e
}

func (b *Bank) report(w http.ResponseWriter, r *http.Request) {
	b.take()
	if _, err := http.Post("https://reports.example/", "text/plain", nil); err != nil {
		http.Error(w, "no", 502)
		return
	}
}

func (b *Bank) Routes() {
	http.HandleFunc("POST /pay", b.pay)
	http.HandleFunc("POST /report", b.report)
}
