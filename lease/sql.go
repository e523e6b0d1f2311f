package lease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/store"
)

// fenceTable holds the highest token seen, by name. It is made by CreateFences.
const fenceTable = "holdfast_fences"

// CreateFences makes the table of [Fence] and [Advisory] if it is absent. Run
// it with the application's migrations. The table has one row per name and
// they stay; they are what makes old tokens refused.
func CreateFences(ctx context.Context, h guard.Handle) error {
	if err := fenced(h, "create fences"); err != nil {
		return err
	}
	_, err := h.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+fenceTable+" (name text PRIMARY KEY, token bigint NOT NULL)")
	if err != nil {
		return fmt.Errorf("create table %s: %w", fenceTable, err)
	}
	return nil
}

// fenced refuses dialects whose statements are not those of this file.
func fenced(h guard.Handle, op string) error {
	if d := h.Dialect(); d != guard.Postgres && d != guard.SQLite {
		return &store.UnsupportedError{Backend: fmt.Sprintf("SQL (dialect %d)", d), Op: op}
	}
	return nil
}

// dollar writes the parameters of a statement, $1 and so on, in the dialect.
func dollar(h guard.Handle, query string) string {
	if h.Dialect() == guard.SQLite {
		return strings.ReplaceAll(query, "$", "?")
	}
	return query
}

// Fence holds token against the highest one seen under name and raises that,
// in the transaction of h. It must be the transaction of the writes that it
// guards, and come before them: the row stays locked until the commit, so a
// later holder's Fence waits for it, and no earlier holder's comes through
// after that. Outside a transaction it guards nothing. A lower token is
// *[StaleError]; roll back.
func Fence(ctx context.Context, h guard.Handle, name string, token Token) error {
	if err := fenced(h, "fence"); err != nil {
		return err
	}
	n, err := h.Exec(ctx, dollar(h, `INSERT INTO `+fenceTable+` (name, token) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE `+fenceTable+`.token <= excluded.token`), name, int64(token))
	if err != nil {
		return fmt.Errorf("fence %q: %w", name, err)
	}
	if n > 0 {
		return nil
	}
	return stale(h.QueryRow(ctx, dollar(h, "SELECT token FROM "+fenceTable+" WHERE name = $1"), name), fmt.Sprintf("fence %q", name), token)
}

// stale reads the token that was met, for the message. That read is a second
// look and decides nothing.
func stale(row guard.Row, what string, token Token) *StaleError {
	var seen int64
	if err := row.Scan(&seen); err != nil {
		seen = 0
	}
	return &StaleError{What: what, Token: token, Seen: Token(seen)}
}

// Column is a fence in a table of the application: a column of type bigint that
// is not null, 0 at first.
type Column struct {
	// Table, Key and Fence are names as they stand in a statement.
	Table, Key, Fence string
}

// Check is [Fence] on the row with this key: it raises the fence and locks the
// row until the transaction of h ends. A row that is not there is
// *[RowMissingError].
func (c Column) Check(ctx context.Context, h guard.Handle, key any, token Token) error {
	if err := fenced(h, "check fence"); err != nil {
		return err
	}
	n, err := h.Exec(ctx, dollar(h, fmt.Sprintf("UPDATE %s SET %s = $1 WHERE %s = $2 AND %s <= $1", c.Table, c.Fence, c.Key, c.Fence)), int64(token), key)
	if err != nil {
		return fmt.Errorf("check the fence of row %v in %s: %w", key, c.Table, err)
	}
	if n > 0 {
		return nil
	}
	return c.refused(ctx, h, key, token)
}

func (c Column) refused(ctx context.Context, h guard.Handle, key any, token Token) error {
	var seen int64
	err := h.QueryRow(ctx, dollar(h, fmt.Sprintf("SELECT %s FROM %s WHERE %s = $1", c.Fence, c.Table, c.Key)), key).Scan(&seen)
	if errors.Is(err, sql.ErrNoRows) {
		return &RowMissingError{Table: c.Table, Key: key}
	}
	if err != nil {
		return fmt.Errorf("read the fence of row %v in %s: %w", key, c.Table, err)
	}
	return &StaleError{What: fmt.Sprintf("row %v in %s", key, c.Table), Token: token, Seen: Token(seen)}
}

// Update changes columns of one row in one statement that carries the token,
// and needs no transaction around it. set is the part behind SET, with its
// parameters from $3 on ($1 is the token, $2 the key; ?3 on SQLite), such as
// "state = $3, result = $4". *[StaleError] and *[RowMissingError] say that
// nothing was written.
func (c Column) Update(ctx context.Context, h guard.Handle, key any, token Token, set string, args ...any) error {
	if err := fenced(h, "fenced update"); err != nil {
		return err
	}
	query := dollar(h, fmt.Sprintf("UPDATE %s SET %s = $1, ", c.Table, c.Fence)) + set +
		dollar(h, fmt.Sprintf(" WHERE %s = $2 AND %s <= $1", c.Key, c.Fence))
	n, err := h.Exec(ctx, query, append([]any{int64(token), key}, args...)...)
	if err != nil {
		return fmt.Errorf("fenced update of row %v in %s: %w", key, c.Table, err)
	}
	if n > 0 {
		return nil
	}
	return c.refused(ctx, h, key, token)
}

// LockRows runs a SELECT … FOR UPDATE (or another locking statement) in the
// PostgreSQL transaction of h, waiting for at most wait, in milliseconds and at
// least one, and returns how many rows it locked; read them afterwards. If the
// wait is over, the error is *[HeldError] and the transaction can only be
// rolled back. Lock several rows in one order (ORDER BY their key), or two
// callers wait for each other until the server ends one.
func LockRows(ctx context.Context, h guard.Handle, wait time.Duration, query string, args ...any) (int64, error) {
	if h.Dialect() != guard.Postgres {
		return 0, &store.UnsupportedError{Backend: fmt.Sprintf("SQL (dialect %d)", h.Dialect()), Op: "lock rows with a bounded wait"}
	}
	var before string
	if err := h.QueryRow(ctx, "SELECT current_setting('lock_timeout')").Scan(&before); err != nil {
		return 0, fmt.Errorf("lock rows: %w", err)
	}
	if err := lockTimeout(ctx, h, wait); err != nil {
		return 0, err
	}
	n, err := h.Exec(ctx, query, args...)
	if err != nil {
		return 0, lockFailure(err, "rows", wait)
	}
	_, err = h.Exec(ctx, "SELECT set_config('lock_timeout', $1, true)", before)
	return n, err
}

func lockTimeout(ctx context.Context, h guard.Handle, wait time.Duration) error {
	_, err := h.Exec(ctx, "SELECT set_config('lock_timeout', $1, true)", fmt.Sprintf("%dms", max(1, wait.Milliseconds())))
	if err != nil {
		return fmt.Errorf("set lock_timeout: %w", err)
	}
	return nil
}

// lockFailure turns the server's refusal of a wait (55P03) into HeldError.
func lockFailure(err error, name string, wait time.Duration) error {
	var reported interface{ SQLState() string }
	if errors.As(err, &reported) && reported.SQLState() == "55P03" {
		return &HeldError{Name: name, Cause: fmt.Errorf("waited %s: %w", wait, err)}
	}
	return fmt.Errorf("lock %s: %w", name, err)
}
