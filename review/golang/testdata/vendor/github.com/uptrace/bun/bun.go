// Package bun is a stub for type-checking test data.
package bun

import (
	"context"
	"database/sql"
)

type DB struct{}

func (*DB) NewSelect() *SelectQuery { return nil }
func (*DB) NewUpdate() *UpdateQuery { return nil }
func (*DB) RunInTx(ctx context.Context, o *sql.TxOptions, fn func(ctx context.Context, tx Tx) error) error {
	return nil
}

type Tx struct{}

func (Tx) NewSelect() *SelectQuery { return nil }
func (Tx) NewUpdate() *UpdateQuery { return nil }

type SelectQuery struct{}

func (q *SelectQuery) Model(v any) *SelectQuery                    { return q }
func (q *SelectQuery) Where(s string, args ...any) *SelectQuery    { return q }
func (q *SelectQuery) For(s string, args ...any) *SelectQuery      { return q }
func (q *SelectQuery) Scan(ctx context.Context, dest ...any) error { return nil }

type UpdateQuery struct{}

func (q *UpdateQuery) Model(v any) *UpdateQuery                     { return q }
func (q *UpdateQuery) Set(s string, args ...any) *UpdateQuery       { return q }
func (q *UpdateQuery) Where(s string, args ...any) *UpdateQuery     { return q }
func (q *UpdateQuery) WherePK() *UpdateQuery                        { return q }
func (q *UpdateQuery) Exec(ctx context.Context) (sql.Result, error) { return nil, nil }
