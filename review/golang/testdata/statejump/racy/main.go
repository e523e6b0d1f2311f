// Package racy closes an order that it read as pending.
package racy

import (
	"context"
	"database/sql"
	"time"
)

type Order struct {
	ID     int64 `db:"id"`
	Status int   `db:"status"`
	Gift   int   `db:"gift"`
}

type Closer struct{ db *sql.DB }

func (c *Closer) Start(ctx context.Context) {
	t := time.NewTicker(time.Minute)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				c.closeOld(ctx)
			}
		}
	}()
}

func (c *Closer) closeOld(ctx context.Context) error {
	rows, err := c.db.QueryContext(ctx, "SELECT id, status, gift FROM orders WHERE created_at < ?", time.Now())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var o Order
		if err := rows.Scan(&o.ID, &o.Status, &o.Gift); err != nil {
			return err
		}
		if o.Status != 1 {
			continue
		}
		if _, err := c.db.ExecContext(ctx, "UPDATE orders SET status = 3 WHERE id = ?", o.ID); err != nil {
			return err
		}
		if _, err := c.db.ExecContext(ctx, "UPDATE users SET gift = gift + ? WHERE id = ?", o.Gift, o.ID); err != nil {
			return err
		}
	}
	return rows.Err()
}
