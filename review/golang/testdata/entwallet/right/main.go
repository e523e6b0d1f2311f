// Package right lets the statement check and count.
package right

import (
	"net/http"
	"strconv"

	"example.com/cases/entwallet/ent"
	"example.com/cases/entwallet/ent/wallet"
)

type Server struct{ client *ent.Client }

func (s *Server) pay(w http.ResponseWriter, r *http.Request) {
	id, _ := strconv.Atoi(r.FormValue("id"))
	amount, _ := strconv.Atoi(r.FormValue("amount"))
	tx, err := s.client.Tx(r.Context())
	if err != nil {
		http.Error(w, "no", 500)
		return
	}
	defer tx.Rollback()
	n, err := tx.Wallet.Update().Where(wallet.ID(id), wallet.BalanceGTE(amount)).AddBalance(-amount).Save(r.Context())
	if err != nil {
		http.Error(w, "no", 500)
		return
	}
	if n == 0 {
		http.Error(w, "too little", 409)
		return
	}
	if err := tx.Commit(); err != nil {
		http.Error(w, "no", 500)
		return
	}
}

func (s *Server) Routes() { http.HandleFunc("POST /pay", s.pay) }
