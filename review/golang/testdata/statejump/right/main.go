// Package right changes the state only from the state that it saw.
package right

import (
	"context"
	"database/sql"
	"time"
)

type Closer struct{ db *sql.DB }

func (c *Closer) Start(ctx context.Context) {
	t := time.NewTicker(time.Minute)
	go func() {
		for range t.C {
			c.closeOld(ctx)
		}
	}()
}

func (c *Closer) closeOld(ctx context.Context) error {
	rows, err := c.db.QueryContext(ctx, "SELECT id, gift FROM orders WHERE created_at < ? AND status = 1", time.Now())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var gift int
		if err := rows.Scan(&id, &gift); err != nil {
			return err
		}
		res, err := c.db.ExecContext(ctx, "UPDATE orders SET status = 3 WHERE id = ? AND status = 1", id)
		if err != nil {
			return err
		}
		if n, _ := res.RowsAffected(); n != 1 {
			continue
		}
		if _, err := c.db.ExecContext(ctx, "UPDATE users SET gift = gift + ? WHERE id = ?", gift, id); err != nil {
			return err
		}
	}
	return rows.Err()
}
