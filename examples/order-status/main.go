// Command order-status is a small web service that moves orders from state to
// state on PostgreSQL, in the two ways in which such services are written: it
// looks at the state and then changes it, or it changes it under the condition
// that it is still the same. The environment says which:
//
//	DATABASE_URL  the database; schema.sql and seed.sql fill it
//	PORT          the port on 127.0.0.1 to listen on (default 8080)
//	STATUS        racy or guarded (default)
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
	h, err := newService(db, getenv("STATUS"))
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
	log.Printf("order-status listens on http://%s", srv.Addr)
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
