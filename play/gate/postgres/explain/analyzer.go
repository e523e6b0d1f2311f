package explain

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Statement is one statement of a step: the text of a simple Query, or one
// Execute with its bound parameters.
type Statement struct {
	SQL string
	// ParamOIDs are the parameters' types; 0 or missing where not known.
	ParamOIDs []uint32
	// Params are the raw values; nil is NULL. Formats are their format codes, as
	// in a Bind message.
	Params  [][]byte
	Formats []int16
	// Simple: the text may hold several statements.
	Simple bool
}

// Analyzer computes footprints for the connections to one database. It is safe
// for concurrent use.
type Analyzer struct {
	mu      sync.Mutex
	conn    *pgx.Conn
	cat     *catalog // nil: to be read
	path    string   // search_path that the side connection has now; "" is its default
	effects map[string]*effect
	// isolation is the server's default.
	isolation string
}

// settings make plans show what they can: conditions in index scans, and values
// instead of parameters.
const settings = `SET plan_cache_mode = force_custom_plan; SET enable_seqscan = off; SET enable_bitmapscan = off;
SET max_parallel_workers_per_gather = 0; SET jit = off; SET constraint_exclusion = partition; SET application_name = 'holdfast footprint'`

// New opens the analyser's own connection to the database.
func New(ctx context.Context, adminURL string) (*Analyzer, error) {
	conn, err := pgx.Connect(ctx, adminURL)
	if err != nil {
		return nil, fmt.Errorf("connect for the analysis of statements: %w", err)
	}
	a := &Analyzer{conn: conn, effects: map[string]*effect{}}
	if _, err = conn.Exec(ctx, settings, pgx.QueryExecModeSimpleProtocol); err == nil {
		err = conn.QueryRow(ctx, "SHOW default_transaction_isolation").Scan(&a.isolation)
	}
	if err != nil {
		conn.Close(ctx)
		return nil, fmt.Errorf("prepare the analysis of statements: %w", err)
	}
	return a, nil
}

// Close ends the analyser's connection.
func (a *Analyzer) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.conn.Close(context.Background())
}

// Invalidate forgets everything about the schema. It is called after DDL.
func (a *Analyzer) Invalidate() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cat = nil
	clear(a.effects)
}

// maxEffects bounds the cache; a program that never repeats a statement must not
// fill the memory.
const maxEffects = 10_000

// effect of one statement outside of any transaction, from the cache or the
// server.
func (a *Analyzer) effect(ctx context.Context, s Statement, p piece, path string) *effect {
	key := cacheKey(s, p.sql, path)
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.effects[key]; e != nil {
		return e
	}
	e := a.explain(ctx, s, p, path)
	if ctx.Err() != nil {
		return e
	}
	if len(a.effects) >= maxEffects {
		clear(a.effects)
	}
	a.effects[key] = e
	return e
}

func cacheKey(s Statement, sql, path string) string {
	var b strings.Builder
	b.WriteString(path)
	b.WriteByte(0)
	b.WriteString(sql)
	b.WriteByte(0)
	var n [8]byte
	for _, o := range s.ParamOIDs {
		binary.LittleEndian.PutUint32(n[:4], o)
		b.Write(n[:4])
	}
	for _, f := range s.Formats {
		b.WriteByte(byte(f))
	}
	for _, v := range s.Params {
		binary.LittleEndian.PutUint64(n[:], uint64(len(v)))
		if v == nil {
			n[7] = 0xff
		}
		b.Write(n[:])
		b.Write(v)
	}
	return b.String()
}

// explain asks the planner. The statement is not run.
func (a *Analyzer) explain(ctx context.Context, s Statement, p piece, path string) *effect {
	fail := func(what string, err error) *effect {
		return &effect{unknown: fmt.Sprintf("%s: %v", what, err), snapshot: true}
	}
	if err := a.load(ctx); err != nil {
		return fail("the catalog", err)
	}
	if path != a.path {
		set := "RESET search_path"
		if path != "" {
			set = "SET search_path = " + path
		}
		if _, err := a.conn.Exec(ctx, set, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fail("the search_path", err)
		}
		a.path = path
	}
	res := a.conn.PgConn().ExecParams(ctx, "EXPLAIN (VERBOSE, FORMAT JSON, COSTS OFF) "+p.sql, s.Params, s.ParamOIDs, s.Formats, nil).Read()
	if res.Err != nil {
		return fail("the planner refuses it", res.Err)
	}
	if len(res.Rows) != 1 || len(res.Rows[0]) != 1 {
		return &effect{unknown: "the planner gives no plan", snapshot: true}
	}
	return a.cat.read(res.Rows[0][0], p.toks)
}

// load reads the catalog where that has not been done since the last change of
// the schema.
func (a *Analyzer) load(ctx context.Context) (err error) {
	if a.cat == nil {
		a.cat, err = loadCatalog(ctx, a.conn)
	}
	return err
}
