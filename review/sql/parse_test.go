package sql

import (
	"strings"
	"testing"
)

// show writes a statement in one line, for comparison.
func show(s *Stmt) string {
	var b strings.Builder
	b.WriteString(string(s.Verb) + " " + s.Table)
	for _, r := range s.Joined {
		b.WriteString("+" + r.Name)
	}
	for _, c := range s.CTEs {
		b.WriteString(" with " + c.Name + "(" + show(c.Stmt) + ")")
	}
	var cols []string
	for _, c := range s.Columns {
		cols = append(cols, c.Name)
	}
	if len(cols) > 0 {
		b.WriteString(" cols " + strings.Join(cols, ","))
	}
	if len(s.InsertCols) > 0 {
		b.WriteString(" into " + strings.Join(s.InsertCols, ","))
	}
	for _, row := range s.Values {
		b.WriteString(" values " + showList(row))
	}
	if s.Source != nil {
		b.WriteString(" from (" + show(s.Source) + ")")
	}
	b.WriteString(showSet(" set ", s.Set))
	if s.Where != nil {
		b.WriteString(" where " + showExpr(s.Where))
	}
	if s.Lock != "" {
		b.WriteString(" lock " + s.Lock)
	}
	if c := s.OnConflict; c != nil {
		b.WriteString(" conflict(" + strings.Join(c.Cols, ",") + ")")
		if c.Nothing {
			b.WriteString(" nothing")
		}
		if c.Replace {
			b.WriteString(" replace")
		}
		b.WriteString(showSet(" do ", c.Set))
		if c.Where != nil {
			b.WriteString(" if " + showExpr(c.Where))
		}
	}
	if s.Iso != "" {
		b.WriteString(" iso " + s.Iso)
	}
	if s.Incomplete {
		b.WriteString(" incomplete")
	}
	return b.String()
}

func showSet(word string, as []Assign) string {
	var out []string
	for _, a := range as {
		out = append(out, a.Col+"="+showExpr(a.Val))
	}
	if len(out) == 0 {
		return ""
	}
	return word + strings.Join(out, ",")
}

func showList(es []*Expr) string {
	var out []string
	for _, e := range es {
		out = append(out, showExpr(e))
	}
	return "(" + strings.Join(out, " ") + ")"
}

func showExpr(e *Expr) string {
	switch e.Kind {
	case Const, Param:
		return e.Name
	case Col:
		if e.Table != "" {
			return e.Table + "." + e.Name
		}
		return e.Name
	case Call, Op:
		return e.Name + showList(e.Args)
	case Sub:
		return "[" + show(e.Stmt) + "]"
	case List:
		return "list" + showList(e.Args)
	case HoleExpr:
		return "_"
	case Star:
		return "*"
	}
	return "?"
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`SELECT balance FROM accounts WHERE id = $1 FOR UPDATE`, `select accounts cols balance where =(id $1) lock update`},
		{"select `id`, `n` from `db`.`t` where `a` = ? and b in (?, ?) limit 1 lock in share mode", `select t cols id,n where and(=(a ?1) in(b list(?2 ?3))) lock share`},
		{`UPDATE t SET n = n + 1, "At" = now() WHERE id = :id AND version = @v RETURNING n, version AS v`, `update t cols n,v set n=+(n 1),at=now() where and(=(id :id) =(version @v))`},
		{`INSERT INTO t AS x (a, b) VALUES ($1, $2::jsonb), (DEFAULT, 'it''s') ON CONFLICT (a) WHERE b IS NULL DO UPDATE SET b = EXCLUDED.b WHERE x.b < excluded.b`, `insert t into a,b values ($1 $2) values (? "it's") conflict(a) do b=excluded.b if <(x.b excluded.b)`},
		{`INSERT INTO t (a) SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM t WHERE a = $1)`, `insert t into a from (select  cols  where not(exists([select t cols  where =(a $1)])))`},
		{`insert ignore into t set a = ?, b = b + 1`, `insert t into a,b values (?1 +(b 1)) conflict() nothing`},
		{`INSERT INTO t(a,b) VALUES(?,?) ON DUPLICATE KEY UPDATE b = b + VALUES(b)`, `insert t into a,b values (?1 ?2) conflict() do b=+(b values(b))`},
		{`INSERT OR REPLACE INTO t VALUES (?1, ?2)`, `insert t values (?1 ?2) conflict() replace`},
		{`WITH x AS (SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) UPDATE jobs SET state = 'run' FROM x WHERE jobs.id = x.id RETURNING jobs.*`, `update jobs+x with x(select jobs cols id where =(state "new") lock skip) cols * set state="run" where =(jobs.id x.id)`},
		{`SELECT a.balance FROM orders o LEFT JOIN accounts a ON a.id = o.account_id WHERE o.id = $1 AND o.state IS NOT NULL`, `select orders+accounts cols balance where and(=(o.id $1) is not(o.state nil))`},
		{`DELETE FROM t WHERE id = ANY($1) AND created < now() - interval '1 day'`, `delete t where and(=(id any($1)) <(created -(now() interval("1 day"))))`},
		{`SELECT count(*), max(n), coalesce(sum(x), 0) AS total FROM t GROUP BY a HAVING count(*) > 1`, `select t cols count,max,total`},
		{`SELECT data->>'a' FROM t WHERE data ? 'k' -- the key` + "\n" + `AND x = ?`, `select t cols  where and(?(data "k") =(x ?1))`},
		{"UPDATE " + Hole + " SET state = $1 WHERE id = $2" + Hole, `update ? set state=$1 where =(id _) incomplete`},
		{"SELECT * FROM t WHERE a = 1 " + Hole + " ORDER BY " + Hole, `select t cols * where =(a 1) incomplete`},
		{"SELECT * FROM t" + Hole, `select t cols * incomplete`},
		{`SELECT EXISTS (SELECT FROM a t WHERE t.id = $1)`, `select  cols exists`},
		{`SELECT coalesce((SELECT (v#>>'{}')::boolean FROM s WHERE k = 'a'), false) AS x, ((SELECT 1) + 2)`, `select  cols x,`},
		{"SELECT " + Hole + " e.id, e.n FROM e", `select e cols ,id,n`},
		{`BEGIN ISOLATION LEVEL SERIALIZABLE`, `begin  iso serializable`},
		{`LOCK TABLE t IN SHARE ROW EXCLUSIVE MODE`, `lock t lock update`},
		{`SELECT CASE WHEN a > 1 THEN b ELSE c END, CAST(x AS numeric(10,2)), E'a\'b', $tag$x;y$tag$ FROM (SELECT * FROM inner_t) s`, `select inner_t cols case,x,,`},
		{`SELECT id FROM t WHERE (a, b) > ($1, $2) AND c BETWEEN 1 AND 2 OR NOT d`, `select t cols id where or(and(>(list(a b) list($1 $2)) between(c 1 2)) not(d))`},
	} {
		got, err := Parse(c.in)
		if err != nil || len(got) != 1 {
			t.Errorf("%s:\n%v %v", c.in, got, err)
			continue
		}
		if s := show(got[0]); s != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.in, s, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, in := range []string{`UPDATE t`, `SELECT 'open`, `INSERT INTO t (a`, `SELECT a FROM t WHERE`, `hello world`, `DELETE FROM t WHERE id = 1 1`} {
		if got, err := Parse(in); err == nil {
			t.Errorf("%s: %s", in, show(got[0]))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("SELECT a FROM t WHERE b = ? AND c IN (1,2)")
	f.Add("INSERT INTO t VALUES ($1) ON CONFLICT DO NOTHING; UPDATE x SET a=(SELECT 1)")
	f.Fuzz(func(t *testing.T, in string) {
		for _, s := range must(Parse(in)) {
			_ = show(s)
		}
	})
}

func must(s []*Stmt, _ error) []*Stmt { return s }

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Parse(`UPDATE accounts SET balance = balance - $1 WHERE id = $2 AND balance >= $1 RETURNING balance`); err != nil {
			b.Fatal(err)
		}
	}
}
