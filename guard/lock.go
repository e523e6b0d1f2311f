package guard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
)

// RowKeys names rows of a table by the values of one column, which should be the
// primary key: it must be unique, and not change while it is locked.
type RowKeys struct {
	Table, Key string
	// Values are of one type that the driver takes for the column. The same
	// value twice counts once.
	Values []any
}

// MissingRowsError says that rows that were to be locked are not there. The
// others are locked.
type MissingRowsError struct {
	Table         string
	Wanted, Found int
}

func (e *MissingRowsError) Error() string {
	return fmt.Sprintf("lock rows of %s: %d of %d are there; roll back, and look which of them are gone", e.Table, e.Found, e.Wanted)
}

// Is makes errors.Is(err, store.ErrConflict) true.
func (e *MissingRowsError) Is(target error) bool { return target == store.ErrConflict }

// Race is for package conflict.
func (e *MissingRowsError) Race() (status int, title string) { return 409, "It is not there any more" }

// Retryable is false: a row that is gone stays gone.
func (e *MissingRowsError) Retryable() bool { return false }

// OrderedForUpdate locks rows until the end of the transaction tx, in the one
// order that all callers share: tables by name, in byte order; the rows of a
// table in ascending order of the key, as the database sorts it. Two
// transactions that lock their rows by one call each can wait for each other
// only in one direction, so they do not deadlock.
//
// Counter-example without the order: one transfer locks account 1 and then 2,
// another one locks 2 and then 1, and each waits for the other.
//
// The order holds within one call. A second call in the same transaction, or an
// UPDATE of a row that was not locked before, may lock against the order; name
// all rows at once. Read what you need after the call: what was read before may
// be out of date. In MySQL at REPEATABLE READ, which is its default, even a later
// plain SELECT shows the state of the transaction's first one; make this call
// the first statement, or read with FOR UPDATE.
//
// A handle outside a transaction is refused with *store.InvalidError, because
// its locks would be gone at once. Rows that are not there are
// *[MissingRowsError]. A lock that is not to be had is *[RaceError]; how long
// that takes is a setting of the database (lock_timeout, innodb_lock_wait_timeout,
// busy_timeout). SQLite has one lock for the whole file, which is taken instead.
func OrderedForUpdate(ctx context.Context, tx Handle, rows ...RowKeys) error {
	if !InTx(tx) {
		return &store.InvalidError{Op: "lock rows", What: "handle", Why: "it is not a transaction, so the locks would be gone at once; call it inside Tx or Retry"}
	}
	ordered := slices.Clone(rows)
	slices.SortStableFunc(ordered, func(a, b RowKeys) int {
		return cmp.Or(strings.Compare(a.Table, b.Table), strings.Compare(a.Key, b.Key))
	})
	for i, r := range ordered {
		if err := cmp.Or(CheckIdent("lock rows", "table", r.Table), CheckIdent("lock rows", "key column", r.Key)); err != nil {
			return err
		}
		if i > 0 && ordered[i-1].Table == r.Table {
			return &store.InvalidError{Op: "lock rows", What: fmt.Sprintf("table %q", r.Table), Why: "it is named twice; put its keys into one RowKeys, so that they have one order"}
		}
	}
	for _, r := range ordered {
		if err := lockRows(ctx, tx, r); err != nil {
			return err
		}
	}
	return nil
}

func lockRows(ctx context.Context, tx Handle, r RowKeys) error {
	d := tx.Dialect()
	values := distinct(r.Values)
	if len(values) == 0 {
		return nil
	}
	table, key := d.Ident(r.Table), d.Ident(r.Key)
	if d == SQLite {
		// A write statement takes SQLite's write lock even if it changes nothing.
		if _, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE 0"); err != nil {
			return Explain(tx, "lock rows of "+r.Table, err)
		}
	}
	// The locks are taken above the sort in PostgreSQL, and in the order of the
	// index in MySQL, for which the key must be the primary key or a unique index.
	query := "SELECT " + key + " FROM " + table + " WHERE " + key + " IN (" + d.Params(1, len(values)) + ") ORDER BY " + key
	if d != SQLite {
		query += " FOR UPDATE"
	}
	found, err := countRows(ctx, tx, query, values)
	if err != nil {
		return Explain(tx, "lock rows of "+r.Table, err)
	}
	if found < len(values) {
		return &MissingRowsError{Table: r.Table, Wanted: len(values), Found: found}
	}
	return nil
}

func countRows(ctx context.Context, tx Handle, query string, args []any) (n int, err error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	for rows.Next() {
		n++
	}
	if err := cmp.Or(rows.Err(), rows.Close()); err != nil {
		return 0, err
	}
	return n, nil
}

// distinct leaves out what occurs a second time. Values that Go cannot compare
// (a []byte key) are compared by their text.
func distinct(values []any) []any {
	seen := make(map[string]bool, len(values))
	return slices.DeleteFunc(slices.Clone(values), func(v any) bool {
		text := fmt.Sprintf("%T %v", v, v)
		known := seen[text]
		seen[text] = true
		return known
	})
}
