// Package gorm is a stub for type-checking test data.
package gorm

type DB struct {
	Error        error
	RowsAffected int64
}

func (db *DB) Model(v any) *DB                  { return db }
func (db *DB) Where(q any, args ...any) *DB     { return db }
func (db *DB) Set(k string, v any) *DB          { return db }
func (db *DB) First(dest any, conds ...any) *DB { return db }
func (db *DB) Save(v any) *DB                   { return db }
func (db *DB) Update(attrs ...any) *DB          { return db }
func (db *DB) Begin() *DB                       { return db }
func (db *DB) Commit() *DB                      { return db }
func (db *DB) Rollback() *DB                    { return db }
