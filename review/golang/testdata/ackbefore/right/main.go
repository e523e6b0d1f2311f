// Package right stores, once per key, and acknowledges then.
package right

import (
	"context"
	"database/sql"

	"github.com/segmentio/kafka-go"
)

type Consumer struct {
	r  *kafka.Reader
	db *sql.DB
}

func (c *Consumer) Start(ctx context.Context) {
	go c.run(ctx)
}

func (c *Consumer) run(ctx context.Context) {
	for {
		m, err := c.r.FetchMessage(ctx)
		if err != nil {
			return
		}
		if _, err := c.db.ExecContext(ctx, "INSERT INTO payments_once (key, body) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING", m.Key, m.Value); err != nil {
			return
		}
		if err := c.r.CommitMessages(ctx, m); err != nil {
			return
		}
	}
}
