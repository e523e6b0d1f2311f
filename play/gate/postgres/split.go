package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// splitClass is the first key of the split's advisory locks ("HOLD"); the
	// second is the backend's process number.
	splitClass = "1213156420"
	// pauseCode is the SQLSTATE of the message with which the trigger says
	// that it is about to wait.
	pauseCode = "HFP00"
)

// The trigger's function passes at once unless the gate holds the lock of this
// backend. It takes the lock for the session and gives it back, so that a
// transaction that goes on keeps nothing. An application's lock_timeout must
// not end the pause. The trigger is a BEFORE trigger for each STATEMENT: a row
// trigger would fire after rows have been read and, for UPDATE, locked.
const splitFunction = `
CREATE SCHEMA IF NOT EXISTS _holdfast;
GRANT USAGE ON SCHEMA _holdfast TO PUBLIC;
CREATE OR REPLACE FUNCTION _holdfast.hold() RETURNS trigger
	LANGUAGE plpgsql SET lock_timeout = 0 AS $hold$
BEGIN
	IF pg_catalog.pg_try_advisory_lock_shared(` + splitClass + `, pg_catalog.pg_backend_pid()) THEN
		PERFORM pg_catalog.pg_advisory_unlock_shared(` + splitClass + `, pg_catalog.pg_backend_pid());
		RETURN NULL;
	END IF;
	RAISE INFO USING ERRCODE = '` + pauseCode + `', MESSAGE = 'holdfast: paused after the snapshot';
	PERFORM pg_catalog.pg_advisory_lock_shared(` + splitClass + `, pg_catalog.pg_backend_pid());
	PERFORM pg_catalog.pg_advisory_unlock_shared(` + splitClass + `, pg_catalog.pg_backend_pid());
	RETURN NULL;
END
$hold$;
GRANT EXECUTE ON FUNCTION _holdfast.hold() TO PUBLIC;
`

// splitter holds the split locks. They belong to its session, so if that is
// lost, paused steps go on.
type splitter struct{ adminConn }

var splitStatements = map[string]string{
	"lock":   `SELECT pg_catalog.pg_try_advisory_lock(` + splitClass + `, $1::int)`,
	"unlock": `SELECT pg_catalog.pg_advisory_unlock(` + splitClass + `, $1::int)`,
}

func (s *splitter) lock(ctx context.Context, c *conn) error {
	if c.key == nil {
		return errors.New("release in two parts: the server has not told its process number")
	}
	return s.do(ctx, "lock", c.key.ProcessID)
}

func (s *splitter) unlock(ctx context.Context, pid uint32) error { return s.do(ctx, "unlock", pid) }

func (s *splitter) do(ctx context.Context, what string, pid uint32) error {
	rows, err := s.query(ctx, what, strconv.FormatUint(uint64(pid), 10))
	switch {
	case err != nil:
		return fmt.Errorf("%s the split of backend %d: %w", what, pid, err)
	case len(rows) != 1 || string(rows[0][0]) != "t":
		return fmt.Errorf("%s the split of backend %d: somebody else has this advisory lock (class %s), or the gate's own connection was lost",
			what, pid, splitClass)
	}
	return nil
}

// InstallSplit prepares these tables for releases in two parts. Names are those of
// Step.Writes (bare, with the schema where it is not public), or as PostgreSQL
// reads them (`public."Order"`). Installing again is
// harmless. It waits at most 5 s for the tables' locks.
func (g *Gate) InstallSplit(ctx context.Context, tables []string) error {
	conn, err := connectAdmin(ctx, g.cfg.Admin)
	if err != nil {
		return err
	}
	defer closeAdmin(conn)
	var b strings.Builder
	b.WriteString("BEGIN; SET LOCAL lock_timeout = '5s'; SET LOCAL client_min_messages = warning;" + splitFunction)
	for _, t := range tables {
		name, err := tableName(ctx, conn, t)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "DROP TRIGGER IF EXISTS _holdfast_hold ON %[1]s;\n"+
			"CREATE TRIGGER _holdfast_hold BEFORE INSERT OR UPDATE OR DELETE ON %[1]s "+
			"FOR EACH STATEMENT EXECUTE FUNCTION _holdfast.hold();\n", name)
	}
	b.WriteString("COMMIT")
	if _, err := conn.Exec(ctx, b.String()).ReadAll(); err != nil {
		return fmt.Errorf("install the triggers for releases in two parts on %s: %w", strings.Join(tables, ", "), err)
	}
	return nil
}

// A footprint's names are bare, so the name as it stands comes first.
const lookupTable = `SELECT coalesce(
	to_regclass(quote_ident($1::text)),
	to_regclass(quote_ident(split_part($1, '.', 1)) || '.' || quote_ident(substr($1, strpos($1, '.') + 1))),
	to_regclass($1))::text`

// tableName is the name as this connection has to write it.
func tableName(ctx context.Context, conn *pgconn.PgConn, table string) (string, error) {
	r := conn.ExecParams(ctx, lookupTable, [][]byte{[]byte(table)}, nil, nil, nil).Read()
	if r.Err != nil {
		return "", fmt.Errorf("look up the table %q: %w", table, r.Err)
	}
	if len(r.Rows) != 1 || r.Rows[0][0] == nil {
		return "", fmt.Errorf("install a trigger on the table %q: there is no such table", table)
	}
	return string(r.Rows[0][0]), nil
}

// RemoveSplit takes away all that InstallSplit has made.
func (g *Gate) RemoveSplit(ctx context.Context) error {
	conn, err := connectAdmin(ctx, g.cfg.Admin)
	if err != nil {
		return err
	}
	defer closeAdmin(conn)
	const sql = "BEGIN; SET LOCAL lock_timeout = '5s'; SET LOCAL client_min_messages = warning;" +
		"DROP SCHEMA IF EXISTS _holdfast CASCADE; COMMIT"
	if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("remove the triggers for releases in two parts: %w", err)
	}
	return nil
}
