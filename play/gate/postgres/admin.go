package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// adminConn is one of the gate's own connections, with its statements prepared
// when it is opened. It opens when first used, and anew after it was lost.
type adminConn struct {
	url        string
	statements map[string]string

	mu   sync.Mutex
	conn *pgconn.PgConn
}

// open connects if there is no connection.
func (a *adminConn) open(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.openLocked(ctx)
}

func (a *adminConn) openLocked(ctx context.Context) error {
	if a.conn != nil && !a.conn.IsClosed() {
		return nil
	}
	conn, err := connectAdmin(ctx, a.url)
	if err != nil {
		return err
	}
	for name, sql := range a.statements {
		if _, err := conn.Prepare(ctx, name, sql, nil); err != nil {
			closeAdmin(conn)
			return fmt.Errorf("prepare the gate's statement %q: %w", name, err)
		}
	}
	a.conn = conn
	return nil
}

func connectAdmin(ctx context.Context, url string) (*pgconn.PgConn, error) {
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the gate's connection URL: %w", err)
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "holdfast"
	}
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the gate's own connection to PostgreSQL: %w", err)
	}
	return conn, nil
}

func closeAdmin(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), sideTimeout)
	defer cancel()
	conn.Close(ctx)
}

// query runs a prepared statement with text parameters and gives text rows.
func (a *adminConn) query(ctx context.Context, name string, params ...string) ([][][]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.openLocked(ctx); err != nil {
		return nil, err
	}
	raw := make([][]byte, len(params))
	for i, p := range params {
		raw[i] = []byte(p)
	}
	r := a.conn.ExecPrepared(ctx, name, raw, nil, nil).Read()
	return r.Rows, r.Err
}

func (a *adminConn) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn != nil {
		closeAdmin(a.conn)
		a.conn = nil
	}
}

// watcher looks at locks and ends backends.
//
// Whether a backend waits is read from pg_locks: "granted" is exact, while
// wait_event may still say Lock after the grant. pg_blocking_pids stops all
// lock traffic of the server while it looks, so it is asked only for a wait
// that has been found, never in the query that is polled.
type watcher struct{ adminConn }

var watchStatements = map[string]string{
	"waiting": `SELECT DISTINCT pid FROM pg_catalog.pg_locks
		WHERE NOT granted AND pid = ANY ($1::int[])
		AND NOT (locktype = 'advisory' AND classid = ` + splitClass + ` AND objsubid = 2)`,
	"blocking":  `SELECT p, pg_catalog.pg_blocking_pids(p) FROM pg_catalog.unnest($1::int[]) p`,
	"terminate": `SELECT pg_catalog.pg_terminate_backend(p) FROM pg_catalog.unnest($1::int[]) p`,
}

// blocked is a backend that waits, and the backends it waits for.
type blocked struct {
	pid uint32
	by  []uint32
}

func (w *watcher) waiting(ctx context.Context, pids map[uint32]uint64) ([]blocked, error) {
	list := make([]uint32, 0, len(pids))
	for pid := range pids {
		list = append(list, pid)
	}
	rows, err := w.query(ctx, "waiting", intArray(list))
	if err != nil {
		return nil, fmt.Errorf("look for backends that wait for a lock: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	list = list[:0]
	for _, r := range rows {
		list = append(list, ints(r[0])...)
	}
	rows, err = w.query(ctx, "blocking", intArray(list))
	if err != nil {
		return nil, fmt.Errorf("look for the backends that hold a lock: %w", err)
	}
	out := make([]blocked, 0, len(rows))
	for _, r := range rows {
		for _, pid := range ints(r[0]) {
			out = append(out, blocked{pid, ints(r[1])})
		}
	}
	return out, nil
}

func (w *watcher) terminate(ctx context.Context, pids []uint32) error {
	if _, err := w.query(ctx, "terminate", intArray(pids)); err != nil {
		return fmt.Errorf("end the backends %v: %w", pids, err)
	}
	return nil
}

func intArray(ns []uint32) string {
	s := make([]string, len(ns))
	for i, n := range ns {
		s[i] = strconv.FormatUint(uint64(n), 10)
	}
	return "{" + strings.Join(s, ",") + "}"
}

// ints reads "1" or "{1,2}".
func ints(raw []byte) []uint32 {
	var out []uint32
	for s := range strings.SplitSeq(strings.Trim(string(raw), "{}"), ",") {
		if n, err := strconv.ParseUint(s, 10, 32); err == nil {
			out = append(out, uint32(n))
		}
	}
	return out
}
