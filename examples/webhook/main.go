// Command webhook is a small web service that takes money in, by three ways on
// which the same request comes twice: a webhook that is delivered at least once,
// a form that is submitted twice, a job that is run again because the queue
// believes that the first run has crashed. Each is there in two variants: one
// looks whether it has seen the request and then acts, the other claims the
// request's key in the transaction of the effect, by package idempotency.
//
// The environment says what it does:
//
//	DATABASE_URL  the database; schema.sql and seed.sql fill it
//	PORT          the port on 127.0.0.1 to listen on (default 8080)
//	VARIANT       check-first or guarded (default)
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, getenv func(string) string) error {
	db, err := pgxpool.New(ctx, getenv("DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("read DATABASE_URL: %w", err)
	}
	defer db.Close()
	h, err := newService(ctx, db, getenv("VARIANT"))
	if err != nil {
		return err
	}
	srv := &http.Server{
		Addr:              net.JoinHostPort("127.0.0.1", cmp.Or(getenv("PORT"), "8080")),
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.ListenAndServe() }()
	log.Printf("webhook listens on http://%s", srv.Addr)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	sctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err = srv.Shutdown(sctx)
	if serr := <-failed; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

// newService routes the requests to the variant.
func newService(ctx context.Context, db *pgxpool.Pool, variant string) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := db.Ping(r.Context()); err != nil {
			fail(w, err)
			return
		}
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	switch cmp.Or(variant, "guarded") {
	case "check-first":
		checkFirst{db}.routes(mux)
	case "guarded":
		g, err := newGuarded(ctx, db)
		if err != nil {
			return nil, err
		}
		g.routes(mux)
	default:
		return nil, fmt.Errorf("VARIANT=%s is not known: use check-first or guarded", variant)
	}
	return mux, nil
}
