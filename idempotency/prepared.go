package idempotency

import (
	"context"
	"database/sql"
	"sync"

	"github.com/holdfast-dev/holdfast/guard"
)

// prepared keeps the statements of one Keys prepared. database/sql compiles a
// text on each call otherwise, and MySQL's driver makes three round trips of
// that. They live as long as the database.
type prepared struct {
	db      *sql.DB
	queries []string

	mu sync.Mutex
	m  map[string]*sql.Stmt
}

// prepare comes before a transaction: with one connection only there would be
// none left for it.
func (p *prepared) prepare(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queries {
		if p.m[q] != nil {
			continue
		}
		s, err := p.db.PrepareContext(ctx, q)
		if err != nil {
			return err
		}
		if p.m == nil {
			p.m = map[string]*sql.Stmt{}
		}
		p.m[q] = s
	}
	return nil
}

func (p *prepared) known(query string) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.m[query]
}

// preparedHandle uses prepared statements where there are some, in a transaction
// or, if tx is nil, on the database.
type preparedHandle struct {
	guard.Handle
	p  *prepared
	tx *sql.Tx
}

func (h preparedHandle) statement(ctx context.Context, query string) *sql.Stmt {
	s := h.p.known(query)
	if s == nil || h.tx == nil {
		return s
	}
	return h.tx.StmtContext(ctx, s)
}

func (h preparedHandle) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	s := h.statement(ctx, query)
	if s == nil {
		return h.Handle.Exec(ctx, query, args...)
	}
	r, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (h preparedHandle) QueryRow(ctx context.Context, query string, args ...any) guard.Row {
	s := h.statement(ctx, query)
	if s == nil {
		return h.Handle.QueryRow(ctx, query, args...)
	}
	return s.QueryRowContext(ctx, args...)
}
