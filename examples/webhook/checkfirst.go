package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// checkFirst looks whether it has seen a request, and acts if not. A second copy
// can look before the first has written; and a crash between the effect and the
// note of it makes the next copy act again.
type checkFirst struct{ db *pgxpool.Pool }

func (c checkFirst) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /webhooks/payments", func(w http.ResponseWriter, r *http.Request) {
		c.form(w, r, "webhook", r.Header.Get("Webhook-Id"))
	})
	mux.HandleFunc("POST /payments", func(w http.ResponseWriter, r *http.Request) {
		c.form(w, r, "form", r.Header.Get("Idempotency-Key"))
	})
	mux.HandleFunc("POST /jobs/{job}/run", func(w http.ResponseWriter, r *http.Request) {
		job := r.PathValue("job")
		p, err := readJob(r.Context(), c.db, job)
		c.once(w, r, "job", job, p, err)
	})
}

func (c checkFirst) form(w http.ResponseWriter, r *http.Request, kind, name string) {
	p, err := readPayment(r.Body)
	if name == "" {
		err = errBadRequest
	}
	c.once(w, r, kind, name, p, err)
}

func (c checkFirst) once(w http.ResponseWriter, r *http.Request, kind, name string, p payment, err error) {
	var id int64
	if err == nil {
		id, err = c.bookOnce(r.Context(), kind, name, p)
	}
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusCreated, map[string]int64{"payment": id})
}

func (c checkFirst) bookOnce(ctx context.Context, kind, name string, p payment) (id int64, err error) {
	err = c.db.QueryRow(ctx, "SELECT payment FROM seen WHERE kind = $1 AND name = $2", kind, name).Scan(&id)
	if err == nil || !errors.Is(err, pgx.ErrNoRows) {
		return id, err
	}
	id, err = book(ctx, c.db, p, kind+" "+name)
	if err != nil {
		return 0, err
	}
	_, err = c.db.Exec(ctx, "INSERT INTO seen (kind, name, payment) VALUES ($1, $2, $3)", kind, name, id)
	return id, err
}
