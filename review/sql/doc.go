// Package sql reads SQL text as far as races are concerned.
//
// # Model
//
// A statement is what [Parse] gives: a verb, the table, the conditions that say
// which rows, the values written, the row lock asked for, what happens on a
// conflict. Everything that does not decide a race (the order of rows, window
// frames, join algorithms) is passed over, but it is lexed by the full rules:
// quoted and dollar-quoted strings, nested comments, quoted identifiers of all
// three families.
//
// One parser reads the statements of PostgreSQL, MySQL and SQLite, because a
// string in a program does not say which of them it is for, and because programs
// compose statements: a [Hole] stands for a part of the text that is only known
// at run time. Parsers of one dialect refuse the others' upserts, refuse `?`, and
// refuse a statement with a hole in it.
//
// [Schema] is what a sequence of migrations and schema files leaves behind.
//
// # Promise and limits
//
// A statement that is not understood is an error, never half a statement: the
// caller then knows that the effect is not known. Within SELECT lists, GROUP BY,
// ORDER BY and the like, expressions are kept only as far as they are simple.
// Procedural code (CREATE FUNCTION, DO, triggers) is skipped as a whole. A parse
// costs microseconds and there is nothing to start.
package sql
