package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/store"
)

// Exec runs a guarded statement and returns how many rows it changed. No row is
// *[NoRowError]: code that does not look at the number of changed rows takes
// the lost race for a success. Race errors of the database are *[RaceError].
func Exec(ctx context.Context, h Handle, query string, args ...any) (int64, error) {
	if err := ended(ctx, query); err != nil {
		return 0, err
	}
	n, err := h.Exec(ctx, query, args...)
	if err != nil {
		return 0, Explain(h, short(query), err)
	}
	if n == 0 {
		return 0, &NoRowError{Query: query}
	}
	return n, nil
}

// ended stops a call whose context has ended already: nothing was sent, so its
// outcome is known.
func ended(ctx context.Context, query string) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%s: not started, the context has ended: %w", short(query), context.Cause(ctx))
}

// Insert runs an INSERT. A row that is there already is *[RaceError] with kind
// Unique, both where the index refuses it and where ON CONFLICT DO NOTHING (or
// INSERT IGNORE) skips it.
//
// In PostgreSQL a refused INSERT makes its transaction unusable; inside one,
// write ON CONFLICT DO NOTHING.
func Insert(ctx context.Context, h Handle, query string, args ...any) error {
	_, err := Exec(ctx, h, query, args...)
	if _, skipped := errors.AsType[*NoRowError](err); skipped {
		return &RaceError{Op: short(query), Kind: Unique, Err: err}
	}
	return err
}

// Statement is a statement with its arguments.
type Statement struct {
	Query string
	Args  []any
}

// InsertOrGet runs insert, and then get, whose row it scans into dest: the
// inserted row, or the one that somebody else inserted first. created says
// which. A unique index must cover what get looks for; without one both callers
// insert.
//
// If the other row is deleted between the two statements, both run again, a few
// times; *store.ExhaustedError says that it never worked out. Inside a
// PostgreSQL transaction the insert runs behind a savepoint, so that its
// refusal does not undo the rest. In a MySQL transaction at REPEATABLE READ that
// has read before, get does not see the other's row; add FOR UPDATE to it.
func InsertOrGet(ctx context.Context, h Handle, insert, get Statement, dest ...any) (created bool, err error) {
	var stop error
	err = store.RunRetry(ctx, short(insert.Query), store.Retry{Attempts: 10}, nil, func(ctx context.Context) error {
		created, stop = insertOrGet(ctx, h, insert, get, dest)
		if errors.Is(stop, errVanished) {
			return stop
		}
		if stop != nil {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		err = stop
	}
	return created, err
}

// errStop ends a retry loop with an error that must not be repeated, although
// it may be a conflict.
var errStop = errors.New("stop")

// errVanished makes a retry loop go on.
var errVanished error = &vanished{}

type vanished struct{}

func (*vanished) Error() string {
	return "the row that stood in the way of the INSERT was gone when it was read"
}
func (*vanished) Is(target error) bool { return target == store.ErrConflict }

func insertOrGet(ctx context.Context, h Handle, insert, get Statement, dest []any) (created bool, err error) {
	err = insertAside(ctx, h, insert)
	created = err == nil
	if err != nil && !isUnique(err) {
		return false, err
	}
	err = h.QueryRow(ctx, get.Query, get.Args...).Scan(dest...)
	switch {
	case err == nil:
		return created, nil
	case errors.Is(err, sql.ErrNoRows) && created:
		return true, fmt.Errorf("%s: the row was inserted, but this does not find it; the two statements must name the same row: %w", short(get.Query), err)
	case errors.Is(err, sql.ErrNoRows):
		return false, errVanished
	case created:
		// The insert has its answer; the read has not.
		return true, fmt.Errorf("%s: the row was inserted, but it could not be read: %w", short(get.Query), err)
	}
	return false, fmt.Errorf("%s: %w", short(get.Query), err)
}

func isUnique(err error) bool {
	r, ok := errors.AsType[*RaceError](err)
	return ok && r.Kind == Unique
}

// insertAside keeps a refused INSERT from spoiling a PostgreSQL transaction.
func insertAside(ctx context.Context, h Handle, insert Statement) error {
	if h.Dialect() != Postgres || !InTx(h) {
		return Insert(ctx, h, insert.Query, insert.Args...)
	}
	if _, err := h.Exec(ctx, "SAVEPOINT holdfast_insert"); err != nil {
		return Explain(h, "savepoint", err)
	}
	err := Insert(ctx, h, insert.Query, insert.Args...)
	after := "RELEASE SAVEPOINT holdfast_insert"
	if err != nil {
		after = "ROLLBACK TO SAVEPOINT holdfast_insert"
	}
	if _, failed := h.Exec(ctx, after); failed != nil {
		return errors.Join(err, Explain(h, "savepoint", failed))
	}
	return err
}
