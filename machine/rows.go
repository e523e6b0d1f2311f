package machine

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/store"
)

// Rows are things in a table of your own: one row each, the state in a column.
type Rows struct {
	Machine *Machine
	// Table, Key and State name the table, the column that tells its rows apart
	// (which must be unique), and the column of the state.
	Table, Key, State string
	// History names a table of transitions, as [HistoryTable] makes it; empty
	// means that none is kept.
	History string
	// Now is the clock of the history; nil means time.Now.
	Now func() time.Time
}

// RowStep is what may go with a transition of a row. The zero value is nothing.
type RowStep struct {
	// By and Note go into the history.
	By, Note string
	// If demands that further columns have these values, such as a version
	// that was shown to somebody.
	If map[string]any
	// Set changes further columns of the row, in the same UPDATE.
	Set map[string]any
	// Effect runs after the UPDATE, in the same transaction, only if the race was
	// won; the row is locked then. Its error undoes everything. It may run
	// several times, so it must have no effects outside the transaction.
	Effect func(ctx context.Context, tx guard.Handle) error
}

// HistoryTable is the statement that makes a table of transitions.
func HistoryTable(d guard.Dialect, name string) string {
	text, key, at := "text", "text", "text"
	switch d {
	case guard.Postgres:
		at = "timestamptz"
	case guard.MySQL:
		key, at = "varchar(190)", "datetime(6)"
	}
	return fmt.Sprintf(`CREATE TABLE %s (
	object %s NOT NULL,
	seq bigint NOT NULL,
	from_state %s NOT NULL,
	to_state %s NOT NULL,
	at %s NOT NULL,
	by_whom %s NOT NULL,
	note %s NOT NULL,
	PRIMARY KEY (object, seq)
)`, d.Ident(name), key, text, text, at, text, text)
}

// Transition moves the row whose key is id, in one guarded UPDATE. With a history
// or an effect, h may be a database: a transaction is made for them (by
// guard.Retry). Or h is a transaction of the caller; then it all takes effect at
// the caller's commit, and an error means that the caller must roll back.
//
// *[LostError] says that the row is in another state, *store.NotFoundError that
// there is no such row, *[IllegalError] that the table of the machine does not
// have the transition. Race errors and unknown outcomes are those of package
// guard.
func (r Rows) Transition(ctx context.Context, h guard.Handle, id any, from, to State, step RowStep) error {
	if err := r.check(step); err != nil {
		return err
	}
	if err := r.Machine.allow(from, to); err != nil {
		return err
	}
	if guard.InTx(h) || r.History == "" && step.Effect == nil {
		return r.move(ctx, h, id, from, to, step)
	}
	return guard.Retry(ctx, h, guard.TxOptions{}, func(ctx context.Context, tx guard.Handle) error {
		return r.move(ctx, tx, id, from, to, step)
	})
}

func (r Rows) check(step RowStep) error {
	const op = "transition of a row"
	if r.Machine == nil {
		return &store.InvalidError{Op: op, What: "machine", Why: "it is nil"}
	}
	names := []struct{ what, name string }{{"table", r.Table}, {"key column", r.Key}, {"state column", r.State}}
	if r.History != "" {
		names = append(names, struct{ what, name string }{"history table", r.History})
	}
	for _, columns := range []map[string]any{step.If, step.Set} {
		for column := range columns {
			if column == r.State || column == r.Key {
				return &store.InvalidError{Op: op, What: fmt.Sprintf("column %q in If or Set", column), Why: "the state and the key are named by the transition itself"}
			}
			names = append(names, struct{ what, name string }{"column", column})
		}
	}
	for _, n := range names {
		if err := guard.CheckIdent(op, n.what, n.name); err != nil {
			return err
		}
	}
	return nil
}

// move is the transition on a handle that is a transaction if more than one
// statement must hold together.
func (r Rows) move(ctx context.Context, h guard.Handle, id any, from, to State, step RowStep) error {
	if err := r.update(ctx, h, id, from, to, step); err != nil {
		return err
	}
	if r.History != "" {
		if err := r.record(ctx, h, id, from, to, step); err != nil {
			return err
		}
	}
	if step.Effect != nil {
		return step.Effect(ctx, h)
	}
	return nil
}

// update is the guarded UPDATE. The look after a lost race is a second moment: if
// the row is back in from by then, the statement runs again.
func (r Rows) update(ctx context.Context, h guard.Handle, id any, from, to State, step RowStep) error {
	query, args := r.statement(h.Dialect(), id, from, to, step)
	var stop error
	err := store.RunRetry(ctx, fmt.Sprintf("%s %v", r.Table, id), store.Retry{Attempts: store.UntilDeadline, Base: time.Millisecond, Cap: 20 * time.Millisecond}, nil,
		func(ctx context.Context) error {
			_, stop = guard.Exec(ctx, h, query, args...)
			if stop == nil {
				return nil
			}
			if _, lost := errors.AsType[*guard.NoRowError](stop); !lost {
				return errStop
			}
			current, err := r.Current(ctx, h, id)
			if err == nil && current == from && len(step.If) == 0 {
				return stop
			}
			if stop = err; err == nil {
				stop = &LostError{Machine: r.Machine.Name(), ID: fmt.Sprint(id), From: from, To: to, Current: current}
			}
			return errStop
		})
	if errors.Is(err, errStop) {
		err = stop
	}
	return err
}

func (r Rows) statement(d guard.Dialect, id any, from, to State, step RowStep) (string, []any) {
	args := []any{string(to)}
	set := []string{d.Ident(r.State) + " = " + d.Param(1)}
	for _, column := range slices.Sorted(maps.Keys(step.Set)) {
		args = append(args, step.Set[column])
		set = append(set, d.Ident(column)+" = "+d.Param(len(args)))
	}
	args = append(args, id, string(from))
	where := fmt.Sprintf("%s = %s AND %s = %s", d.Ident(r.Key), d.Param(len(args)-1), d.Ident(r.State), d.Param(len(args)))
	for _, column := range slices.Sorted(maps.Keys(step.If)) {
		args = append(args, step.If[column])
		where += " AND " + d.Ident(column) + " = " + d.Param(len(args))
	}
	return fmt.Sprintf("UPDATE %s SET %s WHERE %s", d.Ident(r.Table), strings.Join(set, ", "), where), args
}

// Current reads a row's state; *store.NotFoundError says that there is no such
// row.
func (r Rows) Current(ctx context.Context, h guard.Handle, id any) (State, error) {
	d := h.Dialect()
	var s string
	err := h.QueryRow(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s = %s", d.Ident(r.State), d.Ident(r.Table), d.Ident(r.Key), d.Param(1)), id).Scan(&s)
	if errors.Is(err, sql.ErrNoRows) {
		return "", &store.NotFoundError{Key: fmt.Sprintf("%s %v", r.Table, id)}
	}
	if err != nil {
		return "", fmt.Errorf("read the state of %s %v: %w", r.Table, id, err)
	}
	return State(s), nil
}

// record writes a line of history. The row is locked by the update, so nobody
// else numbers a line of the same thing; the primary key would refuse a second
// one.
func (r Rows) record(ctx context.Context, h guard.Handle, id any, from, to State, step RowStep) error {
	d := h.Dialect()
	object, table := fmt.Sprint(id), d.Ident(r.History)
	var last int64
	if err := h.QueryRow(ctx, "SELECT coalesce(max(seq), 0) FROM "+table+" WHERE object = "+d.Param(1), object).Scan(&last); err != nil {
		return guard.Explain(h, "number the transition of "+object, err)
	}
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	return guard.Insert(ctx, h, "INSERT INTO "+table+" (object, seq, from_state, to_state, at, by_whom, note) VALUES ("+d.Params(1, 7)+")",
		object, last+1, string(from), string(to), stamp(d, now()), step.By, step.Note)
}

// layout is how a time is kept in a text or datetime column.
const layout = "2006-01-02 15:04:05.000000"

func stamp(d guard.Dialect, t time.Time) any {
	if d == guard.Postgres {
		return t
	}
	return t.UTC().Format(layout)
}

// Entries reads the history of a thing, oldest first.
func (r Rows) Entries(ctx context.Context, h guard.Handle, id any) ([]Entry, error) {
	if err := cmp.Or(r.check(RowStep{}), guard.CheckIdent("read the history", "history table", r.History)); err != nil {
		return nil, err
	}
	d := h.Dialect()
	rows, err := h.Query(ctx, "SELECT seq, from_state, to_state, at, by_whom, note FROM "+d.Ident(r.History)+
		" WHERE object = "+d.Param(1)+" ORDER BY seq", fmt.Sprint(id))
	if err != nil {
		return nil, fmt.Errorf("read the history of %v: %w", id, err)
	}
	var out []Entry
	for rows.Next() && err == nil {
		var e Entry
		at := moment{&e.At}
		err = rows.Scan(&e.Seq, (*string)(&e.From), (*string)(&e.To), at, &e.By, &e.Note)
		out = append(out, e)
	}
	closed := rows.Close()
	if err := cmp.Or(err, rows.Err(), closed); err != nil {
		return nil, fmt.Errorf("read the history of %v: %w", id, err)
	}
	return out, nil
}

// moment scans a time from what a driver makes of the column.
type moment struct{ t *time.Time }

// Scan implements sql.Scanner.
func (m moment) Scan(v any) (err error) {
	switch v := v.(type) {
	case time.Time:
		*m.t = v.UTC()
	case string:
		*m.t, err = time.Parse(layout, v)
	case []byte:
		*m.t, err = time.Parse(layout, string(v))
	default:
		err = fmt.Errorf("a time is expected, not %T", v)
	}
	return err
}
