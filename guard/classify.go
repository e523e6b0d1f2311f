package guard

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Kind is what an error of a database says about a race.
type Kind int

// The kinds. None is everything else: a syntax error, a wrong type, a lost
// connection.
const (
	None Kind = iota
	// Unique: a unique index or primary key refused a second row.
	Unique
	// Exclusion: an exclusion constraint (PostgreSQL) refused an overlap.
	Exclusion
	// Check: a CHECK constraint refused the value, such as a balance below zero.
	Check
	// ForeignKey: the row that is referred to is gone, or is still referred to.
	ForeignKey
	// Serialization: the server could not fit the transaction into any order of
	// the others and undid it.
	Serialization
	// Deadlock: transactions waited for each other; this one was undone.
	Deadlock
	// LockTimeout: the lock was not to be had in the time, or at once (NOWAIT).
	LockTimeout
	// Busy: another connection writes to the SQLite file.
	Busy
)

// String is the kind in the words of messages.
func (k Kind) String() string {
	if k < None || k > Busy {
		return fmt.Sprintf("kind %d", int(k))
	}
	return [...]string{"no race", "unique violation", "exclusion violation", "check violation", "foreign key violation",
		"serialization failure", "deadlock", "lock time-out", "database busy"}[k]
}

// Transient says whether the same transaction, run again from its start, may
// succeed: the server undid it for the sake of another one. A lock time-out is
// not among them: whoever asked not to wait must not be made to.
func (k Kind) Transient() bool { return k == Serialization || k == Deadlock || k == Busy }

// Classify says which race, if any, an error of a driver reports. It knows
// pgx, lib/pq and everything else with a method SQLState() string,
// modernc.org/sqlite and mattn/go-sqlite3, and go-sql-driver/mysql, by the
// shape of their errors, so that no driver is linked in that is not used.
func Classify(err error) Kind {
	if r, ok := errors.AsType[*RaceError](err); ok {
		return r.Kind
	}
	return look(err).kind
}

// report is what a driver's error says.
type report struct {
	kind       Kind
	code       string
	constraint string
	// server says that the database itself reported the error, so the statement
	// has ended without effect.
	server bool
}

func look(err error) report {
	if err == nil {
		return report{}
	}
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return lookSQLState(e, e.SQLState())
	}
	if number, ok := integer(err, "MySQLError", "Number"); ok {
		return lookMySQL(err, number)
	}
	if code, ok := sqliteCode(err); ok {
		return lookSQLite(err, code)
	}
	return report{}
}

// lookSQLState reads PostgreSQL's error codes (PostgreSQL documentation,
// appendix A).
func lookSQLState(err error, state string) report {
	r := report{code: state, server: state != "" && !endsConnection(state)}
	switch state {
	case "23505":
		r.kind = Unique
	case "23P01":
		r.kind = Exclusion
	case "23514":
		r.kind = Check
	case "23503", "23001":
		r.kind = ForeignKey
	case "40001":
		r.kind = Serialization
	case "40P01":
		r.kind = Deadlock
	case "55P03":
		r.kind = LockTimeout
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		r.constraint = e.ConstraintName
	} else if e, ok := err.(interface{ Get(byte) string }); ok {
		r.constraint = e.Get('n') // lib/pq: the field of the protocol
	}
	return r
}

// endsConnection names the states with which the server ends a connection, or
// says that it does not know: they say nothing about the statement.
func endsConnection(state string) bool {
	return strings.HasPrefix(state, "08") || state == "57P01" || state == "57P02" || state == "57P03" || state == "40003"
}

// lookMySQL reads the numbers of MySQL's and MariaDB's server errors.
func lookMySQL(err error, number int64) report {
	r := report{code: fmt.Sprint(number), server: number != 1053 && number != 1077 && number != 1079}
	switch number {
	case 1062, 1169, 1586:
		r.kind = Unique
	case 3819, 4025:
		r.kind = Check
	case 1216, 1217, 1451, 1452, 1761, 1762:
		r.kind = ForeignKey
	case 1020: // MariaDB with innodb_snapshot_isolation: the record has changed since last read
		r.kind = Serialization
	case 1213, 1614:
		r.kind = Deadlock
	case 1205, 3572:
		r.kind = LockTimeout
	}
	switch text := err.Error(); r.kind {
	case Unique:
		r.constraint = lastQuoted(text, "'")
		if i := strings.LastIndexByte(r.constraint, '.'); i >= 0 {
			r.constraint = r.constraint[i+1:] // MySQL 8 writes table.index
		}
	case Check:
		r.constraint = firstQuoted(text)
	case ForeignKey:
		if _, rest, ok := strings.Cut(text, "CONSTRAINT `"); ok {
			r.constraint, _, _ = strings.Cut(rest, "`")
		}
	}
	return r
}

func lastQuoted(text, quote string) string {
	text = strings.TrimRight(text, " ")
	if !strings.HasSuffix(text, quote) {
		return ""
	}
	text = text[:len(text)-1]
	return text[strings.LastIndex(text, quote)+1:]
}

// firstQuoted finds the name in "Check constraint 'name' is violated" (MySQL)
// and "CONSTRAINT `name` failed" (MariaDB).
func firstQuoted(text string) string {
	for _, quote := range []string{"'", "`"} {
		if _, rest, ok := strings.Cut(text, quote); ok {
			if name, _, ok := strings.Cut(rest, quote); ok {
				return name
			}
		}
	}
	return ""
}

// lookSQLite reads SQLite's extended result codes (sqlite.org/rescode.html).
func lookSQLite(err error, code int64) report {
	const ioError = 10
	r := report{code: fmt.Sprint(code), server: code&0xff != ioError}
	switch {
	case code == 2067 || code == 1555 || code == 2579: // UNIQUE, PRIMARYKEY, ROWID
		r.kind = Unique
	case code == 275:
		r.kind = Check
	case code == 787:
		r.kind = ForeignKey
	case code == 517: // BUSY_SNAPSHOT: what this transaction has read is out of date
		r.kind = Serialization
	case code&0xff == 5 || code&0xff == 6: // BUSY, LOCKED
		r.kind = Busy
	}
	if r.kind == Unique || r.kind == Check {
		// "UNIQUE constraint failed: accounts.name", with the code behind it in
		// some drivers.
		if _, rest, ok := strings.Cut(err.Error(), "constraint failed: "); ok {
			if _, inner, ok := strings.Cut(rest, "constraint failed: "); ok {
				rest = inner
			}
			r.constraint, _, _ = strings.Cut(rest, " (")
		}
	}
	return r
}

// sqliteCode finds the extended code in the error of modernc.org/sqlite (a
// method Code) or mattn/go-sqlite3 (a field ExtendedCode).
func sqliteCode(err error) (int64, bool) {
	if code, ok := integer(err, "Error", "ExtendedCode"); ok {
		return code, true
	}
	e, ok := errors.AsType[interface {
		error
		Code() int
	}](err)
	if !ok || !strings.Contains(reflect.TypeOf(e).String(), "sqlite") {
		return 0, false
	}
	return int64(e.Code()), true
}

// integer finds, in the tree of err, a struct of this type name with this
// integer field.
func integer(err error, typeName, field string) (int64, bool) {
	if err == nil {
		return 0, false
	}
	v := reflect.ValueOf(err)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct && v.Type().Name() == typeName {
		switch f := v.FieldByName(field); {
		case f.IsValid() && f.CanInt():
			return f.Int(), true
		case f.IsValid() && f.CanUint():
			return int64(f.Uint()), true
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return integer(e.Unwrap(), typeName, field)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if n, ok := integer(inner, typeName, field); ok {
				return n, true
			}
		}
	}
	return 0, false
}

// answerLost says whether a statement that was sent may have taken effect
// although it failed: the connection ended, or the caller stopped waiting.
// Errors that arise before anything is sent (an argument of a wrong type) are
// not among them.
func answerLost(err error) bool {
	if _, early := errors.AsType[*notSent](err); early {
		return false
	}
	if r := look(err); r.code != "" {
		return !r.server
	}
	// ErrConnClosed claims that nothing was sent; pgx also reports it when the
	// answer to a simple query is lost.
	if errors.Is(err, pgconn.ErrConnClosed) {
		return true
	}
	if pgconn.SafeToRetry(err) {
		return false
	}
	var network net.Error
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, driver.ErrBadConn) || errors.As(err, &network) || pgconn.Timeout(err) ||
		strings.Contains(err.Error(), "invalid connection") // go-sql-driver/mysql
}
