// Command wallet is a small web service that keeps money, written in the ways in
// which such services are written: three operations on PostgreSQL, each in a
// variant that loses money under concurrency and in one that does not. It knows
// nothing of Holdfast; any PostgreSQL will do.
//
// The environment says what it does:
//
//	DATABASE_URL  the database; schema.sql and seed.sql fill it
//	PORT          the port on 127.0.0.1 to listen on (default 8080)
//	WITHDRAW      autocommit, read-committed, atomic or for-update (default)
//	REDEEM        unchecked, where-not-exists or unique (default)
//	TRANSFER      as-requested or ordered (default)
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
	h, err := newWallet(db, getenv)
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
	log.Printf("wallet listens on http://%s", srv.Addr)
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

// newWallet routes the requests to the variants that the environment chooses.
func newWallet(db *pgxpool.Pool, getenv func(string) string) (http.Handler, error) {
	withdraw, err := choose(withdrawals, "WITHDRAW", cmp.Or(getenv("WITHDRAW"), "for-update"))
	if err != nil {
		return nil, err
	}
	redeem, err := choose(redemptions, "REDEEM", cmp.Or(getenv("REDEEM"), "unique"))
	if err != nil {
		return nil, err
	}
	transfer, err := choose(transfers, "TRANSFER", cmp.Or(getenv("TRANSFER"), "ordered"))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := db.Ping(r.Context()); err != nil {
			writeProblem(w, err)
			return
		}
		writeJSON(w, http.StatusOK, "application/json", map[string]string{"status": "ok"})
	})
	mux.Handle("POST /accounts/{account}/withdraw", handleWithdraw(db, withdraw))
	mux.Handle("POST /coupons/{coupon}/redemptions", handleRedeem(db, redeem))
	mux.Handle("POST /transfers", handleTransfer(db, transfer))
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
