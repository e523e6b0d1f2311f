package postgres

import (
	"context"
	"errors"
	"math/big"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// Add implements backend.Adder. The sum and its bounds are in one UPDATE; an
// absent key is created by one INSERT. If another writer creates or deletes
// the key between the two, it starts again.
func (b *Backend) Add(ctx context.Context, req backend.AddRequest) (int64, backend.Version, error) {
	r := request{op: "add", key: req.Key, nonce: req.Nonce}
	var sum int64
	err := b.with(ctx, r, func(conn *pgxpool.Conn) error {
		for {
			done, err := b.tryAdd(ctx, conn, req, &sum)
			if done || err != nil {
				return err
			}
		}
	})
	if err != nil {
		return 0, "", err
	}
	return sum, backend.Version(req.Nonce), nil
}

func (b *Backend) tryAdd(ctx context.Context, conn *pgxpool.Conn, req backend.AddRequest, sum *int64) (done bool, err error) {
	err = conn.QueryRow(ctx, b.sql.add, req.Key, req.Delta, req.Nonce, req.Min, req.Max).Scan(sum)
	var reported *pgconn.PgError
	if errors.As(err, &reported) && strings.HasPrefix(reported.Code, "22") {
		return false, &backend.CorruptError{Key: req.Key, Why: "an add needs a decimal integer: " + reported.Message}
	}
	if err == nil || !errors.Is(err, pgx.ErrNoRows) {
		return err == nil, err
	}
	out := &backend.BoundsError{Key: req.Key, Delta: req.Delta, Min: req.Min, Max: req.Max}
	item, err := b.getOn(ctx, conn, req.Key)
	if err == nil {
		current, inside := sumInside(item, req)
		if inside {
			return false, nil
		}
		out.Current = current
		return false, out
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return false, err
	}
	if req.Delta < req.Min || req.Delta > req.Max {
		return false, out
	}
	tag, err := conn.Exec(ctx, b.sql.addFirst, req.Key, req.Delta, req.Nonce)
	*sum = req.Delta
	return err == nil && tag.RowsAffected() == 1, err
}

func (b *Backend) getOn(ctx context.Context, conn *pgxpool.Conn, key string) (value []byte, err error) {
	var version string
	err = conn.QueryRow(ctx, b.sql.get, key).Scan(&value, &version)
	return value, err
}

// sumInside parses the current value and says whether the add would stay
// inside its bounds, without overflow.
func sumInside(value []byte, req backend.AddRequest) (current int64, inside bool) {
	n, ok := new(big.Int).SetString(string(value), 10)
	if !ok || !n.IsInt64() {
		return 0, false
	}
	sum := new(big.Int).Add(n, big.NewInt(req.Delta))
	return n.Int64(), sum.Cmp(big.NewInt(req.Min)) >= 0 && sum.Cmp(big.NewInt(req.Max)) <= 0
}
