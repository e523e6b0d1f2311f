// Package racy scans for a free address and takes it.
package racy

import (
	"database/sql"
	"errors"
	"net/http"
)

type Networks struct{ db *sql.DB }

func (n *Networks) create(w http.ResponseWriter, r *http.Request) {
	network := r.PathValue("network")
	rows, err := n.db.Query("SELECT address FROM clients WHERE network_id = $1", network)
	if err != nil {
		http.Error(w, "no", 500)
		return
	}
	defer rows.Close()
	used := map[int]bool{}
	for rows.Next() {
		var a int
		if err := rows.Scan(&a); err != nil {
			http.Error(w, "no", 500)
			return
		}
		used[a] = true
	}
	free, err := pick(used)
	if err != nil {
		http.Error(w, "full", 409)
		return
	}
	if _, err := n.db.Exec("INSERT INTO clients (network_id, address) VALUES ($1, $2)", network, free); err != nil {
		http.Error(w, "no", 500)
		return
	}
}

func pick(used map[int]bool) (int, error) {
	for a := 254; a > 1; a-- {
		if !used[a] {
			return a, nil
		}
	}
	return 0, errors.New("no address is free")
}

func (n *Networks) Routes() { http.HandleFunc("POST /networks/{network}/clients", n.create) }
