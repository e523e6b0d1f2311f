package report

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/oracle"
)

// The notation of explore.Footprint.String is read back as it was.
func TestParseTouch(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	objects := []string{"accounts", "public.accounts", "file /data/a b.txt", "東京"}
	values := []string{"1", "SPRING", "two words", "a, b", "", "[x]", "é"}
	for range 2000 {
		var f explore.Footprint
		for range 1 + rnd.IntN(4) {
			a := explore.Access{Mode: explore.Mode(rnd.IntN(6)), Object: objects[rnd.IntN(len(objects))]}
			for i := range rnd.IntN(3) {
				if a.Where == nil {
					a.Where = map[string]string{}
				}
				a.Where[[]string{"id", "user_id"}[i]] = values[rnd.IntN(len(values))]
			}
			if rnd.IntN(3) == 0 {
				a.From, a.To = int64(rnd.IntN(9)), int64(10+rnd.IntN(9))
			}
			f.Accesses = append(f.Accesses, a)
		}
		if got := parseTouch(f.String()); !reflect.DeepEqual(got, f.Accesses) {
			t.Fatalf("%s\nread as %v\nwant    %v", f, got, f.Accesses)
		}
	}
	for _, s := range []string{"", "anything (no parser)", "reads accounts", "balance, read accounts"} {
		if got := parseTouch(s); got != nil {
			t.Errorf("%q read as %v", s, got)
		}
	}
}

// show writes what analyse found in short: links and spans by row numbers.
func show(a analysis) string {
	var parts []string
	for _, l := range a.links {
		parts = append(parts, fmt.Sprintf("%s %d>%d", []string{"missed", "over", "seen", "waits"}[l.kind], l.from+1, l.to+1))
	}
	for _, s := range a.spans {
		parts = append(parts, fmt.Sprintf("%s %d-%d", []string{"holds", "blocked", "stopped"}[s.kind], s.from+1, s.to+1))
	}
	return strings.Join(parts, ", ")
}

func TestAnalyse(t *testing.T) {
	// dirty: A writes two rows in two transactions, B reads between them.
	dirty := &Report{Actors: make([]Actor, 3), Findings: []Finding{{Kind: oracle.PartialEffect, Rows: []Row{
		step(0, "UPDATE a", "", "write a[id=1]"),
		step(1, "SELECT", "", "read a[id=1], read a[id=2]"),
		step(0, "UPDATE a", "", "write a[id=2]"),
	}}}}
	// rolled: as a lost update, but A's write is rolled back, and what
	// it commits later is another row.
	rolled := &Report{Actors: make([]Actor, 3), Findings: []Finding{{Kind: oracle.LostUpdate, Rows: []Row{
		step(1, "SELECT", "", "read a[id=1]"),
		step(0, "UPDATE a", "", "lock a[id=1]"),
		step(0, "ROLLBACK", "", "unlock a[id=1]"),
		step(0, "UPDATE a", "", "lock a[id=2]"),
		step(0, "COMMIT", "", "publish a"),
		step(1, "UPDATE a", "", "write a[id=1]"),
	}}}}
	// locking: a SELECT FOR UPDATE is no write, and its lock is held to the end.
	locking := &Report{Actors: make([]Actor, 3), Findings: []Finding{{Kind: oracle.LostUpdate, Rows: []Row{
		step(1, "SELECT", "", "read a[id=1]"),
		step(0, "SELECT balance FROM a WHERE id = 1 FOR UPDATE", "", "lock a[id=1]"),
		step(0, "UPDATE a", "", "lock a[id=1]"),
		step(0, "COMMIT", "", "publish a[id=1]"),
		step(1, "UPDATE a", "", "write a[id=1]"),
	}}}}
	// ring: three actors, each reads what the next one writes.
	ring := &Report{Actors: make([]Actor, 3), Findings: []Finding{{Kind: oracle.WriteSkew, Rows: []Row{
		step(0, "SELECT", "", "read x"), step(1, "SELECT", "", "read y"), step(2, "SELECT", "", "read z"),
		step(0, "UPDATE", "", "write z"), step(1, "UPDATE", "", "write x"), step(2, "UPDATE", "", "write y"),
	}}}}
	// serial: everything one after the other; nothing to explain.
	serial := &Report{Actors: make([]Actor, 3), Findings: []Finding{{Kind: oracle.WriteSkew, Rows: []Row{
		step(0, "SELECT", "", "read a[id=1]"), step(0, "UPDATE", "", "write a[id=1]"),
		step(1, "SELECT", "", "read a[id=1]"), step(1, "UPDATE", "", "write a[id=1]"),
	}}}}
	// victim: both are blocked, and the one that goes on first goes on to fail.
	victim := &Report{Actors: make([]Actor, 3), Findings: []Finding{{Kind: oracle.Deadlock, Rows: []Row{
		step(0, "UPDATE a", "", "lock a[id=1]"), step(1, "UPDATE a", "", "lock a[id=2]"),
		of(RowBlocked, step(0, "UPDATE a", "waits for B", "lock a[id=2]")),
		of(RowBlocked, step(1, "UPDATE a", "waits for A", "lock a[id=1]")),
		of(RowWoke, step(1, "UPDATE a", "goes on: ERROR 40P01: deadlock detected", "lock a[id=1]")),
		of(RowWoke, step(0, "UPDATE a", "goes on: UPDATE 1", "lock a[id=2]")),
		response(1, "500"), step(0, "COMMIT", "", "publish a[id=1], publish a[id=2]"),
	}}}}
	unknown := lostUpdate()
	for i := range unknown.Findings[0].Rows {
		unknown.Findings[0].Rows[i].Touch = "anything (no parser)"
	}
	for _, c := range []struct {
		name string
		r    *Report
		want string
	}{
		{"lost update", lostUpdate(), "missed 7>6, over 7>10, holds 7-9, holds 10-12, blocked 8-10"},
		{"deadlock", deadlock(), "waits 7>6, waits 8>4, holds 4-11, holds 6-8, blocked 7-9"},
		{"victim that waited", victim, "waits 3>2, waits 4>1, holds 1-8, holds 2-7, blocked 3-6, blocked 4-5"},
		{"inside", inside(), "missed 5>4, over 5>7, stopped 3-5, stopped 4-7"},
		{"write skew", threeActors(), "missed 9>4, missed 6>5"},
		{"partial effect", dirty, "seen 1>2, missed 3>2"},
		{"rolled back", rolled, "holds 2-3, holds 4-5"},
		{"locking read", locking, "missed 3>1, over 3>5, holds 2-4"},
		{"ring of three", ring, "missed 5>1, missed 6>2, missed 4>3"},
		{"serial", serial, ""},
		{"unknown footprints", unknown, "blocked 8-10"},
	} {
		got := analyse(c.r, &c.r.Findings[0])
		if s := show(got); s != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, s, c.want)
		}
		if (got.why == "") != (len(got.links) == 0) {
			t.Errorf("%s: %d links and the words %q", c.name, len(got.links), got.why)
		}
	}
}
