package snapshot

import (
	"context"
	"fmt"
	"slices"
)

// fingerprintLines describes the schema, one thing per line. Nothing in it
// changes by what a run or a reset does to rows and sequences (TRUNCATE,
// RESTART IDENTITY and VACUUM included).
const fingerprintLines = `
SELECT concat_ws(' ', 'table', c.oid::regclass, c.relkind, c.relpersistence, pg_get_expr(c.relpartbound, c.oid),
  (SELECT string_agg(i.inhparent::regclass::text, ',' ORDER BY i.inhseqno) FROM pg_inherits i WHERE i.inhrelid = c.oid)) AS line
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE ` + userNamespace + ` AND c.relkind IN ('r', 'p', 'f', 'm', 'v') AND c.relpersistence <> 't'
UNION ALL
SELECT concat_ws(' ', 'column', c.oid::regclass || '.' || quote_ident(a.attname), a.attnum, format_type(a.atttypid, a.atttypmod),
  a.attnotnull, a.attgenerated, a.attidentity, a.attcollation, pg_get_expr(d.adbin, d.adrelid))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE ` + userNamespace + ` AND c.relkind IN ('r', 'p', 'f') AND c.relpersistence <> 't'
UNION ALL
SELECT concat_ws(' ', 'constraint', k.conrelid::regclass, k.conname, k.convalidated, pg_get_constraintdef(k.oid))
FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace
JOIN pg_class c ON c.oid = k.conrelid AND c.relpersistence <> 't'
WHERE ` + userNamespace + `
UNION ALL
SELECT concat_ws(' ', 'index', i.indisvalid, pg_get_indexdef(i.indexrelid))
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid AND c.relpersistence <> 't' JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE ` + userNamespace + `
UNION ALL
SELECT concat_ws(' ', 'trigger', g.tgenabled, pg_get_triggerdef(g.oid))
FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid AND c.relpersistence <> 't' JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_proc f ON f.oid = g.tgfoid
WHERE ` + userNamespace + ` AND NOT g.tgisinternal
  AND f.pronamespace <> coalesce(to_regnamespace('` + ownSchema + `')::oid, 0)
UNION ALL
SELECT concat_ws(' ', 'rule', w.ev_enabled, pg_get_ruledef(w.oid))
FROM pg_rewrite w JOIN pg_class c ON c.oid = w.ev_class AND c.relpersistence <> 't' JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE ` + userNamespace + `
UNION ALL
SELECT concat_ws(' ', 'policy', p.polrelid::regclass, p.polname, p.polcmd, p.polpermissive,
  pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE ` + userNamespace + `
UNION ALL
SELECT concat_ws(' ', 'sequence', q.seqrelid::regclass, q.seqtypid::regtype, q.seqstart, q.seqincrement, q.seqmin, q.seqmax, q.seqcache, q.seqcycle)
FROM pg_sequence q JOIN pg_class c ON c.oid = q.seqrelid AND c.relpersistence <> 't' JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE ` + userNamespace + `
UNION ALL
SELECT concat_ws(' ', 'function', f.oid::regprocedure, md5(f.prosrc), f.provolatile, f.prosecdef, f.proconfig)
FROM pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace
WHERE ` + userNamespace + `
UNION ALL
SELECT concat_ws(' ', 'enum', t.oid::regtype, string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder))
FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE ` + userNamespace + `
GROUP BY t.oid`

const fingerprintHash = `SELECT md5(coalesce(string_agg(line, E'\n' ORDER BY line COLLATE "C"), '')) FROM (` + fingerprintLines + `) l`

// readLines reads the schema's lines, sorted.
func (s *Snapshot) readLines(ctx context.Context) (lines []string, err error) {
	var line string
	err = s.rows(ctx, fingerprintLines, []any{&line}, func() { lines = append(lines, line) })
	slices.Sort(lines)
	return lines, err
}

// readHash reads the hash of the lines only, with a prepared statement.
func (s *Snapshot) readHash(ctx context.Context) (hash string, err error) {
	name, err := s.prepare(ctx, "fingerprint", 0, fingerprintHash)
	if err != nil {
		return "", err
	}
	err = s.conn.QueryRow(ctx, name).Scan(&hash)
	return hash, err
}

// CheckSchema compares the schema with that of Take. The error is a
// [*NeedTemplateError] when it has changed.
func (s *Snapshot) CheckSchema(ctx context.Context) error {
	hash, err := s.readHash(ctx)
	if err != nil {
		return fmt.Errorf("compare the schema: %w", err)
	}
	if hash == s.fpHash {
		return nil
	}
	return s.explain(ctx, "", errSchemaChanged)
}

// schemaChanges gives the lines that are gone and those that are new, at most
// 10; both lists are sorted.
func (s *Snapshot) schemaChanges(ctx context.Context) ([]string, error) {
	const most = 10
	now, err := s.readLines(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, l := range s.fpLines {
		if _, ok := slices.BinarySearch(now, l); !ok {
			out = append(out, "- "+l)
		}
	}
	for _, l := range now {
		if _, ok := slices.BinarySearch(s.fpLines, l); !ok {
			out = append(out, "+ "+l)
		}
	}
	return out[:min(len(out), most)], nil
}
