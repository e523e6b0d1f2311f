package idempotency

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// workerEnv holds a worker's task; its presence makes the test binary one.
const workerEnv = "HOLDFAST_IDEMPOTENCY_WORKER"

// task is what a worker is told.
type task struct {
	Kind, Address string
	// Parallel is how many deliveries a worker handles at once.
	Parallel int
}

// reply is what a worker says about one delivery.
type reply struct {
	Delivery int
	Key      string
	Body     string
	Again    bool // not acknowledged: another copy is in progress
	Err      string
}

// delivery is one copy of a message.
type delivery struct {
	ID  int
	Key string
}

// work handles deliveries from in until it is killed or in ends. Each effect is
// two statements in two tables, so that a half-done one would show.
func work(ctx context.Context, env string, in io.Reader, out io.Writer) error {
	var t task
	if err := json.Unmarshal([]byte(env), &t); err != nil {
		return err
	}
	r, stop, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer stop()
	insert, add := "INSERT INTO effects (name) VALUES (?)", "UPDATE totals SET n = n + 1 WHERE name = ?"
	if r.db.Dialect() == guard.Postgres {
		insert, add = strings.Replace(insert, "?", "$1", 1), strings.Replace(add, "?", "$1", 1)
	}
	deliveries := make(chan delivery)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range t.Parallel {
		wg.Go(func() {
			for d := range deliveries {
				got, err := r.do(ctx, Request{Scope: "queue", Key: d.Key}, func(ctx context.Context, tx guard.Handle) (Answer, error) {
					if n, err := tx.Exec(ctx, add, d.Key); err != nil || n != 1 {
						return Answer{}, fmt.Errorf("changed %d rows: %w", n, err)
					}
					_, err := tx.Exec(ctx, insert, d.Key)
					return Answer{Status: 200, Body: fmt.Appendf(nil, "handled by %d as delivery %d", os.Getpid(), d.ID)}, err
				})
				answer := reply{Delivery: d.ID, Key: d.Key, Body: string(got.Body)}
				if _, busy := errors.AsType[*InProgressError](err); busy {
					answer.Again = true
				} else if err != nil {
					answer.Err = err.Error()
				}
				b, _ := json.Marshal(answer)
				mu.Lock()
				// One system call: what was said before a kill is in the pipe.
				_, _ = out.Write(append(b, '\n'))
				mu.Unlock()
			}
		})
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var d delivery
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return err
		}
		deliveries <- d
	}
	close(deliveries)
	wg.Wait()
	return lines.Err()
}

func (t task) open(ctx context.Context) (*rig, func(), error) {
	if t.Kind == "sqlite" {
		db, err := openSQLite(t.Address)
		if err != nil {
			return nil, nil, err
		}
		k, err := NewSQL(db, guard.SQLite, Options{Attempts: 100})
		if err != nil {
			return nil, nil, err
		}
		return newRig(k), func() { _ = db.Close() }, nil
	}
	if t.Kind == "mariadb" {
		db, err := sql.Open("mysql", t.Address)
		if err != nil {
			return nil, nil, err
		}
		k, err := NewSQL(db, guard.MySQL, Options{})
		if err != nil {
			return nil, nil, err
		}
		return newRig(k), func() { _ = db.Close() }, nil
	}
	pool, err := pgxpool.New(ctx, t.Address)
	if err != nil {
		return nil, nil, err
	}
	k, err := NewPgx(pool, Options{})
	if err != nil {
		return nil, nil, err
	}
	return newRig(k), pool.Close, nil
}

// queue delivers at least once: what a killed worker has not acknowledged comes
// again.
type queue struct {
	task    task
	pending chan delivery
	done    context.CancelFunc
	mu      sync.Mutex
	// left counts the deliveries that are not acknowledged; done is called at 0.
	left    int
	answers map[string]map[string]int // key, body
	kills   int
	again   int
}

// window is how many deliveries a worker has been sent and has not answered.
const window = 8

// serve runs worker processes one after another; each but the last is killed
// with kill -9 after a random number of answers, while others are under way.
func (q *queue) serve(ctx context.Context, rng *rand.Rand) error {
	for ctx.Err() == nil {
		killed, err := q.worker(ctx, 20+rng.IntN(150))
		if err != nil || !killed {
			return err
		}
		q.mu.Lock()
		q.kills++
		q.mu.Unlock()
	}
	return nil
}

func (q *queue) worker(ctx context.Context, life int) (killed bool, err error) {
	exe, err := os.Executable()
	if err != nil {
		return false, err
	}
	env, err := json.Marshal(q.task)
	if err != nil {
		return false, err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(env), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return false, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	sent := map[int]delivery{}
	answers := bufio.NewReader(out)
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		// What it said before the kill counts.
		for err == nil {
			var line []byte
			if line, err = answers.ReadBytes('\n'); err == nil {
				err = q.note(line, sent)
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		_ = cmd.Wait()
		for _, d := range sent {
			q.pending <- d
		}
	}()
	for {
		if !q.send(ctx, in, sent) {
			return false, in.Close()
		}
		if len(sent) == 0 {
			continue
		}
		line, err := answers.ReadBytes('\n')
		if err != nil {
			return false, fmt.Errorf("a worker has ended by itself: %w", err)
		}
		if err := q.note(line, sent); err != nil {
			return false, err
		}
		if life--; life == 0 {
			return true, nil
		}
	}
}

// send fills the window. It returns false when all is acknowledged.
func (q *queue) send(ctx context.Context, in io.Writer, sent map[int]delivery) bool {
	for len(sent) < window {
		var d delivery
		if len(sent) == 0 {
			select {
			case d = <-q.pending:
			case <-ctx.Done():
				return false
			}
		} else {
			select {
			case d = <-q.pending:
			default:
				return true
			}
		}
		sent[d.ID] = d
		b, _ := json.Marshal(d)
		if _, err := in.Write(append(b, '\n')); err != nil {
			return true // the next read says why
		}
	}
	return true
}

func (q *queue) note(line []byte, sent map[int]delivery) error {
	var r reply
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("%w: %q", err, line)
	}
	d := sent[r.Delivery]
	delete(sent, r.Delivery)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case r.Err != "":
		return fmt.Errorf("delivery %d of %s: %s", r.Delivery, r.Key, r.Err)
	case r.Again:
		q.again++
		q.pending <- d
	default:
		if q.answers[r.Key] == nil {
			q.answers[r.Key] = map[string]int{}
		}
		q.answers[r.Key][r.Body]++
		if q.left--; q.left == 0 {
			q.done()
		}
	}
	return nil
}

const killCopies, killWorkers = 20, 3

// killKeysEnv sets how many messages TestKilledWorkers delivers, 20 times each;
// the whole proof, of 10,000 deliveries, is
//
//	HOLDFAST_IDEMPOTENCY_KEYS=500 go test -run TestKilledWorkers ./idempotency
const killKeysEnv = "HOLDFAST_IDEMPOTENCY_KEYS"

// TestKilledWorkers delivers messages 20 times each to worker processes that are
// killed with kill -9 all the time. Every message has exactly one effect, and
// every copy that was acknowledged was given the answer of that effect.
func TestKilledWorkers(t *testing.T) {
	keys := 120
	if text := os.Getenv(killKeysEnv); text != "" {
		var err error
		if keys, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "queue.db")
		killWorkersOn(t, keys, task{Kind: "sqlite", Address: path, Parallel: 2})
	})
	t.Run("postgres", func(t *testing.T) {
		address := database(t, pgtest.Need(t, server))
		killWorkersOn(t, keys, task{Kind: "postgres", Address: address, Parallel: 4})
	})
	t.Run("mariadb", func(t *testing.T) {
		killWorkersOn(t, keys, task{Kind: "mariadb", Address: mariaDSN(t), Parallel: 4})
	})
}

func killWorkersOn(t *testing.T, keys int, job task) {
	r, stop, err := job.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	prepare(t, r)
	execute(t, r.db, "CREATE TABLE totals (name varchar(255) PRIMARY KEY, n integer NOT NULL)")
	ctx, done := context.WithCancel(t.Context())
	defer done()
	q := &queue{task: job, pending: make(chan delivery, keys*killCopies), done: done, left: keys * killCopies, answers: map[string]map[string]int{}}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, d := range deliveries(rng, keys) {
		q.pending <- d
	}
	for i := range keys {
		execute(t, r.db, fmt.Sprintf("INSERT INTO totals VALUES ('message %d', 0)", i))
	}
	var wg sync.WaitGroup
	for i := range killWorkers {
		rng := rand.New(rand.NewPCG(seed, uint64(i+2)))
		wg.Go(func() {
			if err := q.serve(ctx, rng); err != nil {
				t.Error(err)
				done()
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	t.Logf("%d deliveries of %d messages, %d workers killed, %d copies turned away", keys*killCopies, keys, q.kills, q.again)
	if q.kills < keys/12 {
		t.Errorf("only %d workers were killed", q.kills)
	}
	for _, query := range []string{"SELECT count(*) FROM effects", "SELECT count(DISTINCT name) FROM effects", "SELECT sum(n) FROM totals",
		"SELECT count(*) FROM totals WHERE n = 1", "SELECT count(*) FROM holdfast_idempotency"} {
		if n := number(t, r.db, query); n != int64(keys) {
			t.Errorf("%s: %d, want %d", query, n, keys)
		}
	}
	acknowledged := 0
	for key, bodies := range q.answers {
		if len(bodies) != 1 {
			t.Errorf("%s was answered differently: %v", key, bodies)
		}
		for _, n := range bodies {
			acknowledged += n
		}
	}
	if acknowledged != keys*killCopies {
		t.Errorf("%d deliveries acknowledged", acknowledged)
	}
}

// deliveries are half of the copies of a message close together, so that they
// meet, and the other half anywhere later.
func deliveries(rng *rand.Rand, keys int) []delivery {
	var near, far []delivery
	for i := range keys {
		for j := range killCopies {
			d := delivery{ID: i*killCopies + j, Key: fmt.Sprintf("message %d", i)}
			if j < killCopies/2 {
				near = append(near, d)
			} else {
				far = append(far, d)
			}
		}
	}
	rng.Shuffle(len(far), func(i, j int) { far[i], far[j] = far[j], far[i] })
	return append(near, far...)
}
