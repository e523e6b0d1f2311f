package postgres_test

import (
	"testing"
)

// A value reads the same whether the driver asked for text or binary.
func TestValuesInBothFormats(t *testing.T) {
	r := newRig(t)
	binary, text := r.connect(), r.connect("default_query_exec_mode=simple_protocol")
	r.Hold(true)
	for _, expr := range []string{
		"true", "12::int2", "-12::int4", "9007199254740993::int8", "1.5::float8", "2.25::float4", "1e300::float8",
		"123456.7890::numeric", "'NaN'::numeric", "'it''s'::text", "'v'::varchar(5)", "'b'::bpchar", "NULL::int",
		`'{"b": 1, "a": [true]}'::json`, `'{"b": 1, "a": [true]}'::jsonb`,
		"'6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid", `'\xdeadbeef'::bytea`,
		"'2026-03-01'::date", "'12:34:56.5'::time", "'2026-03-01 12:34:56'::timestamp", "42::oid",
		"ARRAY[1,2,NULL]", "ARRAY['a','b c','d\"e']", "'192.168.0.1'::inet", "'1 day 02:03:04'::interval", "''::text",
	} {
		query := "SELECT " + expr + " AS v"
		wait := execute(r, text, query)
		_, want := r.step()
		r.must(wait())
		wait = r.async(func() error { return binary.QueryRow(r.ctx, query).Scan(new(any)) })
		_, got := r.step()
		if err := wait(); err != nil {
			t.Errorf("%s: %v", expr, err)
		}
		w, g := want.Rows[0][0], got.Rows[0][0]
		if (w == nil) != (g == nil) || w != nil && *w != *g {
			t.Errorf("%s: binary %s, text %s", expr, show(g), show(w))
		}
	}
}

func show(s *string) string {
	if s == nil {
		return "NULL"
	}
	return *s
}
