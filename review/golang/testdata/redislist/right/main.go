// Package right watches the key that it changes.
package right

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
)

type Wallet struct{ rdb *redis.Client }

func (w *Wallet) add(ctx context.Context, key string, n int) error {
	for range 10 {
		err := w.rdb.Watch(ctx, func(tx *redis.Tx) error {
			have, err := tx.Get(ctx, key).Int()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, key, have+n, 0)
				return nil
			})
			return err
		}, key)
		if !errors.Is(err, redis.TxFailedErr) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("too busy")
}

func (w *Wallet) pay(rw http.ResponseWriter, r *http.Request) {
	if err := w.add(r.Context(), "sum:"+r.FormValue("user"), len(r.FormValue("payment"))); err != nil {
		http.Error(rw, "no", 500)
		return
	}
}

func (w *Wallet) Routes() { http.HandleFunc("POST /pay", w.pay) }
