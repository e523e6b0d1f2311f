// Package right counts in the statement, with the ledger in one transaction.
package right

import (
	"net/http"

	"xorm.io/xorm"
)

type Account struct {
	Id      int64
	Balance int
}

type Transaction struct {
	Id     int64
	Amount int
}

var engine *xorm.Engine

func book(account string, n int) error {
	s := engine.NewSession()
	defer s.Close()
	if err := s.Begin(); err != nil {
		return err
	}
	if _, err := s.ID(account).Incr("balance", n).Update(&Account{}); err != nil {
		return err
	}
	if _, err := s.Insert(&Transaction{Amount: n}); err != nil {
		return err
	}
	return s.Commit()
}

func add(w http.ResponseWriter, r *http.Request) {
	if err := book(r.FormValue("account"), len(r.FormValue("amount"))); err != nil {
		http.Error(w, "no", 500)
		return
	}
}

func Routes() { http.HandleFunc("POST /api/add-transaction", add) }
