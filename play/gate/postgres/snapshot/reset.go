package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// vacuumEvery is after how many resets the tables that were dirty since the
// last time are vacuumed. A run and its reset leave a handful of dead rows;
// after some hundreds every scan of a small table is mostly over dead ones.
const vacuumEvery = 200

// ResetStats is what one reset did.
type ResetStats struct {
	// Tables is how many tables (partitions each) were compared.
	Tables int
	// Deleted and Inserted are the rows that differed; a changed row is both.
	Deleted, Inserted int64
	// Sequences is how many sequences had moved.
	Sequences int
	// Checked: the schema was compared; Vacuumed: tables were vacuumed.
	Checked, Vacuumed bool
	Took              time.Duration
}

// Reset restores the dirty tables (nil: all) and all sequences in one
// transaction and, once the statements are prepared, one round trip. A dirty
// name that Take did not see (a view, a table made since) makes it restore all
// tables and compare the schema; partitions and tables that inherit from a
// dirty table are dirty too.
//
// Errors: [*NeedTemplateError], [*BusyError], or what broke the connection.
func (s *Snapshot) Reset(ctx context.Context, dirty []string) (ResetStats, error) {
	began := time.Now()
	rels, unknown := s.schema.expand(dirty)
	s.resets++
	stats := ResetStats{Tables: len(rels), Checked: unknown || s.resets%s.opts.CheckEvery == 0}
	err := s.reset(ctx, rels, &stats)
	if err != nil {
		return stats, err
	}
	if s.resets%vacuumEvery == 0 {
		if err := s.vacuumDirty(ctx); err != nil {
			return stats, err
		}
		stats.Vacuumed = true
	}
	stats.Took = time.Since(began)
	return stats, nil
}

func (s *Snapshot) reset(ctx context.Context, rels []*relation, stats *ResetStats) error {
	batch, err := s.resetBatch(ctx, rels)
	if err != nil {
		return err
	}
	if stats.Checked {
		name, err := s.prepare(ctx, "fingerprint", 0, fingerprintHash)
		if err != nil {
			return s.explain(ctx, "", err)
		}
		batch.Queue(name)
	}
	// Everything up to the batch's only Sync is one transaction.
	res := s.conn.SendBatch(ctx, batch)
	failed := ""
	err = func() error {
		for _, r := range rels {
			failed = r.display
			del, err := res.Exec()
			if err != nil {
				return err
			}
			ins, err := res.Exec()
			if err != nil {
				return err
			}
			stats.Deleted += del.RowsAffected()
			stats.Inserted += ins.RowsAffected()
			if del.RowsAffected()+ins.RowsAffected() > 0 {
				s.vacuum[r] = true
			}
		}
		failed = ""
		return s.verify(res, rels, stats)
	}()
	var need *NeedTemplateError
	if cerr := res.Close(); err == nil || errors.As(err, &need) {
		err = errors.Join(err, cerr)
	}
	return s.explain(ctx, failed, err)
}

func (s *Snapshot) resetBatch(ctx context.Context, rels []*relation) (*pgx.Batch, error) {
	batch := new(pgx.Batch)
	queue := func(r *relation, what, sql string) error {
		name, err := s.prepare(ctx, what, r.oid, sql)
		if err != nil {
			return s.explain(ctx, r.display, err)
		}
		batch.Queue(name)
		return nil
	}
	for _, r := range rels {
		if err := queue(r, "delete", r.deleteSQL()); err != nil {
			return nil, err
		}
		if err := queue(r, "insert", r.insertSQL()); err != nil {
			return nil, err
		}
	}
	// Digests come after all changes: a trigger that fires in spite of
	// everything may have written to a table that was restored before.
	for _, r := range rels {
		if err := queue(r, "digest", r.digestSQL()); err != nil {
			return nil, err
		}
	}
	if s.seqReset != "" {
		name, err := s.prepare(ctx, "sequences", 0, s.seqReset)
		if err != nil {
			return nil, s.explain(ctx, "", err)
		}
		batch.Queue(name)
	}
	return batch, nil
}

// verify reads the digests, the sequences and the fingerprint.
func (s *Snapshot) verify(res pgx.BatchResults, rels []*relation, stats *ResetStats) error {
	wrong := ""
	for _, r := range rels {
		var now string
		if err := res.QueryRow().Scan(&now); err != nil {
			return fmt.Errorf("digest table %s: %w", r.display, err)
		}
		if now != r.digest && wrong == "" {
			wrong = r.display
		}
	}
	if s.seqReset != "" {
		tag, err := res.Exec()
		if err != nil {
			return fmt.Errorf("restore sequences: %w", err)
		}
		stats.Sequences = int(tag.RowsAffected())
	}
	if stats.Checked {
		var now string
		if err := res.QueryRow().Scan(&now); err != nil {
			return fmt.Errorf("compare the schema: %w", err)
		}
		if now != s.fpHash {
			return errSchemaChanged
		}
	}
	if wrong != "" {
		return &NeedTemplateError{Table: wrong}
	}
	return nil
}

var errSchemaChanged = errors.New("the schema has changed")

// explain turns the error of a reset into a typed one.
func (s *Snapshot) explain(ctx context.Context, table string, err error) error {
	var need *NeedTemplateError
	sqlstate := code(err)
	switch {
	case err == nil || errors.As(err, &need):
		return err
	case sqlstate == lockNotAvailable || sqlstate == deadlockDetected:
		return &BusyError{Table: table, Err: err}
	case errors.Is(err, errSchemaChanged):
		err = nil
	case sqlstate == "" || strings.HasPrefix(sqlstate, "53") || strings.HasPrefix(sqlstate, "57"):
		// No answer, no resources, or cut off: another database would not help.
		return fmt.Errorf("restore the database: %w", err)
	}
	// Whatever the server refused, a change of schema is the likely reason and
	// says more than the refusal.
	changes, ferr := s.schemaChanges(ctx)
	if err == nil && len(changes) == 0 {
		changes = []string{"its fingerprint was different for a moment"}
	}
	return &NeedTemplateError{Table: table, Changes: changes, Err: errors.Join(err, ferr)}
}

// vacuumAll vacuums and analyzes all tables; see [Take].
func (s *Snapshot) vacuumAll(ctx context.Context) error {
	return s.vacuumTables(ctx, "ANALYZE, ", s.schema.relations)
}

func (s *Snapshot) vacuumDirty(ctx context.Context) error {
	var rels []*relation
	for _, r := range s.schema.relations {
		if s.vacuum[r] {
			rels = append(rels, r)
		}
	}
	clear(s.vacuum)
	return s.vacuumTables(ctx, "", rels)
}

// vacuumTables skips what is locked and does not give pages back: for that it
// would wait for an exclusive lock.
func (s *Snapshot) vacuumTables(ctx context.Context, more string, rels []*relation) error {
	if len(rels) == 0 {
		return nil
	}
	names := make([]string, len(rels))
	for i, r := range rels {
		names[i] = r.ident
	}
	sql := "VACUUM (" + more + "SKIP_LOCKED, TRUNCATE false) " + strings.Join(names, ", ")
	if _, err := s.conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("vacuum the restored tables: %w", err)
	}
	return nil
}
