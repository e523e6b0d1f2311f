package golang

import (
	"go/ast"
	"go/token"
	"go/types"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/sql"
)

// completeSchema adds what the program itself says of its tables: statements that
// define data in string constants (migrations written in Go), and the tags of the
// ORMs, from which they make tables.
func (b *builder) completeSchema() {
	s := sql.From(b.schema)
	for _, p := range b.w.pkgs {
		for _, f := range p.Syntax {
			b.definitions(s, f)
		}
	}
	for _, p := range b.w.pkgs {
		scope := p.Types.Scope()
		names := scope.Names()
		sort.Strings(names)
		for _, n := range names {
			if tn, ok := scope.Lookup(n).(*types.TypeName); ok {
				b.model(s, tn)
			}
		}
	}
	b.schema.Tables = s.Tables
}

// definitions applies CREATE and ALTER statements in constants. Those in
// functions that take a migration back, and DROP TABLE, are left out: which way a
// function in Go goes is told by its name only.
func (b *builder) definitions(s *sql.Schema, f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncDecl:
			l := strings.ToLower(x.Name.Name)
			return !strings.Contains(l, "down") && !strings.Contains(l, "rollback") && !strings.Contains(l, "revert")
		case *ast.BasicLit:
			if x.Kind != token.STRING || len(x.Value) < 20 {
				return true
			}
			text, err := strconv.Unquote(x.Value)
			if err != nil || !defines(text) {
				return true
			}
			s.Apply(text, b.w.pos(x.Pos()))
		}
		return true
	})
}

func defines(text string) bool {
	up := strings.ToUpper(text)
	if strings.Contains(up, "DROP TABLE") {
		return false
	}
	for _, w := range []string{"CREATE TABLE ", "CREATE UNIQUE INDEX", "ALTER TABLE ", "DROP INDEX "} {
		if strings.Contains(up, w) {
			return true
		}
	}
	return false
}

// model reads the tags of GORM, bun and xorm on one type.
func (b *builder) model(s *sql.Schema, tn *types.TypeName) {
	st, ok := tn.Type().Underlying().(*types.Struct)
	if !ok || tn.IsAlias() {
		return
	}
	lib := modelLib(st)
	if lib == "" {
		return
	}
	table := b.tableName(tn.Type(), lib)
	m := &modelTable{b: b, s: s, table: table, lib: lib, groups: map[string][]string{}, pos: b.w.pos(tn.Pos()), owner: tn.Type()}
	for i := range st.NumFields() {
		f := st.Field(i)
		if f.Embedded() && strings.Contains(reflect.StructTag(st.Tag(i)).Get("bun"), "table:") {
			for _, part := range strings.Split(reflect.StructTag(st.Tag(i)).Get("bun"), ",") {
				if n, ok := strings.CutPrefix(part, "table:"); ok {
					m.table = strings.ToLower(n)
				}
			}
		}
	}
	for i := range st.NumFields() {
		m.field(st.Field(i), reflect.StructTag(st.Tag(i)))
	}
	for _, g := range sortedKeys(m.groups) {
		s.AddUnique(m.table, effect.Unique{Name: g, Cols: m.groups[g], Pos: m.pos})
	}
	if len(m.primary) > 0 {
		s.SetPrimary(m.table, m.primary, m.pos)
	}
}

// modelLib says which ORM a struct is written for, by its tags.
func modelLib(st *types.Struct) string {
	for i := range st.NumFields() {
		tag := reflect.StructTag(st.Tag(i))
		for _, lib := range []string{"gorm", "bun", "xorm"} {
			if tag.Get(lib) != "" {
				return lib
			}
		}
		if st.Field(i).Embedded() && strings.HasSuffix(typeName(st.Field(i).Type()), "gorm.Model") {
			return "gorm"
		}
	}
	return ""
}

type modelTable struct {
	b       *builder
	s       *sql.Schema
	table   string
	lib     string
	owner   types.Type
	pos     effect.Pos
	primary []string
	groups  map[string][]string // unique indexes over several columns, by name
}

func (m *modelTable) field(f *types.Var, tag reflect.StructTag) {
	if f.Embedded() {
		if strings.HasSuffix(typeName(f.Type()), "gorm.Model") {
			m.primary = append(m.primary, "id")
		}
		return
	}
	col := column(f, m.owner)
	seps := map[string]string{"gorm": ";", "bun": ",", "xorm": " "}
	for _, part := range strings.Split(tag.Get(m.lib), seps[m.lib]) {
		part = strings.TrimSpace(part)
		key, arg, _ := strings.Cut(part, ":")
		if m.lib == "xorm" {
			key, arg, _ = strings.Cut(strings.TrimSuffix(part, ")"), "(")
		}
		switch strings.ToLower(key) {
		case "primarykey", "primary_key", "pk":
			m.primary = append(m.primary, col)
		case "unique", "uniqueindex", "unique_index":
			name, _, _ := strings.Cut(arg, ",")
			if name != "" {
				m.groups[name] = append(m.groups[name], col)
			} else {
				m.s.AddUnique(m.table, effect.Unique{Cols: []string{col}, Pos: m.b.w.pos(f.Pos())})
			}
		}
	}
	if m.lib == "gorm" && f.Name() == "ID" && len(m.primary) == 0 {
		m.primary = append(m.primary, col)
	}
}
