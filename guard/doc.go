// Package guard turns the statements of applications that keep their own tables
// into guarded ones, on database/sql and pgx: nobody has to move data to be safe.
//
// # Model
//
// A [Handle] is anything that runs statements: a database, a connection or a
// transaction, made by [SQL] or [Pgx]. The other packages that work inside an
// application's own transaction take a Handle too.
package guard
