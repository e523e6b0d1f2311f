// Package right mails only where its update changed the row.
package right

import (
	"context"
	"net/smtp"

	"github.com/robfig/cron/v3"
	"github.com/uptrace/bun"
)

type Check struct {
	ID     int64 `bun:",pk"`
	Status string
	Mail   string
}

type Alerts struct{ db *bun.DB }

func (a *Alerts) Schedule() {
	c := cron.New()
	c.AddFunc("@every 1m", func() { a.send(context.Background()) })
}

func (a *Alerts) send(ctx context.Context) error {
	var c Check
	if err := a.db.NewSelect().Model(&c).Where("status = ?", "late").Scan(ctx); err != nil {
		return err
	}
	res, err := a.db.NewUpdate().Model((*Check)(nil)).Set("status = ?", "down").Where("id = ?", c.ID).Where("status = ?", "late").Exec(ctx)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err
	}
	return smtp.SendMail("mail:25", nil, "a@example.com", []string{c.Mail}, nil)
}
