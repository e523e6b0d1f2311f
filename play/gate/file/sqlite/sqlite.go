// Package sqlite shows a SQLite database as the tables that the oracle compares.
//
// # Model
//
// Two databases with the same rows are the same state, whatever their pages look
// like: which page is free, and how often the file was changed, depends on who
// was interrupted when. So a copy of the database is opened, with its journal or
// write-ahead log, which SQLite then recovers as the application's next start
// would, and the rows are read.
//
// # Limits
//
// Virtual tables and the databases of encrypted variants are not read.
package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/holdfast-dev/holdfast/play/gate/file/tree"
	"github.com/holdfast-dev/holdfast/play/oracle"
)

// magic begins each database file. Source: "Database File Format", sqlite.org.
var magic = []byte("SQLite format 3\x00")

// suffixes are those of the files that belong to a database.
var suffixes = []string{"-journal", "-wal", "-shm"}

// Is reports whether content is that of a database.
func Is(data []byte) bool { return bytes.HasPrefix(data, magic) }

// Belongs reports whether a path is one of the further files of a database of
// the state.
func Belongs(s tree.State, path string) bool {
	for _, suffix := range suffixes {
		if base, ok := strings.CutSuffix(path, suffix); ok && Is(s[base].Data) {
			return true
		}
	}
	return false
}

// CorruptError says that a database can not be read.
type CorruptError struct {
	Path string
	Err  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("read the database %s: %v", e.Path, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Tables reads the database at a path of the state, by way of a copy in a
// directory that is made below work. name is the database's in the tables' names.
// The error is a *[CorruptError] or that of the copy.
func Tables(ctx context.Context, s tree.State, path, name, work string) (tables []oracle.Table, err error) {
	dir, err := os.MkdirTemp(work, "database-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "db")
	if err := os.WriteFile(file, s[path].Data, 0o600); err != nil {
		return nil, err
	}
	for _, suffix := range suffixes[:2] { // the index is made anew from the log
		if n, ok := s[path+suffix]; ok {
			if err := os.WriteFile(file+suffix, n.Data, 0o600); err != nil {
				return nil, err
			}
		}
	}
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if tables, err = read(ctx, db, name); err != nil {
		return nil, &CorruptError{Path: name, Err: err}
	}
	return tables, nil
}

func read(ctx context.Context, db *sql.DB, name string) ([]oracle.Table, error) {
	rows, err := db.QueryContext(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name`)
	if err != nil {
		return nil, err
	}
	var names []string
	err = each(rows, func() error {
		var n string
		err := rows.Scan(&n)
		names = append(names, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	var tables []oracle.Table
	for _, n := range names {
		t, err := readTable(ctx, db, n)
		if err != nil {
			return nil, err
		}
		t.Name = name + ": " + n
		tables = append(tables, t)
	}
	return tables, nil
}

func each(rows *sql.Rows, f func() error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func readTable(ctx context.Context, db *sql.DB, name string) (oracle.Table, error) {
	var t oracle.Table
	type key struct{ place, column int }
	var keys []key
	info, err := db.QueryContext(ctx, "SELECT name, type, pk FROM pragma_table_info(?)", name)
	if err != nil {
		return t, err
	}
	err = each(info, func() error {
		var column, typ string
		var pk int
		if err := info.Scan(&column, &typ, &pk); err != nil {
			return err
		}
		if pk > 0 {
			keys = append(keys, key{pk, len(t.Columns)})
		}
		t.Columns = append(t.Columns, oracle.Column{Name: column, Type: typeOf(typ, pk)})
		return nil
	})
	if err != nil {
		return t, err
	}
	slices.SortFunc(keys, func(a, b key) int { return a.place - b.place })
	for _, k := range keys {
		t.Key = append(t.Key, k.column)
	}
	if len(keys) > 1 {
		for _, k := range keys { // a key of several columns is made by nobody
			t.Columns[k.column].Type = oracle.Plain
		}
	}
	rows, err := db.QueryContext(ctx, "SELECT * FROM "+quote(name))
	if err != nil {
		return t, err
	}
	err = each(rows, func() error {
		cells := make([]any, len(t.Columns))
		ptrs := make([]any, len(cells))
		for i := range cells {
			ptrs[i] = &cells[i]
		}
		if err := rows.Scan(ptrs...); err != nil {
			return err
		}
		row := make([]*string, len(cells))
		for i, c := range cells {
			row[i] = text(c)
		}
		t.Rows = append(t.Rows, row)
		return nil
	})
	return t, err
}

// typeOf tells what a declared type means. An INTEGER PRIMARY KEY is the row's
// number, which SQLite chooses.
func typeOf(declared string, pk int) oracle.Type {
	switch d := strings.ToUpper(declared); {
	case d == "INTEGER" && pk == 1:
		return oracle.ID
	case strings.Contains(d, "JSON"):
		return oracle.JSON
	case strings.Contains(d, "TIME"), d == "DATE":
		return oracle.Time
	}
	return oracle.Plain
}

func text(v any) *string {
	var s string
	switch x := v.(type) {
	case nil:
		return nil
	case int64:
		s = strconv.FormatInt(x, 10)
	case float64:
		s = strconv.FormatFloat(x, 'g', -1, 64)
	case []byte:
		s = fmt.Sprintf("x'%x'", x)
	case time.Time:
		s = x.Format(time.RFC3339Nano)
	default:
		s = fmt.Sprint(x)
	}
	return &s
}
