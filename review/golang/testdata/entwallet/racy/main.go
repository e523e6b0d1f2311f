// Package racy computes the balance in the program.
package racy

import (
	"net/http"
	"strconv"

	"example.com/cases/entwallet/ent"
)

type Server struct{ client *ent.Client }

func (s *Server) pay(w http.ResponseWriter, r *http.Request) {
	id, _ := strconv.Atoi(r.FormValue("id"))
	amount, _ := strconv.Atoi(r.FormValue("amount"))
	wallet, err := s.client.Wallet.Get(r.Context(), id)
	if err != nil {
		http.Error(w, "no", 404)
		return
	}
	if wallet.Balance < amount {
		http.Error(w, "too little", 409)
		return
	}
	if _, err := s.client.Wallet.UpdateOneID(id).SetBalance(wallet.Balance - amount).Save(r.Context()); err != nil {
		http.Error(w, "no", 500)
		return
	}
}

func (s *Server) Routes() { http.HandleFunc("POST /pay", s.pay) }
