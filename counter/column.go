package counter

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/store"
)

// Column is a bounded number in a table of your own. Bounds that the table has as
// a CHECK are worth having as well: they hold for those who do not come through
// here.
type Column struct {
	// Table and Key name the table and the column that tells its rows apart,
	// Column the number.
	Table, Key, Column string
	Bounds             Bounds
}

// Add adds delta to the number in the row whose key is given, in one statement:
//
//	UPDATE table SET n = n + delta WHERE key = … AND n BETWEEN lowest - delta AND highest - delta
//
// Inside a transaction of the caller (h made from a *sql.Tx or pgx.Tx) it takes
// effect at the commit, and the row is locked until then.
//
// A refusal is a Result with Applied false. A row that is not there is
// *store.NotFoundError, a number that is NULL *store.CorruptError; race errors are
// those of package guard. On MySQL, which cannot return the number from the
// UPDATE, Result.Value is read after it and may hold later changes, unless h is a
// transaction.
func (c Column) Add(ctx context.Context, h guard.Handle, key any, delta int64) (Result, error) {
	r := Result{Delta: delta, Bounds: c.Bounds}
	if err := c.check(); err != nil {
		return r, err
	}
	// The statement and the look after a refusal are two moments. If the number
	// has come back within its bounds in between, the statement runs again.
	var stop error
	err := store.RunRetry(ctx, fmt.Sprintf("%s %v", c.Table, key), patient(store.Retry{}), nil, func(ctx context.Context) error {
		var again bool
		again, stop = c.try(ctx, h, key, &r)
		switch {
		case again:
			return &store.ConflictError{Op: "add", Key: fmt.Sprintf("%s %v", c.Table, key)}
		case stop != nil:
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		err = stop
	}
	return r, err
}

// errStop ends a retry loop with an error that must not be repeated, although it
// may be a conflict.
var errStop = errors.New("stop")

func (c Column) check() error {
	const op = "add to a column"
	for _, name := range []struct{ what, name string }{{"table", c.Table}, {"key column", c.Key}, {"column", c.Column}} {
		if err := guard.CheckIdent(op, name.what, name.name); err != nil {
			return err
		}
	}
	return c.Bounds.check(op)
}

func (c Column) try(ctx context.Context, h guard.Handle, key any, r *Result) (again bool, err error) {
	low, high, possible := shift(c.Bounds, r.Delta)
	// MySQL counts a row that gets the value it had as not changed.
	if possible && r.Delta != 0 {
		r.Applied, r.Value, err = c.update(ctx, h, key, r.Delta, low, high)
		if err != nil || r.Applied {
			return false, err
		}
	}
	current, err := c.Value(ctx, h, key)
	if err != nil {
		return false, err
	}
	sum, inside := c.Bounds.add(current, r.Delta)
	if inside && r.Delta == 0 {
		r.Applied, r.Value = true, sum
		return false, nil
	}
	r.Value = current
	return inside, nil
}

// shift is the range that the number must be in before delta is added. The
// arithmetic is done here, without the overflow that it could have in the
// database. possible is false if no number would do.
func shift(b Bounds, delta int64) (low, high int64, possible bool) {
	low, high = b.Range()
	switch {
	case delta > 0:
		if high < math.MinInt64+delta {
			return 0, 0, false
		}
		high -= delta
		low = max(low, math.MinInt64+delta) - delta
	case delta < 0:
		if low > math.MaxInt64+delta {
			return 0, 0, false
		}
		low -= delta
		high = min(high, math.MaxInt64+delta) - delta
	}
	return low, high, low <= high
}

func (c Column) update(ctx context.Context, h guard.Handle, key any, delta, low, high int64) (applied bool, value int64, err error) {
	d := h.Dialect()
	n, as := d.Ident(c.Column), ""
	if d == guard.Postgres {
		// Without a cast the parameters get the type of the column, and the ends
		// of bigint do not fit into an integer.
		as = "::bigint"
	}
	query := fmt.Sprintf("UPDATE %s SET %s = %s + %s WHERE %s = %s AND %s BETWEEN %s AND %s",
		d.Ident(c.Table), n, n, d.Param(1)+as, d.Ident(c.Key), d.Param(2), n, d.Param(3)+as, d.Param(4)+as)
	args := []any{delta, key, low, high}
	op := fmt.Sprintf("add %d to %s.%s of %v", delta, c.Table, c.Column, key)
	if d == guard.MySQL {
		changed, err := h.Exec(ctx, query, args...)
		if err != nil || changed == 0 {
			return false, 0, guard.Explain(h, op, err)
		}
		value, err = c.Value(ctx, h, key)
		if err != nil {
			err = fmt.Errorf("%s: it took effect, but the number could not be read after it: %w", op, err)
		}
		return true, value, err
	}
	// To the end of the rows: SQLite commits when the statement has ended.
	rows, err := h.Query(ctx, query+" RETURNING "+n, args...)
	if err != nil {
		return false, 0, guard.Explain(h, op, err)
	}
	for rows.Next() && err == nil {
		err = rows.Scan(&value)
		applied = err == nil
	}
	closed := rows.Close()
	return applied, value, guard.Explain(h, op, cmp.Or(err, rows.Err(), closed))
}

// Value reads the number.
func (c Column) Value(ctx context.Context, h guard.Handle, key any) (int64, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	d := h.Dialect()
	var n sql.NullInt64
	err := h.QueryRow(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s = %s", d.Ident(c.Column), d.Ident(c.Table), d.Ident(c.Key), d.Param(1)), key).Scan(&n)
	name := fmt.Sprintf("%s.%s of %v", c.Table, c.Column, key)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, &store.NotFoundError{Key: name}
	case err != nil:
		return 0, fmt.Errorf("read %s: %w", name, err)
	case !n.Valid:
		return 0, &store.CorruptError{Key: name, Why: "a number is expected, not NULL"}
	}
	return n.Int64, nil
}
