// Package racy acknowledges a message before it is stored.
package racy

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
		if err := c.r.CommitMessages(ctx, m); err != nil {
			return
		}
		if _, err := c.db.ExecContext(ctx, "INSERT INTO payments (key, body) VALUES ($1, $2)", m.Key, m.Value); err != nil {
			return
		}
	}
}
