package sql

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/review/effect"
)

func TestSchema(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"postgres", `CREATE TABLE public.accounts (
  id bigserial PRIMARY KEY,
  "Owner" text NOT NULL UNIQUE,
  balance numeric(12,2) DEFAULT 0 CHECK (balance >= 0),
  bank_id int REFERENCES banks (id) ON DELETE CASCADE,
  CONSTRAINT one_per_bank UNIQUE (bank_id, kind)
);`, `table accounts (id, owner, balance, bank_id) primary(id) unique(owner) unique one_per_bank (bank_id, kind) check="balance >= 0" foreign(bank_id) banks ondelete=cascade @x.sql:1`},
		{"mysql", "CREATE TABLE IF NOT EXISTS `orders` (\n `id` int(11) NOT NULL AUTO_INCREMENT,\n `order_no` varchar(64) NOT NULL,\n key_name varchar(3),\n PRIMARY KEY (`id`),\n UNIQUE KEY `uk_no` (`order_no`),\n KEY `idx_a` (`key_name`)\n) ENGINE=InnoDB", `table orders (id, order_no, key_name) primary(id) unique uk_no (order_no) @x.sql:1`},
		{"sqlite", `create table t (k text primary key, v blob, unique(v)) without rowid`, `table t (k, v) primary(k) unique(v) @x.sql:1`},
		{"partial index", `CREATE TABLE u (id int); CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS u_mail ON u USING btree (lower(email)) WHERE deleted_at IS NULL`, `table u (id) unique u_mail (email) partial="deleted_at IS NULL" @x.sql:1`},
		{"removed", `CREATE TABLE u (id int, a text UNIQUE, b text); CREATE UNIQUE INDEX ub ON u (b); ALTER TABLE u DROP CONSTRAINT u_a_key; DROP INDEX IF EXISTS ub`, `table u (id, a, b) @x.sql:1`},
		{"altered", `CREATE TABLE u (id int, a text); ALTER TABLE ONLY u ADD CONSTRAINT u_pk PRIMARY KEY (id), ADD COLUMN c int, ADD UNIQUE (a, c); ALTER TABLE u RENAME COLUMN c TO d; ALTER TABLE u RENAME TO v`, `table v (id, a, d) primary(id) unique(a, d) @x.sql:1`},
		{"column dropped", `CREATE TABLE u (id int, a text UNIQUE); ALTER TABLE u DROP COLUMN a`, `table u (id) @x.sql:1`},
		{"down part", "-- +goose Up\nCREATE TABLE u (id int PRIMARY KEY);\n-- +goose Down\nDROP TABLE u;", `table u (id) primary(id) @x.sql:2`},
		{"functions", `CREATE FUNCTION f() RETURNS trigger AS $$ BEGIN; DROP TABLE u; END $$ LANGUAGE plpgsql; CREATE TABLE u (id int)`, `table u (id) @x.sql:1`},
	} {
		s := NewSchema()
		s.Apply(c.in, effect.Pos{File: "x.sql", Line: 1})
		got := strings.TrimSpace(effect.Format(&effect.Program{Schema: effect.Schema{Tables: s.Tables}}))
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestReadDirOrder(t *testing.T) {
	dir := t.TempDir()
	for n, text := range map[string]string{
		"m/002_drop.up.sql":   "DROP INDEX ua;",
		"m/001_make.up.sql":   "CREATE TABLE u (id int, a int); CREATE UNIQUE INDEX ua ON u (a);",
		"m/001_make.down.sql": "DROP TABLE u;",
		"vendor/x.sql":        "CREATE TABLE no (id int);",
		"m/003_notes.txt":     "DROP TABLE u;",
	} {
		p := filepath.Join(dir, n)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := ReadDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tables) != 1 || s.Tables["u"] == nil || len(s.Tables["u"].Unique) != 0 {
		t.Errorf("%+v", s.Tables)
	}
}
