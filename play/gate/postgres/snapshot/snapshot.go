// Package snapshot brings a PostgreSQL database back to a recorded state,
// thousands of times and fast, and reads what a run has left in it.
//
// # Model
//
// [Take] copies every user table into the schema _holdfast_snapshot of the
// same database (unlogged tables) and keeps in memory a digest of each table,
// the state of each sequence, a fingerprint of the schema and the rows as
// text. [Snapshot.Reset] compares the tables that a run may have changed with
// their copies and touches only the rows that differ. [Snapshot.Observe] gives
// the content of all tables; it reads only those that may have changed.
//
// A digest is the number of rows and two sums of 64-bit hashes (with different
// seeds) of the rows' text: the order of rows plays no part, a row that is
// there twice counts twice (under XOR the two would cancel out).
//
// # Promise
//
// A Reset that returns nil has put the named tables, and all sequences, into
// the recorded state; it has verified that by digest in the same transaction,
// independently of the copies. It does not fire triggers, rules or foreign
// keys. When the state can not be restored row by row (the schema was
// changed, or the digest differs), the error is a [*NeedTemplateError]: make
// the database anew from a template and call Take again.
//
// # Limits
//
// The connection must be allowed to set session_replication_role (a superuser
// is); else Take fails with [*PrivilegeError]. There is no slower way around:
// without that right user triggers would write during a reset.
//
// Materialized views, foreign tables and large objects are not restored, and
// temporary tables are not seen; [Snapshot.Notes] names what is there. A
// trigger that is enabled ALWAYS or for REPLICA does fire. Values that
// sequences with CACHE > 1 have handed to sessions stay there. The schema is
// compared every Options.CheckEvery resets and by [Snapshot.CheckSchema]; in
// between, a change of schema that neither fails a statement nor changes a
// digest goes unnoticed.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/play/oracle"
)

const (
	// Schema has the copies. Holdfast's own schema and this one are no part of
	// the recorded state.
	Schema = "_holdfast_snapshot"
	// ownSchema is where other parts of Holdfast keep their functions; triggers
	// that call them are no part of the fingerprint.
	ownSchema = "_holdfast"

	defaultLargeRows   = 50_000
	defaultCheckEvery  = 100
	defaultLockTimeout = 5 * time.Second
)

// Options say what to keep and what to observe. The zero value is useful.
type Options struct {
	// Exclude names tables ("audit", "billing.audit") and columns
	// ("accounts.updated_at") that Observe leaves out. They are restored all
	// the same. A name that does not exist is an error.
	Exclude []string
	// LargeRows is the number of rows from which on a table's rows are not kept
	// in memory; Observe then gives only the rows that differ from the recorded
	// state. 0: 50,000.
	LargeRows int
	// CheckEvery is after how many resets the schema is compared (1 to 3 ms).
	// 0: 100.
	CheckEvery int
	// LockTimeout is how long a reset waits for a lock that another session
	// holds before it fails with [*BusyError]. 0: 5 s.
	LockTimeout time.Duration
}

// Snapshot is a recorded state. It belongs to one connection, whose session
// settings Take has changed, and is used by one goroutine at a time. The
// application must be at rest during every call: without open transactions.
type Snapshot struct {
	conn      *pgx.Conn
	opts      Options
	schema    schema
	prepared  map[string]bool
	resets    int
	vacuum    map[*relation]bool
	notes     []string
	seqStuck  bool
	fpHash    string
	fpLines   []string
	seqReset  string
	seqMoving string
}

// Take records the state of the database that conn is connected to. It drops
// the copies of an earlier Take, and vacuums and analyzes the tables, so that
// plans are made from the same statistics in all runs.
func Take(ctx context.Context, conn *pgx.Conn, o Options) (*Snapshot, error) {
	if o.LargeRows <= 0 {
		o.LargeRows = defaultLargeRows
	}
	if o.CheckEvery <= 0 {
		o.CheckEvery = defaultCheckEvery
	}
	if o.LockTimeout <= 0 {
		o.LockTimeout = defaultLockTimeout
	}
	s := &Snapshot{conn: conn, opts: o, prepared: map[string]bool{}, vacuum: map[*relation]bool{}}
	if err := s.configure(ctx); err != nil {
		return nil, err
	}
	if err := s.take(ctx); err != nil {
		return nil, fmt.Errorf("record the state of the database: %w", err)
	}
	return s, nil
}

func (s *Snapshot) take(ctx context.Context) (err error) {
	// All that is recorded comes from one moment.
	if _, err := s.conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ"); err != nil {
		return err
	}
	defer func() {
		if err != nil && !s.conn.IsClosed() {
			_, rerr := s.conn.Exec(ctx, "ROLLBACK")
			err = errors.Join(err, rerr)
		}
	}()
	if err := s.loadSchema(ctx); err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	if err := s.exclude(); err != nil {
		return err
	}
	if err := s.copyTables(ctx); err != nil {
		return err
	}
	if err := s.recordSequences(ctx); err != nil {
		return fmt.Errorf("read the sequences: %w", err)
	}
	if s.fpLines, err = s.readLines(ctx); err != nil {
		return fmt.Errorf("read the schema's fingerprint: %w", err)
	}
	if s.fpHash, err = s.readHash(ctx); err != nil {
		return fmt.Errorf("read the schema's fingerprint: %w", err)
	}
	if err := s.recordRows(ctx); err != nil {
		return err
	}
	if _, err := s.conn.Exec(ctx, "COMMIT"); err != nil {
		return err
	}
	return s.vacuumAll(ctx)
}

// copyTables fills the schema with the copies and records the digests.
func (s *Snapshot) copyTables(ctx context.Context) error {
	var b strings.Builder
	fmt.Fprintf(&b, "DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %s;\n", Schema, Schema)
	for _, r := range s.schema.relations {
		fmt.Fprintf(&b, "CREATE UNLOGGED TABLE %s AS %s;\nANALYZE %s;\n", r.copy, r.copySQL(), r.copy)
	}
	if _, err := s.conn.PgConn().Exec(ctx, b.String()).ReadAll(); err != nil {
		return fmt.Errorf("copy the tables into schema %s: %w", Schema, err)
	}
	for _, r := range s.schema.relations {
		if err := s.conn.QueryRow(ctx, r.digestSQL(), pgx.QueryExecModeExec).Scan(&r.digest); err != nil {
			return fmt.Errorf("digest table %s: %w", r.display, err)
		}
	}
	return nil
}

// recordRows keeps the rows of the tables that are not too large for that.
func (s *Snapshot) recordRows(ctx context.Context) error {
	for _, t := range s.schema.tables {
		rows := 0
		for _, r := range t.parts {
			rows += r.digestRows()
		}
		if rows > s.opts.LargeRows {
			t.large = true
			s.notes = append(s.notes, fmt.Sprintf("table %s has %d rows: only the rows that a run changes are observed", t.name, rows))
		}
		t.prepareObservation()
		if t.large || t.excluded {
			continue
		}
		res, err := s.conn.Query(ctx, t.observeSQL, pgx.QueryExecModeExec)
		if err != nil {
			return fmt.Errorf("read table %s: %w", t.name, err)
		}
		if t.rows, err = readRows(res); err != nil {
			return fmt.Errorf("read table %s: %w", t.name, err)
		}
	}
	return nil
}

// Tables names all tables that Reset restores. A partitioned table is one
// table, under the name of its root. The name is "table" in schema public,
// else "schema.table".
func (s *Snapshot) Tables() []string {
	names := make([]string, len(s.schema.tables))
	for i, t := range s.schema.tables {
		names[i] = t.name
	}
	return names
}

// Notes say what in the database is not restored, or observed only in part.
func (s *Snapshot) Notes() []string { return slices.Clone(s.notes) }

// Observe reads the content of all tables that are not excluded, sorted by
// name, the rows by primary key where there is one. Only the dirty tables
// (nil: all) are read; the others are taken from memory, so they must not have
// been changed. A dirty name that Take did not see (a view, a new table) makes
// all tables dirty. The result shares memory with the Snapshot and must not be
// changed.
//
// A table with more than Options.LargeRows rows is given by its differences
// from the recorded state: a first column "(change)", part of the key, says
// "added" or "removed". Two runs leave such a table in the same state exactly
// if their differences are the same.
func (s *Snapshot) Observe(ctx context.Context, dirty []string) ([]oracle.Table, error) {
	rels, _ := s.schema.expand(dirty)
	touched := map[*relation]bool{}
	for _, r := range rels {
		touched[r] = true
	}
	var out []oracle.Table
	var read []int // indexes in out
	batch := new(pgx.Batch)
	for _, t := range s.schema.tables {
		if t.excluded {
			continue
		}
		out = append(out, oracle.Table{Name: t.name, Columns: t.seen, Key: t.seenKey, Rows: t.rows})
		if slices.ContainsFunc(t.parts, func(r *relation) bool { return touched[r] }) {
			read = append(read, len(out)-1)
			name, err := s.prepare(ctx, "observe", t.oid, t.observeSQL)
			if err != nil {
				return nil, fmt.Errorf("observe table %s: %w", t.name, err)
			}
			batch.Queue(name)
		}
	}
	res := s.conn.SendBatch(ctx, batch)
	for _, i := range read {
		rows, err := res.Query()
		if err == nil {
			out[i].Rows, err = readRows(rows)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("observe table %s: %w", out[i].Name, err), res.Close())
		}
	}
	if err := res.Close(); err != nil {
		return nil, fmt.Errorf("observe tables: %w", err)
	}
	return out, nil
}

// readRows reads a result whose columns are all of type text.
func readRows(res pgx.Rows) ([][]*string, error) {
	defer res.Close()
	var out [][]*string
	for res.Next() {
		raw := res.RawValues()
		values := make([]string, len(raw))
		row := make([]*string, len(raw))
		for i, v := range raw {
			if v != nil {
				values[i] = string(v)
				row[i] = &values[i]
			}
		}
		out = append(out, row)
	}
	return out, res.Err()
}

// Changed names the tables whose content differs from the recorded state now:
// after a run, those that it changed, announced or not. It reads every table.
func (s *Snapshot) Changed(ctx context.Context) ([]string, error) {
	batch := new(pgx.Batch)
	for _, r := range s.schema.relations {
		name, err := s.prepare(ctx, "digest", r.oid, r.digestSQL())
		if err != nil {
			return nil, fmt.Errorf("digest table %s: %w", r.display, err)
		}
		batch.Queue(name)
	}
	changed := map[*relation]bool{}
	res := s.conn.SendBatch(ctx, batch)
	for _, r := range s.schema.relations {
		var now string
		if err := res.QueryRow().Scan(&now); err != nil {
			return nil, errors.Join(fmt.Errorf("digest table %s: %w", r.display, err), res.Close())
		}
		changed[r] = now != r.digest
	}
	if err := res.Close(); err != nil {
		return nil, fmt.Errorf("digest the tables: %w", err)
	}
	var names []string
	for _, t := range s.schema.tables {
		if slices.ContainsFunc(t.parts, func(r *relation) bool { return changed[r] }) {
			names = append(names, t.name)
		}
	}
	return names, nil
}

// prepare prepares a statement on first use and gives its name.
func (s *Snapshot) prepare(ctx context.Context, what string, oid uint32, sql string) (string, error) {
	name := fmt.Sprintf("holdfast_%s_%d", what, oid)
	if s.prepared[name] {
		return name, nil
	}
	if _, err := s.conn.Prepare(ctx, name, sql); err != nil {
		return "", err
	}
	s.prepared[name] = true
	return name, nil
}
