package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// table is what the catalog says of a relation beyond its name.
type table struct {
	name string // schema.table, public left out
	// unique are the column sets of unique indexes without predicate.
	unique [][]string
	// guarded are all columns by which rows may collide with each other: those of
	// unique indexes and exclusion constraints. odd: some of these have a
	// predicate or expressions, so any column may count.
	guarded []string
	odd     bool
	// parents are the tables its foreign keys refer to; children those that
	// refer to it.
	parents  []string
	children []child
	// keys are the columns to which foreign keys refer.
	keys []string
	// trigger is true where a user trigger or a rule runs on writes.
	trigger bool
	// sequences of identity columns and defaults.
	sequences []string
}

// child is a table that refers to another, and what happens to it.
type child struct {
	table              string
	onDelete, onUpdate byte // pg_constraint: a no action, r restrict, c cascade, n set null, d set default
}

// writes reports whether the action changes the child's rows.
func changes(action byte) bool { return action == 'c' || action == 'n' || action == 'd' }

// catalog is a picture of the schema, taken anew after DDL.
type catalog struct {
	tables map[string]*table
	// roots are the outermost parents of partitions and inheriting tables: a row
	// written through one name is read through another.
	roots map[string]string
	// fuzzy: some column has a collation in which different texts are equal.
	fuzzy bool
	// suspects are functions whose effects are not known, by name.
	suspects map[string]string
}

// harmless are volatile functions of the system that touch nothing that others
// can see.
var harmless = []string{"random", "random_normal", "setseed", "gen_random_uuid", "clock_timestamp", "timeofday",
	"statement_timestamp", "pg_sleep", "pg_sleep_for", "pg_sleep_until", "set_config", "txid_current", "pg_current_xact_id",
	"txid_current_if_assigned", "pg_current_xact_id_if_assigned", "pg_backend_pid", "version", "pg_notify", "uuidv7", "uuidv4",
	"pg_is_in_recovery", "pg_conf_load_time", "pg_postmaster_start_time", "currval", "lastval", "nextval", "setval",
	"uuid_generate_v1", "uuid_generate_v1mc", "uuid_generate_v4", "gen_salt", "gen_random_bytes", "inet_client_addr", "inet_server_addr"}

const tablesQuery = `
SELECT CASE n.nspname WHEN 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END,
  EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgname NOT LIKE '\_holdfast\_%')
    OR EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type <> '1'),
  ARRAY(SELECT CASE sn.nspname WHEN 'public' THEN s.relname ELSE sn.nspname || '.' || s.relname END
    FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S' JOIN pg_namespace sn ON sn.oid = s.relnamespace
    WHERE d.refobjid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i') ORDER BY 1)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')`

const uniqueQuery = `
SELECT CASE n.nspname WHEN 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END,
  ARRAY(SELECT a.attname FROM unnest(i.indkey[0:i.indnkeyatts - 1]) k JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k ORDER BY 1),
  i.indpred IS NULL AND i.indexprs IS NULL, i.indisunique
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE (i.indisunique OR i.indisexclusion) AND n.nspname NOT IN ('pg_catalog', 'pg_toast')`

const rootsQuery = `
WITH RECURSIVE up AS (
  SELECT inhrelid, inhparent FROM pg_inherits
  UNION SELECT up.inhrelid, i.inhparent FROM up JOIN pg_inherits i ON i.inhrelid = up.inhparent)
SELECT CASE n.nspname WHEN 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END,
  CASE pn.nspname WHEN 'public' THEN p.relname ELSE pn.nspname || '.' || p.relname END
FROM up JOIN pg_class c ON c.oid = up.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_class p ON p.oid = up.inhparent JOIN pg_namespace pn ON pn.oid = p.relnamespace
WHERE c.relkind IN ('r', 'p', 'f') AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = up.inhparent)
ORDER BY 1, 2`

const fuzzyQuery = `
SELECT EXISTS (SELECT FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation WHERE NOT c.collisdeterministic)`

const foreignQuery = `
SELECT CASE cn.nspname WHEN 'public' THEN c.relname ELSE cn.nspname || '.' || c.relname END,
  CASE pn.nspname WHEN 'public' THEN p.relname ELSE pn.nspname || '.' || p.relname END,
  f.confdeltype::text, f.confupdtype::text,
  ARRAY(SELECT a.attname FROM unnest(f.confkey) k JOIN pg_attribute a ON a.attrelid = p.oid AND a.attnum = k)
FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid JOIN pg_namespace cn ON cn.oid = c.relnamespace
  JOIN pg_class p ON p.oid = f.confrelid JOIN pg_namespace pn ON pn.oid = p.relnamespace
WHERE f.contype = 'f' ORDER BY 1, 2`

// A user's function is a suspect unless it is immutable. Of the system's own
// only the volatile ones are.
const functionsQuery = `
SELECT p.proname, n.nspname, p.provolatile::text
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.provolatile = 'v' OR p.provolatile = 's' AND n.nspname NOT IN ('pg_catalog', 'information_schema')`

func loadCatalog(ctx context.Context, conn *pgx.Conn) (*catalog, error) {
	c := &catalog{tables: map[string]*table{}, roots: map[string]string{}, suspects: map[string]string{}}
	err := each(ctx, conn, tablesQuery, func(row pgx.CollectableRow) error {
		t := &table{}
		if err := row.Scan(&t.name, &t.trigger, &t.sequences); err != nil {
			return err
		}
		c.tables[t.name] = t
		return nil
	})
	if err == nil {
		err = each(ctx, conn, uniqueQuery, c.addUnique)
	}
	if err == nil {
		err = each(ctx, conn, rootsQuery, c.addRoot)
	}
	if err == nil {
		err = conn.QueryRow(ctx, fuzzyQuery).Scan(&c.fuzzy)
	}
	if err == nil {
		err = each(ctx, conn, foreignQuery, c.addForeign)
	}
	if err == nil {
		err = each(ctx, conn, functionsQuery, c.addFunction)
	}
	if err != nil {
		return nil, fmt.Errorf("read the database's catalog: %w", err)
	}
	return c, nil
}

func each(ctx context.Context, conn *pgx.Conn, query string, f func(pgx.CollectableRow) error) error {
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (c *catalog) addUnique(row pgx.CollectableRow) error {
	var name string
	var columns []string
	var whole, unique bool
	if err := row.Scan(&name, &columns, &whole, &unique); err != nil {
		return err
	}
	t := c.tables[name]
	if t == nil {
		return nil
	}
	t.guarded = append(t.guarded, columns...)
	t.odd = t.odd || !whole
	if whole && unique {
		t.unique = append(t.unique, columns)
	}
	return nil
}

func (c *catalog) addRoot(row pgx.CollectableRow) error {
	var name, root string
	if err := row.Scan(&name, &root); err != nil {
		return err
	}
	if c.roots[name] == "" {
		c.roots[name] = root
	} else if c.roots[name] != root {
		// Several parents: their families are one.
		c.roots[root] = c.roots[name]
	}
	return nil
}

// root is the name under which a relation stands in footprints.
func (c *catalog) root(name string) string {
	for range len(c.roots) {
		up, ok := c.roots[name]
		if !ok {
			break
		}
		name = up
	}
	return name
}

func (c *catalog) addForeign(row pgx.CollectableRow) error {
	var childName, parent, onDelete, onUpdate string
	var keys []string
	if err := row.Scan(&childName, &parent, &onDelete, &onUpdate, &keys); err != nil {
		return err
	}
	if t := c.tables[childName]; t != nil && !slices.Contains(t.parents, parent) {
		t.parents = append(t.parents, parent)
	}
	if t := c.tables[parent]; t != nil {
		t.children = append(t.children, child{childName, onDelete[0], onUpdate[0]})
		t.keys = append(t.keys, keys...)
	}
	return nil
}

func (c *catalog) addFunction(row pgx.CollectableRow) error {
	var name, schema, volatility string
	if err := row.Scan(&name, &schema, &volatility); err != nil {
		return err
	}
	if slices.Contains(harmless, name) && (schema == "pg_catalog" || strings.HasPrefix(name, "uuid_") || strings.HasPrefix(name, "gen_")) ||
		strings.HasPrefix(name, "pg_advisory") || strings.HasPrefix(name, "pg_try_advisory") || schema == "_holdfast" {
		return nil
	}
	why := "function " + name + " is volatile"
	if schema != "pg_catalog" {
		why = "function " + name + " of the application may read or write"
	}
	c.suspects[strings.ToLower(name)] = why
	return nil
}
