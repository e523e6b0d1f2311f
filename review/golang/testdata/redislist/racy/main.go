// Package racy keeps a JSON list under one Redis key.
package racy

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/redis/go-redis/v9"
)

type Wallet struct{ rdb *redis.Client }

func (w *Wallet) locked(ctx context.Context, user string) ([]string, error) {
	text, err := w.rdb.Get(ctx, "locked:"+user).Result()
	if err == redis.Nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []string
	err = json.Unmarshal([]byte(text), &list)
	return list, err
}

func (w *Wallet) pay(rw http.ResponseWriter, r *http.Request) {
	user := r.FormValue("user")
	list, err := w.locked(r.Context(), user)
	if err != nil {
		http.Error(rw, "no", 500)
		return
	}
	list = append(list, r.FormValue("payment"))
	b, err := json.Marshal(list)
	if err != nil {
		http.Error(rw, "no", 500)
		return
	}
	if err := w.rdb.Set(r.Context(), "locked:"+user, b, 0).Err(); err != nil {
		http.Error(rw, "no", 500)
		return
	}
}

func (w *Wallet) Routes() { http.HandleFunc("POST /pay", w.pay) }
