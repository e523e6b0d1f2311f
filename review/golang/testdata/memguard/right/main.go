// Package right lets the table refuse the second.
package right

import (
	"database/sql"
	"net/http"
)

type Ledger struct{ db *sql.DB }

func (l *Ledger) transfer(w http.ResponseWriter, r *http.Request) {
	res, err := l.db.Exec("INSERT INTO ledger_logs (idempotency_key, data) VALUES ($1, $2) ON CONFLICT (idempotency_key) DO NOTHING", r.Header.Get("Idempotency-Key"), r.FormValue("data"))
	if err != nil {
		http.Error(w, "no", 500)
		return
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		w.WriteHeader(http.StatusOK)
		return
	}
}

func (l *Ledger) Routes() { http.HandleFunc("POST /transfer", l.transfer) }
