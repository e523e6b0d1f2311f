package postgres

import (
	"context"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// List implements backend.Backend. Each page is a statement of its own, so a
// caller that stops in the middle holds no connection.
func (b *Backend) List(ctx context.Context, req backend.ListRequest) iter.Seq2[backend.Item, error] {
	return func(yield func(backend.Item, error) bool) {
		size := req.PageSize
		if size <= 0 {
			size = 2000
			if req.Detail == backend.Values {
				size = 500
			}
		}
		after, first := req.After, true
		for {
			page, err := b.page(ctx, req, after, first, size)
			if err != nil {
				yield(backend.Item{}, readFailure(ctx, "list", req.Prefix, err))
				return
			}
			for _, item := range page {
				if !yield(item, nil) {
					return
				}
			}
			if len(page) < size {
				return
			}
			after, first = page[len(page)-1].Key, false
		}
	}
}

func (b *Backend) page(ctx context.Context, req backend.ListRequest, after string, first bool, size int) ([]backend.Item, error) {
	value := "NULL::bytea"
	if req.Detail == backend.Values {
		value = "value"
	}
	where, args := "key >= $2", []any{size, req.Prefix}
	if !first || after > req.Prefix {
		where, args = "key > $2", []any{size, after}
	}
	if end := backend.PrefixEnd(req.Prefix); end != "" {
		where += " AND key < $3"
		args = append(args, end)
	}
	text := strings.Replace(b.sql.list, "VALUE", value, 1) + where + " ORDER BY key LIMIT $1"
	rows, err := b.pool.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (backend.Item, error) {
		var item backend.Item
		err := row.Scan(&item.Key, &item.Nonce, &item.Value)
		item.Version = backend.Version(item.Nonce)
		return item, err
	})
}
