// Command job-lease is a small web service that works through long jobs piece by
// piece: whoever calls takes the lease of a job, does the next ten items, and
// writes down how far it is. The lease is there because two workers must not do
// the same items; it can be broken when it is too old, because workers die.
//
// Each operation is there in a variant that loses work under concurrency and in
// one that does not. The environment says which:
//
//	DATABASE_URL  the database; schema.sql and seed.sql fill it
//	PORT          the port on 127.0.0.1 to listen on (default 8080)
//	LEASE         aged or fenced (default)
//	LEASE_TTL     after which age a lease may be broken (default 30s)
//	SHIFT         as-requested or ordered (default)
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
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
	h, err := newService(db, getenv)
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
	log.Printf("job-lease listens on http://%s", srv.Addr)
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

// newService routes the requests to the variants that the environment chooses.
func newService(db *pgxpool.Pool, getenv func(string) string) (http.Handler, error) {
	keep, err := choose(leases, "LEASE", cmp.Or(getenv("LEASE"), "fenced"))
	if err != nil {
		return nil, err
	}
	move, err := choose(shifts, "SHIFT", cmp.Or(getenv("SHIFT"), "ordered"))
	if err != nil {
		return nil, err
	}
	ttl, err := time.ParseDuration(cmp.Or(getenv("LEASE_TTL"), "30s"))
	if err != nil {
		return nil, fmt.Errorf("read LEASE_TTL: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := db.Ping(r.Context()); err != nil {
			writeProblem(w, err)
			return
		}
		writeJSON(w, http.StatusOK, "application/json", map[string]string{"status": "ok"})
	})
	mux.Handle("POST /jobs/{job}/work", handleWork(db, keep, ttl))
	mux.Handle("POST /shifts", handleShift(db, move))
	return mux, nil
}

// choose finds a variant by name.
func choose[F any](variants map[string]F, env, name string) (F, error) {
	f, ok := variants[name]
	if !ok {
		return f, fmt.Errorf("%s=%s is not known: use one of %s", env, name, strings.Join(slices.Sorted(maps.Keys(variants)), ", "))
	}
	return f, nil
}
