package postgres_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/gate/postgres"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/explain"
)

func analysedRig(t testing.TB) *rig {
	return newRig(t, func(c *postgres.Config) {
		a, err := explain.New(t.Context(), c.Admin)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Close() })
		c.Analyzer = a
	})
}

func modes(f explore.Footprint) []explore.Mode {
	var ms []explore.Mode
	for _, a := range f.Accesses {
		if a.Object == "accounts" {
			ms = append(ms, a.Mode)
		}
	}
	return ms
}

// Parameters reach the analysis in whatever format the driver sends them, and a
// transaction's COMMIT publishes what its steps have written.
func TestFootprints(t *testing.T) {
	r := analysedRig(t)
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		c := r.connect("default_query_exec_mode=" + mode)
		r.Hold(true)
		wait := r.async(func() error {
			return pgx.BeginFunc(r.ctx, c, func(tx pgx.Tx) error {
				_, err := tx.Exec(r.ctx, "UPDATE accounts SET balance = 0 WHERE id = $1", 1)
				return err
			})
		})
		r.step()
		update, _ := r.step()
		commit, _ := r.step()
		r.must(wait())
		r.Hold(false)
		if ms := modes(update.Footprint); update.Footprint.Unknown || !slices.Contains(ms, explore.Lock) || slices.Contains(ms, explore.Publish) ||
			!slices.Equal(update.Writes, []string{"accounts"}) || update.Quiet {
			t.Errorf("%s: update %+v", mode, update)
		}
		for _, a := range update.Footprint.Accesses {
			if a.Mode == explore.Lock && a.Where["id"] != "1" {
				t.Errorf("%s: the update is not restricted: %v", mode, a)
			}
		}
		if ms := modes(commit.Footprint); commit.Footprint.Unknown || !slices.Contains(ms, explore.Publish) {
			t.Errorf("%s: commit %+v", mode, commit)
		}
	}
}

// What ran while nothing was held is not known: the end of its transaction
// conflicts with everything. A transaction after it is known again.
func TestTransactionFromBeforeHolding(t *testing.T) {
	r := analysedRig(t)
	c := r.connect()
	_, err := c.Exec(r.ctx, "BEGIN; UPDATE accounts SET balance = 0 WHERE id = 1")
	r.must(err)
	r.Hold(true)
	for _, unknown := range []bool{true, false} {
		wait := execute(r, c, "COMMIT")
		s, _ := r.step()
		r.must(wait())
		if s.Footprint.Unknown != unknown {
			t.Errorf("commit %v, want unknown %t", s.Footprint, unknown)
		}
	}
}

// Where names are looked up is known from the start-up packet and from a SET
// that was executed while nothing was held.
func TestSearchPath(t *testing.T) {
	r := analysedRig(t)
	r.exec("DROP SCHEMA IF EXISTS other CASCADE; CREATE SCHEMA other; CREATE TABLE other.things (id int)")
	t.Cleanup(func() { r.exec("DROP SCHEMA other CASCADE") })
	set := r.connect()
	_, err := set.Exec(r.ctx, "SET search_path = other")
	r.must(err)
	for name, c := range map[string]*pgx.Conn{
		"parameter": r.connect("search_path=other"),
		"options":   r.connect(`options=-c search_path=public,\ other --work-mem=1MB`),
		"set":       set,
	} {
		r.Hold(true)
		wait := execute(r, c, "INSERT INTO things VALUES (1)")
		s, _ := r.step()
		r.must(wait())
		r.Hold(false)
		if s.Footprint.Unknown || !slices.Equal(s.Writes, []string{"other.things"}) {
			t.Errorf("%s: writes %v, %v", name, s.Writes, s.Footprint)
		}
	}
}

func TestQuietAndSplittable(t *testing.T) {
	r := analysedRig(t)
	c := r.connect()
	r.Hold(true)
	for sql, want := range map[string]struct{ quiet, splittable bool }{
		"SELECT 1":                     {quiet: true},
		"-- ping":                      {quiet: true},
		"SHOW work_mem":                {quiet: true},
		"SELECT balance FROM accounts": {},
		"INSERT INTO accounts SELECT 3, 3 WHERE NOT EXISTS (SELECT FROM accounts WHERE id = 3)": {splittable: true},
	} {
		wait := execute(r, c, sql)
		s, _ := r.step()
		r.must(wait())
		if s.Quiet != want.quiet || s.Splittable != want.splittable {
			t.Errorf("%s: quiet %t, splittable %t, want %+v (%v)", sql, s.Quiet, s.Splittable, want, s.Footprint)
		}
	}
}
