package snapshot

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/play/oracle"
)

// userNamespace is true for schemas of the application.
const userNamespace = `n.nspname NOT LIKE 'pg\_%' AND n.nspname NOT IN ('information_schema', '` + ownSchema + `', '` + Schema + `')`

const relationsQuery = `
SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.relispartition
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE ` + userNamespace + ` AND c.relkind IN ('r', 'p', 'f', 'm') AND c.relpersistence <> 't'
ORDER BY n.nspname, c.relname`

// columnsQuery: a domain counts as what it is made of, through several levels.
// sequenced: the default takes from a sequence (by dependency or by its text)
// or the column owns one, as serial columns do.
const columnsQuery = `
WITH RECURSIVE base AS (
  SELECT oid AS domain, typbasetype AS oid FROM pg_type WHERE typtype = 'd'
  UNION ALL
  SELECT b.domain, t.typbasetype FROM base b JOIN pg_type t ON t.oid = b.oid AND t.typtype = 'd'
)
SELECT a.attrelid, a.attname, t.typname, a.attgenerated <> '', a.attidentity <> '',
  CASE WHEN a.attgenerated = '' THEN coalesce(pg_get_expr(d.adbin, d.adrelid), '') ELSE '' END,
  EXISTS (SELECT FROM pg_depend p JOIN pg_class q ON q.oid = p.refobjid AND q.relkind = 'S'
    WHERE p.classid = 'pg_attrdef'::regclass AND p.objid = d.oid AND p.refclassid = 'pg_class'::regclass) OR
  EXISTS (SELECT FROM pg_depend p JOIN pg_class q ON q.oid = p.objid AND q.relkind = 'S'
    WHERE p.classid = 'pg_class'::regclass AND p.refclassid = 'pg_class'::regclass
    AND p.refobjid = a.attrelid AND p.refobjsubid = a.attnum AND p.deptype IN ('a', 'i'))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid
LEFT JOIN base b ON b.domain = a.atttypid
  AND NOT EXISTS (SELECT FROM pg_type x WHERE x.oid = b.oid AND x.typtype = 'd')
JOIN pg_type t ON t.oid = coalesce(b.oid, a.atttypid)
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE ` + userNamespace + ` AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
  AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum`

// keysQuery gives the primary keys with the equality of their index. A key that
// is not a plain btree with default order (WITHOUT OVERLAPS) has none.
const keysQuery = `
SELECT i.indrelid, a.attname,
  coalesce(CASE WHEN m.amname = 'btree' AND oc.opcdefault THEN format('OPERATOR(%I.%s)', opn.nspname, op.oprname) END, '')
FROM pg_index i
JOIN pg_class ic ON ic.oid = i.indexrelid
JOIN pg_am m ON m.oid = ic.relam
JOIN pg_namespace n ON n.oid = ic.relnamespace
CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indclass::oid[]) WITH ORDINALITY k(attnum, opclass, ord)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
LEFT JOIN pg_opclass oc ON oc.oid = k.opclass
LEFT JOIN pg_amop ao ON ao.amopfamily = oc.opcfamily AND ao.amopstrategy = 3
  AND ao.amoplefttype = oc.opcintype AND ao.amoprighttype = oc.opcintype
LEFT JOIN pg_operator op ON op.oid = ao.amopopr
LEFT JOIN pg_namespace opn ON opn.oid = op.oprnamespace
WHERE i.indisprimary AND i.indisvalid AND k.ord <= i.indnkeyatts AND ` + userNamespace + `
ORDER BY i.indrelid, k.ord`

const foreignKeysQuery = `
SELECT k.conrelid, a.attname, k.confrelid, f.attname
FROM pg_constraint k
CROSS JOIN LATERAL unnest(k.conkey, k.confkey) WITH ORDINALITY u(attnum, fattnum, ord)
JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum
JOIN pg_attribute f ON f.attrelid = k.confrelid AND f.attnum = u.fattnum
WHERE k.contype = 'f'
ORDER BY k.conrelid, k.conname, u.ord`

const inheritsQuery = `SELECT inhrelid, inhparent FROM pg_inherits`

// notesQuery finds what a reset can not keep quiet or restore.
const notesQuery = `
SELECT format('trigger %s on %s is enabled ALWAYS or for REPLICA: it fires during a reset', g.tgname, g.tgrelid::regclass)
FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_proc f ON f.oid = g.tgfoid
WHERE NOT g.tgisinternal AND g.tgenabled IN ('A', 'R') AND ` + userNamespace + `
  AND f.pronamespace <> coalesce(to_regnamespace('` + ownSchema + `')::oid, 0)
UNION ALL
SELECT format('sequence %s hands out %s values at once to each session: those that a session holds are not taken back', q.seqrelid::regclass, q.seqcache)
FROM pg_sequence q JOIN pg_class c ON c.oid = q.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE q.seqcache > 1 AND c.relpersistence <> 't' AND ` + userNamespace + `
UNION ALL
SELECT 'there are large objects: they are not restored' WHERE EXISTS (SELECT FROM pg_largeobject_metadata)
ORDER BY 1`

// catalog is the raw material of a schema.
type catalog struct {
	rels     []catalogRelation
	byOID    map[uint32]*catalogRelation
	columns  map[uint32][]column
	keys     map[uint32][]keyColumn
	children map[uint32][]uint32
}

type catalogRelation struct {
	oid          uint32
	schema, name string
	kind         string // r plain, p partitioned, f foreign, m materialized view
	partition    bool
}

func (c *catalogRelation) display() string { return displayName(c.schema, c.name) }

// rows runs a catalog query and calls f for each row, after scanning into dst.
func (s *Snapshot) rows(ctx context.Context, sql string, dst []any, f func()) error {
	rows, err := s.conn.Query(ctx, sql, pgx.QueryExecModeExec)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, dst, func() error { f(); return nil })
	return err
}

func (s *Snapshot) loadSchema(ctx context.Context) error {
	c := catalog{
		byOID:    map[uint32]*catalogRelation{},
		columns:  map[uint32][]column{},
		keys:     map[uint32][]keyColumn{},
		children: map[uint32][]uint32{},
	}
	var r catalogRelation
	err := s.rows(ctx, relationsQuery, []any{&r.oid, &r.schema, &r.name, &r.kind, &r.partition}, func() { c.rels = append(c.rels, r) })
	if err != nil {
		return err
	}
	for i := range c.rels {
		c.byOID[c.rels[i].oid] = &c.rels[i]
	}
	if err := s.loadColumns(ctx, &c); err != nil {
		return err
	}
	var oid, parent uint32
	var k keyColumn
	if err := s.rows(ctx, keysQuery, []any{&oid, &k.name, &k.equal}, func() { c.keys[oid] = append(c.keys[oid], k) }); err != nil {
		return err
	}
	if err := s.rows(ctx, inheritsQuery, []any{&oid, &parent}, func() { c.children[parent] = append(c.children[parent], oid) }); err != nil {
		return err
	}
	s.build(&c)
	if err := s.loadForeignKeys(ctx, &c); err != nil {
		return err
	}
	var note string
	return s.rows(ctx, notesQuery, []any{&note}, func() { s.notes = append(s.notes, note) })
}

func (s *Snapshot) loadColumns(ctx context.Context, c *catalog) error {
	var (
		oid                            uint32
		col                            column
		typname, def                   string
		generated, identity, sequenced bool
	)
	return s.rows(ctx, columnsQuery, []any{&oid, &col.name, &typname, &generated, &identity, &def, &sequenced}, func() {
		col.generated = generated
		col.typ = columnType(typname, def, identity || sequenced)
		c.columns[oid] = append(c.columns[oid], col)
	})
}

// columnType classifies a column by its own definition; foreign keys come later.
func columnType(typname, def string, sequenced bool) oracle.Type {
	switch {
	case sequenced || strings.Contains(def, "nextval("):
		return oracle.ID
	case typname == "uuid" && strings.Contains(def, "("):
		// A constant default has no call in it: '...'::uuid.
		return oracle.ID
	case strings.Contains(def, "gen_random_uuid(") || strings.Contains(def, "uuid_generate_v"):
		// A generated uuid in a column of type text.
		return oracle.ID
	}
	switch typname {
	case "timestamp", "timestamptz", "date", "time", "timetz":
		return oracle.Time
	case "json", "jsonb":
		return oracle.JSON
	}
	return oracle.Plain
}

// build makes tables and relations of the raw material.
func (s *Snapshot) build(c *catalog) {
	s.schema.dirty = map[string][]*relation{}
	byOID := map[uint32]*relation{}
	for _, r := range c.rels {
		switch r.kind {
		case "f":
			s.notes = append(s.notes, fmt.Sprintf("foreign table %s is neither restored nor observed", r.display()))
		case "m":
			s.notes = append(s.notes, fmt.Sprintf("materialized view %s is neither restored nor observed", r.display()))
		case "r":
			rel := &relation{
				oid:     r.oid,
				display: r.display(),
				ident:   quote(r.schema, r.name),
				copy:    quote(Schema, fmt.Sprintf("t%d", r.oid)),
				columns: c.columns[r.oid],
			}
			if k := c.keys[r.oid]; !slices.ContainsFunc(k, func(k keyColumn) bool { return k.equal == "" }) {
				rel.key = k
			}
			byOID[r.oid] = rel
			s.schema.relations = append(s.schema.relations, rel)
		}
	}
	for _, r := range c.rels {
		if r.kind != "r" && r.kind != "p" {
			continue
		}
		below := c.descendants(r.oid)
		var parts []*relation
		for _, oid := range append([]uint32{r.oid}, below...) {
			if rel := byOID[oid]; rel != nil {
				parts = append(parts, rel)
			}
		}
		s.schema.dirty[r.display()] = parts
		if r.partition {
			continue
		}
		if r.kind == "r" {
			// Tables that inherit from this one are tables of their own.
			parts = parts[:1]
		}
		s.schema.tables = append(s.schema.tables, newTable(c, r, parts))
	}
	slices.SortFunc(s.schema.tables, func(a, b *table) int { return strings.Compare(a.name, b.name) })
}

func newTable(c *catalog, r catalogRelation, parts []*relation) *table {
	t := &table{
		oid:         r.oid,
		name:        r.display(),
		ident:       quote(r.schema, r.name),
		partitioned: r.kind == "p",
		columns:     slices.Clone(c.columns[r.oid]),
		parts:       parts,
	}
	t.sortable = len(c.keys[r.oid]) > 0
	for _, k := range c.keys[r.oid] {
		t.primary = append(t.primary, k.name)
		t.sortable = t.sortable && k.equal != ""
	}
	return t
}

// descendants are all relations below one, in a stable order.
func (c *catalog) descendants(oid uint32) []uint32 {
	found := map[uint32]bool{}
	var walk func(uint32)
	walk = func(oid uint32) {
		for _, child := range c.children[oid] {
			if !found[child] {
				found[child] = true
				walk(child)
			}
		}
	}
	walk(oid)
	return slices.Sorted(maps.Keys(found))
}

// loadForeignKeys fills in what columns refer to, and makes those that refer
// to an id an id, through any number of steps.
func (s *Snapshot) loadForeignKeys(ctx context.Context, c *catalog) error {
	byOID := map[uint32]*table{}
	for _, t := range s.schema.tables {
		byOID[t.oid] = t
	}
	type link struct{ from, to *column }
	var links []link
	var oid, target uint32
	var name, targetName string
	err := s.rows(ctx, foreignKeysQuery, []any{&oid, &name, &target, &targetName}, func() {
		from := byOID[oid].column(name)
		to := byOID[target].column(targetName)
		if from == nil || to == nil {
			return // of a partition: its root has the same constraint
		}
		if from.refs == "" {
			from.refs = c.byOID[target].display() + "." + targetName
		}
		links = append(links, link{from, to})
	})
	for again := true; again; {
		again = false
		for _, l := range links {
			if l.to.typ == oracle.ID && l.from.typ != oracle.ID {
				l.from.typ, again = oracle.ID, true
			}
		}
	}
	return err
}

// column finds a column by name; nil also on a nil table.
func (t *table) column(name string) *column {
	if t == nil {
		return nil
	}
	for i := range t.columns {
		if t.columns[i].name == name {
			return &t.columns[i]
		}
	}
	return nil
}
