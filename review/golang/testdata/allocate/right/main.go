// Package right takes a lock on the network before it looks.
package right

import (
	"context"
	"database/sql"
	"net/http"
)

type Networks struct{ db *sql.DB }

func (n *Networks) add(ctx context.Context, network string) error {
	tx, err := n.db.BeginTx(ctx, &sql.TxOptions{})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext($1))", network); err != nil {
		return err
	}
	var last int
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(address), 1) FROM clients WHERE network_id = $1", network).Scan(&last); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO clients (network_id, address) VALUES ($1, $2)", network, last+1); err != nil {
		return err
	}
	return tx.Commit()
}

func (n *Networks) create(w http.ResponseWriter, r *http.Request) {
	if err := n.add(r.Context(), r.PathValue("network")); err != nil {
		http.Error(w, "no", 500)
		return
	}
}

func (n *Networks) Routes() { http.HandleFunc("POST /networks/{network}/clients", n.create) }
