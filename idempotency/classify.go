package idempotency

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Errors of drivers are known by what their types have in common, so that the
// package needs none of them: SQLState of pgx and lib/pq, Code of the SQLite
// driver in Go, and the numbers in the messages of MySQL's drivers.

func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// sqliteBusy is SQLITE_BUSY or SQLITE_LOCKED, with any extension.
func sqliteBusy(err error) bool {
	var e interface{ Code() int }
	return errors.As(err, &e) && (e.Code()&0xff == 5 || e.Code()&0xff == 6)
}

func mysqlNumber(err error, numbers ...string) bool {
	text := err.Error()
	for _, n := range numbers {
		if strings.Contains(text, "Error "+n+" ") || strings.Contains(text, "Error "+n+":") {
			return true
		}
	}
	return false
}

// lockTimeout says that somebody else has held a lock for too long:
// lock_not_available of PostgreSQL, a busy file of SQLite, MySQL's lock wait
// timeout.
func lockTimeout(err error) bool {
	return sqlState(err) == "55P03" || sqliteBusy(err) || mysqlNumber(err, "1205", "3572")
}

// transient says that the database broke the transaction off and that running
// it again may succeed: a serialization failure, a deadlock, a busy file.
func transient(err error) bool {
	state := sqlState(err)
	return state == "40001" || state == "40P01" || lockTimeout(err) || mysqlNumber(err, "1213", "1020")
}

// refused says that the server has answered a commit with a refusal, so that
// nothing was committed, or that the commit was never sent: a serialization
// failure, a deferred constraint. What a
// server says while it goes down (class 57), about the connection (08) or about
// itself (58, XX) proves nothing.
func refused(err error) bool {
	if _, before := errors.AsType[notCommitted](err); before || errors.Is(err, pgx.ErrTxCommitRollback) || pgconn.SafeToRetry(err) {
		return true
	}
	state := sqlState(err)
	for _, class := range []string{"57", "08", "58", "XX"} {
		if strings.HasPrefix(state, class) {
			return false
		}
	}
	return state != "" || sqliteBusy(err) || mysqlNumber(err, "1213", "1205")
}
