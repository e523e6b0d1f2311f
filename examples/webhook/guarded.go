package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/idempotency"
)

// guarded claims the key of a request in the transaction of its effect.
type guarded struct {
	db   *pgxpool.Pool
	keys *idempotency.Keys[pgx.Tx]
}

func newGuarded(ctx context.Context, db *pgxpool.Pool) (*guarded, error) {
	keys, err := idempotency.NewPgx(db, idempotency.Options{})
	if err != nil {
		return nil, err
	}
	if err := keys.Create(ctx, guard.Pgx(db)); err != nil {
		return nil, err
	}
	return &guarded{db: db, keys: keys}, nil
}

func (g *guarded) routes(mux *http.ServeMux) {
	// One sender and no users here: the scope only keeps the kinds apart.
	mux.Handle("POST /webhooks/payments", g.keys.Handler(idempotency.HTTPOptions{
		Scope: func(*http.Request) string { return "webhook" },
		Key: func(r *http.Request, _ []byte) (string, error) {
			return r.Header.Get("Webhook-Id"), nil
		},
		Error: func(w http.ResponseWriter, _ *http.Request, err error) { fail(w, err) },
	}, g.pay("Webhook-Id", "webhook")))
	mux.Handle("POST /payments", g.keys.Handler(idempotency.HTTPOptions{
		Scope: func(*http.Request) string { return "form" },
		Error: func(w http.ResponseWriter, _ *http.Request, err error) { fail(w, err) },
	}, g.pay(idempotency.HeaderName, "form")))
	mux.HandleFunc("POST /jobs/{job}/run", g.runJob)
}

// pay is the handler inside: it knows nothing of copies.
func (g *guarded) pay(header, kind string) func(http.ResponseWriter, *http.Request, pgx.Tx) error {
	return func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		p, err := readPayment(r.Body)
		if err != nil {
			return err
		}
		id, err := book(r.Context(), tx, p, kind+" "+r.Header.Get(header))
		if err != nil {
			return err
		}
		answer(w, http.StatusCreated, map[string]int64{"payment": id})
		return nil
	}
}

// runJob is a consumer of a queue that runs a job again when it has not heard of
// the first run in time, whether that has crashed or is still at it.
func (g *guarded) runJob(w http.ResponseWriter, r *http.Request) {
	job := r.PathValue("job")
	_, err := g.keys.Consume(r.Context(), idempotency.Request{Scope: "job", Key: job}, func(ctx context.Context, tx pgx.Tx) error {
		p, err := readJob(ctx, tx, job)
		if err != nil {
			return err
		}
		_, err = book(ctx, tx, p, "job "+job)
		return err
	})
	if running, is := errors.AsType[*idempotency.InProgressError](err); is {
		status, title := running.Race()
		answer(w, status, map[string]string{"title": title})
		return
	}
	if err != nil {
		fail(w, fmt.Errorf("job %s: %w", job, err))
		return
	}
	answer(w, http.StatusOK, map[string]string{"job": "done"})
}
