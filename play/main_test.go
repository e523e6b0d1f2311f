package play_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/play/gate/file"
)

// The test binary is also the application under test: with testApp set in its
// environment it serves one of the variants below instead of running tests.
const testApp = "HOLDFAST_TEST_APP"

func TestMain(m *testing.M) {
	file.ShimMain(os.Args)
	if variant := os.Getenv(testApp); variant != "" {
		if err := serveApp(variant); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if variant := os.Getenv(testFiles); variant != "" {
		if err := serveOrders(variant); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// counterApp adds to counters in as many ways as there are traps for the player.
type counterApp struct {
	pool *pgxpool.Pool
	mu   sync.Mutex
	// served counts answers, in memory: state that no reset brings back.
	served int
}

func serveApp(variant string) error {
	ctx := context.Background()
	cfg, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	if variant == "pool-of-one" {
		cfg.MaxConns = 1
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	a := &counterApp{pool: pool}
	mux := http.NewServeMux()
	for route, h := range map[string]func(context.Context, string) (int, error){
		"racy": a.racy, "mutex": a.mutex, "pool-of-one": a.inTx, "background": a.racy, "serializable": a.serializable,
		"retry": a.retry, "remembers": a.remembers, "crash": a.crash, "two-at-once": a.twoAtOnce, "late": a.late,
		"made-up": a.madeUp,
	} {
		mux.HandleFunc("POST /"+route+"/{id}", func(w http.ResponseWriter, r *http.Request) {
			n, err := h(r.Context(), r.PathValue("id"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			json.NewEncoder(w).Encode(map[string]int{"n": n})
		})
	}
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	if variant == "background" {
		go a.heartbeat(ctx)
	}
	return http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), mux)
}

// heartbeat is a statement that no request has asked for.
func (a *counterApp) heartbeat(ctx context.Context) {
	for range time.Tick(20 * time.Millisecond) {
		var n int
		_ = a.pool.QueryRow(ctx, "SELECT count(*) FROM heartbeat").Scan(&n)
	}
}

type queryer interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}

// bump reads, then writes what it has computed.
func bump(ctx context.Context, q queryer, id string) (n int, err error) {
	if err := q.QueryRow(ctx, "SELECT n FROM counters WHERE id = $1", id).Scan(&n); err != nil {
		return 0, err
	}
	return n + 1, q.QueryRow(ctx, "UPDATE counters SET n = $1 WHERE id = $2 RETURNING n", n+1, id).Scan(&n)
}

func (a *counterApp) racy(ctx context.Context, id string) (int, error) { return bump(ctx, a.pool, id) }

// mutex is right as long as there is one process.
func (a *counterApp) mutex(ctx context.Context, id string) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return bump(ctx, a.pool, id)
}

func (a *counterApp) tx(ctx context.Context, o pgx.TxOptions, f func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, a.pool, o, f)
}

func (a *counterApp) inTx(ctx context.Context, id string) (n int, err error) {
	err = a.tx(ctx, pgx.TxOptions{}, func(tx pgx.Tx) error {
		n, err = bump(ctx, tx, id)
		return err
	})
	return n, err
}

// serializable gives the error 40001 to the caller.
func (a *counterApp) serializable(ctx context.Context, id string) (n int, err error) {
	err = a.tx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
		n, err = bump(ctx, tx, id)
		return err
	})
	return n, err
}

// retry is serializable as it should be used.
func (a *counterApp) retry(ctx context.Context, id string) (n int, err error) {
	for range 10 {
		if n, err = a.serializable(ctx, id); err == nil {
			return n, nil
		}
		var state interface{ SQLState() string }
		if !errors.As(err, &state) || state.SQLState() != "40001" {
			return 0, err
		}
	}
	return 0, err
}

// remembers answers from memory: no serial order explains it a second time.
func (a *counterApp) remembers(ctx context.Context, id string) (int, error) {
	if _, err := bump(ctx, a.pool, id); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.served++
	return a.served, nil
}

// crash ends the process when it meets an odd counter.
func (a *counterApp) crash(ctx context.Context, id string) (int, error) {
	var n int
	if err := a.pool.QueryRow(ctx, "SELECT n FROM counters WHERE id = $1", id).Scan(&n); err != nil {
		return 0, err
	}
	var seen int
	if err := a.pool.QueryRow(ctx, "UPDATE counters SET n = n + 1 WHERE id = $1 RETURNING n", id).Scan(&seen); err != nil {
		return 0, err
	}
	if seen != n+1 {
		os.Exit(3)
	}
	return seen, nil
}

// twoAtOnce sends two statements on two connections at the same time.
func (a *counterApp) twoAtOnce(ctx context.Context, id string) (int, error) {
	var wg sync.WaitGroup
	sum := make([]int, 2)
	errs := make([]error, 2)
	for i := range sum {
		wg.Go(func() { sum[i], errs[i] = bump(ctx, a.pool, fmt.Sprintf("%s%d", id, i)) })
	}
	wg.Wait()
	return sum[0] + sum[1], errors.Join(errs...)
}

// madeUp writes a value that differs in every run, as a password's hash does.
func (a *counterApp) madeUp(ctx context.Context, id string) (int, error) {
	n, err := bump(ctx, a.pool, id)
	if err != nil {
		return 0, err
	}
	_, err = a.pool.Exec(ctx, "UPDATE counters SET token = $1 WHERE id = $2", rand.Text(), id)
	return n, err
}

// late goes on writing after its answer.
func (a *counterApp) late(ctx context.Context, id string) (int, error) {
	go bump(context.WithoutCancel(ctx), a.pool, id)
	return 0, nil
}
