package mechbench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/counter"
	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/internal/benchkit"
	"github.com/holdfast-dev/holdfast/store"
)

// enough is a stock that no cell sells out.
const enough = 1 << 40

// counter compares the ways of taking one from a stock that must not go below
// zero, where all take from the same one.
func (b *bench) counter(ctx context.Context) error {
	var rows [][]string
	for _, kind := range b.databases() {
		for _, callers := range b.opts.Writers {
			row := []string{kind + ", own table", strconv.Itoa(callers)}
			var rates []float64
			for _, way := range []takeWay{takeGuarded, takeCAS, takeLocked} {
				rate, err := b.takeCell(ctx, kind, callers, way)
				if err != nil {
					return err
				}
				rates = append(rates, rate)
				row = append(row, fmt.Sprintf("%.0f", rate))
			}
			rows = append(rows, append(row, fmt.Sprintf("%.1f", rates[0]/rates[1]), "–"))
		}
		for _, callers := range b.opts.Writers {
			rates, err := b.storeCells(ctx, kind, callers)
			if err != nil {
				return err
			}
			rows = append(rows, []string{kind + ", store", strconv.Itoa(callers), fmt.Sprintf("%.0f", rates[0]), fmt.Sprintf("%.0f", rates[1]),
				"–", fmt.Sprintf("%.1f", rates[0]/rates[1]), fmt.Sprintf("%.0f", rates[2])})
		}
	}
	return b.Table("Counter, one hot number: changes per second (SQLite has BEGIN IMMEDIATE in place of FOR UPDATE)",
		[]string{"where", "writers", "guarded", "CAS", "FOR UPDATE", "guarded/CAS", "8 shards"}, rows)
}

// takeWay takes one from the row 1 of the table.
type takeWay func(ctx context.Context, h guard.Handle, table string) error

func takeGuarded(ctx context.Context, h guard.Handle, table string) error {
	r, err := counter.Column{Table: table, Key: "id", Column: "n", Bounds: counter.AtLeast(0)}.Add(ctx, h, 1, -1)
	return errors.Join(err, r.Err())
}

// impatient are the waits of compare-and-set: as counter has them.
var impatient = store.Retry{Attempts: store.UntilDeadline, Base: time.Millisecond, Cap: 50 * time.Millisecond}

// takeCAS is optimistic locking by a version column, with jitter.
func takeCAS(ctx context.Context, h guard.Handle, table string) error {
	d := h.Dialect()
	return store.RunRetry(ctx, table, impatient, nil, func(ctx context.Context) error {
		var n, version int64
		if err := h.QueryRow(ctx, "SELECT n, version FROM "+table+" WHERE id = "+d.Param(1), 1).Scan(&n, &version); err != nil {
			return err
		}
		if n < 1 {
			return errors.New("sold out")
		}
		_, err := guard.Exec(ctx, h, fmt.Sprintf("UPDATE %s SET n = %s, version = version + 1 WHERE id = %s AND version = %s",
			table, d.Param(1), d.Param(2), d.Param(3)), n-1, 1, version)
		return err
	})
}

// takeLocked is SELECT … FOR UPDATE, then UPDATE, in a transaction.
func takeLocked(ctx context.Context, h guard.Handle, table string) error {
	d := h.Dialect()
	lock := ""
	if d == guard.Postgres {
		lock = " FOR UPDATE"
	}
	return guard.Tx(ctx, h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error {
		var n int64
		if err := tx.QueryRow(ctx, "SELECT n FROM "+table+" WHERE id = "+d.Param(1)+lock, 1).Scan(&n); err != nil {
			return err
		}
		if n < 1 {
			return errors.New("sold out")
		}
		_, err := guard.Exec(ctx, tx, fmt.Sprintf("UPDATE %s SET n = %s WHERE id = %s", table, d.Param(1), d.Param(2)), n-1, 1)
		return err
	})
}

func (b *bench) takeCell(ctx context.Context, kind string, callers int, take takeWay) (rate float64, err error) {
	h, closeDB, err := b.database(ctx, kind, callers)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeDB()) }()
	table := b.fresh("stock")
	for _, text := range []string{
		"CREATE TABLE " + table + " (id bigint PRIMARY KEY, n bigint NOT NULL, version bigint NOT NULL)",
		fmt.Sprintf("INSERT INTO %s VALUES (1, %d, 0)", table, int64(enough)),
	} {
		if _, err := h.Exec(ctx, text); err != nil {
			return 0, err
		}
	}
	s, err := benchkit.Measure(ctx, b.opts.Time, callers, func(ctx context.Context, _, _ int) error { return take(ctx, h, table) })
	return s.Rate, err
}

// storeCells measures the counter of a store: native, by compare-and-set, and
// sharded.
func (b *bench) storeCells(ctx context.Context, kind string, callers int) (rates [3]float64, err error) {
	s, err := b.store(ctx, kind, callers)
	if err != nil {
		return rates, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	native, err := counter.New(s, counter.Options{Prefix: "native", Bounds: counter.AtLeast(0), Method: counter.Native})
	if err != nil {
		return rates, err
	}
	cas, err := counter.New(s, counter.Options{Prefix: "cas", Bounds: counter.AtLeast(0), Method: counter.CompareAndSet})
	if err != nil {
		return rates, err
	}
	sharded, err := counter.NewSharded(s, counter.ShardedOptions{Prefix: "sharded", Bounds: counter.AtLeast(0)})
	if err != nil {
		return rates, err
	}
	for i, add := range []func(context.Context, string, int64) (counter.Result, error){native.Add, cas.Add, sharded.Add} {
		if _, err := add(ctx, "n", enough); err != nil {
			return rates, err
		}
		sample, err := benchkit.Measure(ctx, b.opts.Time, callers, func(ctx context.Context, _, _ int) error {
			r, err := add(ctx, "n", -1)
			return errors.Join(err, r.Err())
		})
		if err != nil {
			return rates, err
		}
		rates[i] = sample.Rate
	}
	return rates, nil
}
