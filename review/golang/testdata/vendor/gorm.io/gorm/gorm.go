// Package gorm is a stub for type-checking test data.
package gorm

import (
	"context"
	"errors"

	"gorm.io/gorm/clause"
)

var (
	ErrRecordNotFound = errors.New("record not found")
	ErrDuplicatedKey  = errors.New("duplicated key")
)

type DB struct {
	Error        error
	RowsAffected int64
}

type Model struct{ ID uint }

func Expr(expr string, args ...any) clause.Expr { return clause.Expr{} }

func (db *DB) WithContext(ctx context.Context) *DB      { return db }
func (db *DB) Model(v any) *DB                          { return db }
func (db *DB) Table(name string, args ...any) *DB       { return db }
func (db *DB) Where(q any, args ...any) *DB             { return db }
func (db *DB) Select(q any, args ...any) *DB            { return db }
func (db *DB) Order(v any) *DB                          { return db }
func (db *DB) Limit(n int) *DB                          { return db }
func (db *DB) Set(k string, v any) *DB                  { return db }
func (db *DB) Clauses(c ...clause.Expression) *DB       { return db }
func (db *DB) First(dest any, conds ...any) *DB         { return db }
func (db *DB) Find(dest any, conds ...any) *DB          { return db }
func (db *DB) Count(n *int64) *DB                       { return db }
func (db *DB) Create(v any) *DB                         { return db }
func (db *DB) Save(v any) *DB                           { return db }
func (db *DB) Update(col string, v any) *DB             { return db }
func (db *DB) Updates(v any) *DB                        { return db }
func (db *DB) Delete(v any, conds ...any) *DB           { return db }
func (db *DB) Raw(sql string, args ...any) *DB          { return db }
func (db *DB) Scan(dest any) *DB                        { return db }
func (db *DB) Exec(sql string, args ...any) *DB         { return db }
func (db *DB) Begin() *DB                               { return db }
func (db *DB) Commit() *DB                              { return db }
func (db *DB) Rollback() *DB                            { return db }
func (db *DB) Transaction(fn func(tx *DB) error) error  { return nil }
func (db *DB) FirstOrCreate(dest any, conds ...any) *DB { return db }
