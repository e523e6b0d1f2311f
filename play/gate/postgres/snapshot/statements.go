package snapshot

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Whole rows are compared with *=, which looks at the stored bytes of each
// column: it works for types without an equality (json, xml, point), holds for
// NULLs, and two rows that it calls equal have the same text. The cast to
// record keeps the parser from expanding ROW(...) op ROW(...) column by column.

// row is the row as one value: ROW(t."a", t."b").
func row(alias string, cols []column) string {
	return "ROW(" + list(alias, cols, "") + ")"
}

// list is t."a"SUFFIX, t."b"SUFFIX.
func list(alias string, cols []column, suffix string) string {
	s := make([]string, len(cols))
	for i, c := range cols {
		s[i] = alias + "." + quote(c.name) + suffix
	}
	return strings.Join(s, ", ")
}

// rowText is the row's text as a column of its own. OFFSET 0 in the queries
// around it keeps the planner from computing it once per use.
func rowText(alias string, cols []column) string {
	return row(alias, cols) + `::text COLLATE "C"`
}

// stored are the columns that can be written.
func (r *relation) stored() []column {
	var out []column
	for _, c := range r.columns {
		if !c.generated {
			out = append(out, c)
		}
	}
	return out
}

func (r *relation) copySQL() string {
	return fmt.Sprintf("SELECT %s FROM ONLY %s t", list("t", r.columns, ""), r.ident)
}

// digestSQL gives "rows:sum:sum". The second seed is an arbitrary odd number.
func (r *relation) digestSQL() string {
	return fmt.Sprintf(`SELECT concat_ws(':', count(*), coalesce(sum(hashtextextended(r, 0)), 0), `+
		`coalesce(sum(hashtextextended(r, 7046029254386353131)), 0)) FROM (SELECT %s AS r FROM ONLY %s t OFFSET 0) x`,
		rowText("t", r.columns), r.ident)
}

// digestRows is the number of rows in the recorded digest.
func (r *relation) digestRows() int {
	n, _, _ := strings.Cut(r.digest, ":")
	rows, err := strconv.Atoi(n)
	if err != nil {
		return 0 // digestSQL puts a number there
	}
	return rows
}

// sameKey joins t and s by the primary key.
func (r *relation) sameKey() string {
	s := make([]string, len(r.key))
	for i, k := range r.key {
		s[i] = fmt.Sprintf("t.%s %s s.%s", quote(k.name), k.equal, quote(k.name))
	}
	return strings.Join(s, " AND ")
}

// sameRow is true where t and s are the same row in these columns.
func (r *relation) sameRow(cols []column) string {
	return fmt.Sprintf("%s AND %s::record OPERATOR(pg_catalog.*=) %s::record", r.sameKey(), row("t", cols), row("s", cols))
}

// surplus gives the ctids of rows in one of the two tables that are there more
// often than in the other one: for tables in which two rows can be alike.
func (r *relation) surplus(in, than string, cols []column) string {
	return fmt.Sprintf(`SELECT x.id FROM (SELECT t.ctid AS id, %[1]s AS r, row_number() OVER (PARTITION BY %[1]s) AS n FROM ONLY %[2]s t) x `+
		`LEFT JOIN (SELECT %[1]s AS r, count(*) AS n FROM ONLY %[3]s t GROUP BY 1) y ON y.r = x.r WHERE x.n > coalesce(y.n, 0)`,
		rowText("t", cols), in, than)
}

// deleteSQL deletes the rows that are new or changed.
func (r *relation) deleteSQL() string {
	if len(r.key) == 0 {
		return fmt.Sprintf("DELETE FROM ONLY %s t WHERE t.ctid = ANY (ARRAY(%s))", r.ident, r.surplus(r.ident, r.copy, r.columns))
	}
	return fmt.Sprintf("DELETE FROM ONLY %s t WHERE NOT EXISTS (SELECT FROM %s s WHERE %s)", r.ident, r.copy, r.sameRow(r.columns))
}

// insertSQL inserts the rows that are missing, after deleteSQL.
func (r *relation) insertSQL() string {
	cols := r.stored()
	into := r.ident
	if len(cols) > 0 {
		names := make([]string, len(cols))
		for i, c := range cols {
			names[i] = quote(c.name)
		}
		into += " (" + strings.Join(names, ", ") + ") OVERRIDING SYSTEM VALUE"
	}
	if len(r.key) == 0 {
		return fmt.Sprintf("INSERT INTO %s SELECT %s FROM %s s WHERE s.ctid = ANY (ARRAY(%s))",
			into, list("s", cols, ""), r.copy, r.surplus(r.copy, r.ident, r.columns))
	}
	return fmt.Sprintf("INSERT INTO %s SELECT %s FROM %s s WHERE NOT EXISTS (SELECT FROM ONLY %s t WHERE %s)",
		into, list("s", cols, ""), r.copy, r.ident, r.sameKey())
}

// observed are the columns that are not excluded.
func (t *table) observed() []column {
	var out []column
	for _, c := range t.columns {
		if !c.excluded {
			out = append(out, c)
		}
	}
	return out
}

// order sorts by primary key, else by text; prefix names the key's columns.
func (t *table) order(alias string, cols []column) string {
	if t.sortable {
		s := make([]string, len(t.primary))
		for i, k := range t.primary {
			s[i] = alias + "." + quote(k)
		}
		return " ORDER BY " + strings.Join(s, ", ")
	}
	if len(cols) == 0 {
		return ""
	}
	return " ORDER BY " + rowText(alias, cols)
}

// rowsSQL reads the observed columns of all rows as text.
func (t *table) rowsSQL() string {
	cols := t.observed()
	from := "ONLY " + t.ident
	if t.partitioned {
		from = t.ident
	}
	return fmt.Sprintf("SELECT %s FROM %s t%s", list("t", cols, "::text"), from, t.order("t", cols))
}

// differencesSQL reads the observed columns of the rows that were added since
// Take and of those that were removed; a changed row is both. Only observed
// columns count: a row in which an excluded column changed is no difference.
func (t *table) differencesSQL() string {
	cols := t.observed()
	// c0, c1, ...: names that can not clash with that of the first column.
	numbered := make([]string, len(t.columns))
	out, order := []string{"u.change"}, []string{}
	for i, c := range t.columns {
		numbered[i] = fmt.Sprintf("t.%s AS c%d", quote(c.name), i)
		if c.excluded {
			continue
		}
		out = append(out, fmt.Sprintf("u.c%d::text", i))
		if !t.sortable {
			order = append(order, fmt.Sprintf(`u.c%d::text COLLATE "C"`, i))
		}
	}
	if t.sortable {
		for _, k := range t.primary {
			i := slices.IndexFunc(t.columns, func(c column) bool { return c.name == k })
			order = append(order, fmt.Sprintf("u.c%d", i))
		}
	}
	order = append(order, "u.change")
	var union []string
	for _, r := range t.parts {
		added, removed := r.differences(cols)
		all := strings.Join(append([]string{""}, numbered...), ", ")
		union = append(union,
			fmt.Sprintf("SELECT 'added' AS change%s FROM ONLY %s t WHERE %s", all, r.ident, added),
			fmt.Sprintf("SELECT 'removed' AS change%s FROM %s t WHERE %s", all, r.copy, removed))
	}
	return fmt.Sprintf("SELECT %s FROM (%s) u ORDER BY %s",
		strings.Join(out, ", "), strings.Join(union, " UNION ALL "), strings.Join(order, ", "))
}

// differences are the conditions for a row t of the table to be new or
// changed, and for a row t of the copy to be gone or changed.
func (r *relation) differences(cols []column) (added, removed string) {
	if len(r.key) == 0 {
		return fmt.Sprintf("t.ctid = ANY (ARRAY(%s))", r.surplus(r.ident, r.copy, cols)),
			fmt.Sprintf("t.ctid = ANY (ARRAY(%s))", r.surplus(r.copy, r.ident, cols))
	}
	return fmt.Sprintf("NOT EXISTS (SELECT FROM %s s WHERE %s)", r.copy, r.sameRow(cols)),
		fmt.Sprintf("NOT EXISTS (SELECT FROM ONLY %s s WHERE %s)", r.ident, r.sameRow(cols))
}
