package report

import (
	"slices"
	"strings"
	"testing"
)

func TestCellWidth(t *testing.T) {
	for s, want := range map[string]int{
		"": 0, "abc": 3, "東京": 4, "e\u0301": 1, "é": 1, "ｱ": 1, "Ａ": 2, "😀": 2, "한": 2, "\u1112\u1161\u11ab": 2,
		"a\u200bb": 2, "…→┆✗": 4, "\x1b": 0, "❤\ufe0f": 1,
	} {
		if got := cellWidth(s); got != want {
			t.Errorf("%q has %d cells, want %d", s, got, want)
		}
	}
}

func TestCutAndWrap(t *testing.T) {
	s := "SELECT 東京, e\u0301t\u0301 FROM タワー WHERE x"
	for n := 1; n < 40; n++ {
		if c := cut(s, n); cellWidth(c) > n || cellWidth(s) > n && !strings.HasSuffix(c, ellipsis) {
			t.Errorf("cut to %d: %q", n, c)
		}
		lines := wrap(s, n, 0)
		for _, l := range lines {
			if cellWidth(l) > max(n, 2) || strings.HasPrefix(l, "\u0301") {
				t.Errorf("wrapped to %d: %q", n, lines)
			}
		}
		drop := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if drop(strings.Join(lines, "")) != drop(s) {
			t.Errorf("wrapping to %d lost text: %q", n, lines)
		}
		if l := wrap(s, n, 2); len(l) > 2 || len(lines) > 2 && !strings.HasSuffix(l[1], ellipsis) {
			t.Errorf("wrapped to 2 lines of %d: %q", n, l)
		}
	}
}

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{
		"SELECT\n\t 1 ": "SELECT 1", "\x1b[31mred": "\ufffd[31mred", "a\u202eb": "a\ufffdb",
		"\xff": "\ufffd", "a\ufffeb": "a\ufffdb", "\u0085x": "x", "a\u009bb": "a\ufffdb",
	} {
		if got := printable(s); got != want {
			t.Errorf("%q printed as %q, want %q", s, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		sql  string
		n    int
		want string
	}{
		{"SELECT 1", 10, "SELECT 1"},
		{"select id, balance, (select max(x) from y) from accounts where id = 1", 40, "select … from accounts where id = 1"},
		{"SELECT ' FROM x', y FROM accounts", 22, "SELECT … FROM accounts"},
		{"INSERT INTO t (a, b, c) VALUES (1, 2, 3)", 36, "INSERT INTO t (…) VALUES (1, 2, 3)"},
		{"UPDATE accounts SET balance = 90, updated_at = now() WHERE id = 1", 40, "UPDATE accounts SET … WHERE id = 1"},
		{"… its effect: INSERT INTO t (a, b, c) VALUES (1, 2, 3)", 50, "… its effect: INSERT INTO t (…) VALUES (1, 2, 3)"},
		{strings.Repeat("x", 50), 10, "xxxxxxxxx…"},
	} {
		if got := shorten(c.sql, c.n); got != c.want {
			t.Errorf("%q in %d cells: %q, want %q", c.sql, c.n, got, c.want)
		}
	}
	long := longSQL().Findings[0].Rows[2].Step
	for n := 4; n < 300; n++ {
		if got := shorten(long, n); cellWidth(got) > n {
			t.Errorf("%d cells for %d: %q", cellWidth(got), n, got)
		}
		got := shortenLines(long, n, 3)
		if len(got) > 3 || slices.ContainsFunc(got, func(l string) bool { return cellWidth(l) > n }) {
			t.Errorf("3 lines of %d: %q", n, got)
		}
	}
}
