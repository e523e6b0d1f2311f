// Package pgconn is a stub for type-checking test data.
package pgconn

type CommandTag struct{ s string }

func (CommandTag) RowsAffected() int64 { return 0 }

type PgError struct{ Code, ConstraintName string }

func (*PgError) Error() string { return "" }
