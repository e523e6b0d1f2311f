// Package racy takes an error of the lock's store for "not locked".
package racy

import (
	"context"
	"log"
	"net/http"

	"github.com/redis/go-redis/v9"
)

type Runner struct{ rdb *redis.Client }

func (r *Runner) locked(ctx context.Context) (bool, error) {
	v, err := r.rdb.Get(ctx, "apply-stop").Result()
	if err == redis.Nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return v == "1", nil
}

func (r *Runner) apply(w http.ResponseWriter, req *http.Request) {
	stop, err := r.locked(req.Context())
	if err != nil {
		log.Print("cannot read the lock: ", err)
	}
	if stop {
		http.Error(w, "locked", 423)
		return
	}
	if err := r.rdb.Set(req.Context(), "applied:"+req.FormValue("plan"), "yes", 0).Err(); err != nil {
		http.Error(w, "no", 500)
		return
	}
}

func (r *Runner) Routes() { http.HandleFunc("POST /apply", r.apply) }
