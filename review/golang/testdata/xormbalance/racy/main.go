// Package racy computes a balance in the program.
package racy

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

func add(w http.ResponseWriter, r *http.Request) {
	var a Account
	ok, err := engine.ID(r.FormValue("account")).Get(&a)
	if err != nil || !ok {
		http.Error(w, "no", 404)
		return
	}
	n := len(r.FormValue("amount"))
	if a.Balance+n < 0 {
		http.Error(w, "limit", 409)
		return
	}
	a.Balance = a.Balance + n
	if _, err := engine.ID(a.Id).Cols("balance").Update(&a); err != nil {
		http.Error(w, "no", 500)
		return
	}
	if _, err := engine.Insert(&Transaction{Amount: n}); err != nil {
		http.Error(w, "no", 500)
		return
	}
}

func Routes() { http.HandleFunc("POST /api/add-transaction", add) }
