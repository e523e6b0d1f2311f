package guard

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/store"
)

// String is the dialect's name.
func (d Dialect) String() string {
	switch d {
	case Postgres:
		return "postgres"
	case SQLite:
		return "sqlite"
	case MySQL:
		return "mysql"
	}
	return fmt.Sprintf("dialect %d", int(d))
}

// Param writes the n-th parameter of a statement, counted from 1. In MySQL
// parameters have no numbers: there each must be used once, in order.
func (d Dialect) Param(n int) string {
	if d == Postgres {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// Params writes count parameters from the n-th on, with commas.
func (d Dialect) Params(n, count int) string {
	var b strings.Builder
	for i := range count {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(d.Param(n + i))
	}
	return b.String()
}

// Ident quotes the name of a table or column, with its schema where it has one
// ("public.orders"). A quoted name keeps its case: in PostgreSQL, write it as
// the catalogue has it.
func (d Dialect) Ident(name string) string {
	quote := `"`
	if d == MySQL {
		quote = "`"
	}
	parts := strings.Split(name, ".")
	for i, part := range parts {
		parts[i] = quote + strings.ReplaceAll(part, quote, quote+quote) + quote
	}
	return strings.Join(parts, ".")
}

// CheckIdent returns *store.InvalidError for a name that no table or column can
// have.
func CheckIdent(op, what, name string) error {
	why := ""
	switch {
	case name == "":
		why = "it is empty"
	case strings.Contains("."+name+".", ".."):
		why = "there is nothing on one side of a dot"
	case strings.ContainsRune(name, 0) || !utf8.ValidString(name):
		why = "it is not text"
	}
	if why == "" {
		return nil
	}
	return &store.InvalidError{Op: op, What: fmt.Sprintf("%s %q", what, name), Why: why}
}
