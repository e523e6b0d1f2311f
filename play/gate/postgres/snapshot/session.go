package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATE codes that are told apart.
const (
	insufficientPrivilege = "42501"
	lockNotAvailable      = "55P03"
	deadlockDetected      = "40P01"
)

// sessionSettings make the text of values the same whatever the database's or
// role's defaults are, and let nothing stop or reroute a reset.
// session_replication_role is set for the session and not per reset: each
// change of it throws all prepared plans away. Nested loops are off because a
// plan that was made while both tables were tiny would take hours once they
// are not.
var sessionSettings = []string{
	"session_replication_role = replica",
	"DateStyle = 'ISO, YMD'",
	"IntervalStyle = postgres",
	"TimeZone = 'UTC'",
	"extra_float_digits = 1",
	"bytea_output = hex",
	"lc_monetary = 'C'",
	"xmlbinary = base64",
	"xmloption = content",
	"standard_conforming_strings = on",
	"quote_all_identifiers = off",
	"row_security = off",
	"client_min_messages = error",
	"default_transaction_isolation = 'read committed'",
	"default_transaction_read_only = off",
	"statement_timeout = 0",
	"idle_in_transaction_session_timeout = 0",
	"synchronous_commit = off",
	"enable_nestloop = off",
	"jit = off",
	"max_parallel_workers_per_gather = 0",
	"work_mem = '64MB'",
}

func (s *Snapshot) configure(ctx context.Context) error {
	if st := s.conn.PgConn().TxStatus(); st != 'I' {
		return fmt.Errorf("record the state of the database: the connection is inside a transaction (status %c): end it first", st)
	}
	// An earlier Take on this connection has used the same names.
	if err := s.conn.DeallocateAll(ctx); err != nil {
		return fmt.Errorf("set up the session for resets: %w", err)
	}
	var b strings.Builder
	for _, set := range sessionSettings {
		fmt.Fprintf(&b, "SET %s;\n", set)
	}
	fmt.Fprintf(&b, "SET lock_timeout = %d;\n", s.opts.LockTimeout.Milliseconds())
	_, err := s.conn.PgConn().Exec(ctx, b.String()).ReadAll()
	if code(err) == insufficientPrivilege {
		return &PrivilegeError{Err: err}
	}
	if err != nil {
		return fmt.Errorf("set up the session for resets: %w", err)
	}
	return nil
}

// code is the SQLSTATE of an error, empty if it does not come from the server.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
