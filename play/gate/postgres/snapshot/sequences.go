package snapshot

import (
	"context"
	"fmt"
	"strings"
)

const sequencesQuery = `
SELECT n.nspname, c.relname, q.seqincrement, q.seqmin, q.seqmax
FROM pg_sequence q JOIN pg_class c ON c.oid = q.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relpersistence <> 't' AND ` + userNamespace + `
ORDER BY n.nspname, c.relname`

// recordSequences keeps each sequence's state and makes the two statements
// that move them.
func (s *Snapshot) recordSequences(ctx context.Context) error {
	var schema, name string
	var q sequence
	err := s.rows(ctx, sequencesQuery, []any{&schema, &name, &q.increment, &q.min, &q.max}, func() {
		s.schema.sequences = append(s.schema.sequences,
			&sequence{ident: quote(schema, name), increment: q.increment, min: q.min, max: q.max})
	})
	if err != nil || len(s.schema.sequences) == 0 {
		return err
	}
	for _, q := range s.schema.sequences {
		if err := s.conn.QueryRow(ctx, "SELECT last_value, is_called FROM "+q.ident).Scan(&q.last, &q.called); err != nil {
			return fmt.Errorf("sequence %s: %w", q.ident, err)
		}
	}
	var reset, move []string
	for i, q := range s.schema.sequences {
		regclass := literal(q.ident) + "::regclass"
		reset = append(reset, fmt.Sprintf("SELECT setval(%s, '%d', %t) FROM %s WHERE last_value <> '%d' OR is_called <> %t",
			regclass, q.last, q.called, q.ident, q.last, q.called))
		// Numeric: near the end of bigint the sum itself would overflow.
		move = append(move, fmt.Sprintf("SELECT setval(%s, (last_value + $1::numeric * '%d')::bigint, is_called) FROM %s "+
			"WHERE last_value + $1::numeric * '%d' BETWEEN '%d' AND '%d'",
			regclass, q.increment*int64(i+1), q.ident, q.increment*int64(i+1), q.min, q.max))
	}
	s.seqReset = strings.Join(reset, " UNION ALL ")
	s.seqMoving = strings.Join(move, " UNION ALL ")
	return nil
}

// AdvanceSequences moves the first sequence on by so many of its own steps, the
// second by twice as many, and so on: were two to move together, it could not be
// told from which of them a value comes. Two runs that are identical but for this
// then differ exactly in what comes from sequences. A sequence that would pass its end stays where it is, and Notes
// says so. The next Reset takes the sequences back.
func (s *Snapshot) AdvanceSequences(ctx context.Context, by int64) error {
	if s.seqMoving == "" || by == 0 {
		return nil
	}
	name, err := s.prepare(ctx, "advance", 0, s.seqMoving)
	if err != nil {
		return fmt.Errorf("advance the sequences: %w", err)
	}
	tag, err := s.conn.Exec(ctx, name, by)
	if err != nil {
		return fmt.Errorf("advance the sequences by %d: %w", by, err)
	}
	if stuck := len(s.schema.sequences) - int(tag.RowsAffected()); stuck > 0 && !s.seqStuck {
		s.seqStuck = true
		s.notes = append(s.notes, fmt.Sprintf("%d sequence(s) are less than %d steps from their end: what comes from them "+
			"looks the same in repeated serial runs", stuck, by))
	}
	return nil
}
