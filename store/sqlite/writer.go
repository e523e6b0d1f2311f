package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// job is one caller's write: the steps of a put, delete or batch; the deletes
// of a bulk delete; or an add. done is closed when err and the results stand.
type job struct {
	op      string
	steps   []backend.Op
	deletes []backend.DeleteRequest
	add     *backend.AddRequest

	gone int
	sum  int64
	err  error

	state atomic.Int32
	done  chan struct{}
}

// The states of a job. Its caller may leave a queued job with the certainty
// that it will not be run; one that leaves a running job learns "unknown".
const (
	queued int32 = iota
	running
	abandoned
)

func (j *job) first() (key string, cond backend.Condition, nonce string) {
	switch {
	case len(j.steps) > 0:
		return j.steps[0].Key, j.steps[0].Cond, j.steps[0].Nonce
	case len(j.deletes) > 0:
		return j.deletes[0].Key, j.deletes[0].Cond, ""
	case j.add != nil:
		return j.add.Key, backend.None(), j.add.Nonce
	}
	return "", backend.None(), ""
}

func (j *job) unknown(err error) error {
	key, cond, nonce := j.first()
	return &backend.UnknownOutcomeError{Op: j.op, Key: key, Cond: cond, Nonce: nonce, Err: err}
}

func (j *job) finish(err error) {
	j.err = err
	close(j.done)
}

// writer does all the writing of a process, on one connection.
type writer struct {
	conn     *sql.Conn
	maxBatch int
	// turn is held by the goroutine that uses conn: the loop, or a caller
	// whose write is alone.
	turn  chan struct{}
	queue chan *job
	stop  chan struct{}
	// once closes stop, last takes the turn for good.
	once, last sync.Once
	// ended is closed when the loop has answered everything it will answer.
	ended chan struct{}

	insert, update, upsert, version, value, remove, removeIf *sql.Stmt
}

func newWriter(ctx context.Context, conn *sql.Conn, maxBatch int) (*writer, error) {
	w := &writer{conn: conn, maxBatch: maxBatch, queue: make(chan *job, 1024), stop: make(chan struct{}), ended: make(chan struct{}), turn: make(chan struct{}, 1)}
	for _, s := range []struct {
		to   **sql.Stmt
		text string
	}{
		{&w.insert, "INSERT INTO holdfast_kv (key, value, version) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO NOTHING"},
		{&w.update, "UPDATE holdfast_kv SET value = ?2, version = ?3 WHERE key = ?1 AND version = ?4"},
		{&w.upsert, "INSERT INTO holdfast_kv (key, value, version) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version"},
		{&w.version, "SELECT version FROM holdfast_kv WHERE key = ?1"},
		{&w.value, "SELECT value FROM holdfast_kv WHERE key = ?1"},
		{&w.remove, "DELETE FROM holdfast_kv WHERE key = ?1"},
		{&w.removeIf, "DELETE FROM holdfast_kv WHERE key = ?1 AND version = ?2"},
	} {
		// To prepare is to read the schema, which another process that is just
		// opening the file can lock.
		if err := untilFree(ctx, func() (err error) {
			*s.to, err = conn.PrepareContext(ctx, s.text)
			return err
		}); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *writer) close() { w.once.Do(func() { close(w.stop) }) }

func (w *writer) isClosed() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// do hands a job to the writer and waits for it or for the context.
func (w *writer) do(ctx context.Context, j *job) error {
	j.done = make(chan struct{})
	key, _, _ := j.first()
	if w.isClosed() {
		return fmt.Errorf("%s %q: %w", j.op, key, backend.ErrClosed)
	}
	if len(j.steps) == 1 && w.maxBatch > 1 && w.alone(j) {
		return j.err
	}
	select {
	case w.queue <- j:
	case <-w.stop:
		return fmt.Errorf("%s %q: %w", j.op, key, backend.ErrClosed)
	case <-ctx.Done():
		return fmt.Errorf("%s %q: nothing was written, the writer is busy: %w", j.op, key, context.Cause(ctx))
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		if j.state.CompareAndSwap(queued, abandoned) {
			return fmt.Errorf("%s %q: nothing was written, the writer is busy: %w", j.op, key, context.Cause(ctx))
		}
		// If the attempt that runs now fails, there will be no other.
		j.state.CompareAndSwap(running, abandoned)
		return j.unknown(context.Cause(ctx))
	case <-w.ended:
		// Either the loop answered this job as one of its last, or the job got
		// into the queue behind it and nobody will run it.
		if j.state.CompareAndSwap(queued, abandoned) {
			return fmt.Errorf("%s %q: %w", j.op, key, backend.ErrClosed)
		}
		<-j.done
		return j.err
	}
}

func (w *writer) loop() {
	defer close(w.ended)
	for {
		// The stop comes first: a full queue must not keep the writer.
		if w.isClosed() {
			w.refuseRest()
			return
		}
		select {
		case j := <-w.queue:
			w.turn <- struct{}{}
			w.run(w.gather(j))
			<-w.turn
		case <-w.stop:
		}
	}
}

// refuseRest answers what is queued.
func (w *writer) refuseRest() {
	for {
		select {
		case j := <-w.queue:
			if j.state.CompareAndSwap(queued, running) {
				j.finish(fmt.Errorf("%s: %w", j.op, backend.ErrClosed))
			}
		default:
			return
		}
	}
}

// gather takes what is waiting behind j.
func (w *writer) gather(j *job) []*job {
	jobs := []*job{j}
	for len(jobs) < w.maxBatch {
		select {
		case next := <-w.queue:
			jobs = append(jobs, next)
		default:
			return jobs
		}
	}
	return jobs
}

// run executes jobs in one transaction. If a statement fails, for whatever
// reason other than a condition, the transaction is rolled back and each job
// gets one of its own, so that the fault stays with the job that has it.
func (w *writer) run(jobs []*job) {
	err := w.begin(jobs)
	live := jobs[:0]
	for _, j := range jobs {
		if j.state.CompareAndSwap(queued, running) {
			live = append(live, j)
		}
	}
	if err != nil {
		for _, j := range live {
			j.finish(fmt.Errorf("%s: nothing was written: begin transaction: %w", j.op, err))
		}
		return
	}
	if len(live) == 0 {
		w.rollback()
		return
	}
	errs := make([]error, len(live))
	for i, j := range live {
		err := w.apply(j)
		if err == nil || refused(err) {
			errs[i] = err
			continue
		}
		w.rollback()
		if len(live) == 1 {
			j.finish(fmt.Errorf("%s: nothing was written: %w", j.op, err))
			return
		}
		for _, single := range live {
			if single.state.CompareAndSwap(running, queued) {
				w.run([]*job{single})
			}
		}
		return
	}
	if _, err := w.conn.ExecContext(context.Background(), "COMMIT"); err != nil {
		// A commit that reports an error may have reached the log: after a
		// crash, recovery could still find it there.
		w.rollback()
		for _, j := range live {
			j.finish(j.unknown(fmt.Errorf("commit: %w", err)))
		}
		return
	}
	for i, j := range live {
		j.finish(errs[i])
	}
}

// alone runs a single write in the caller's own goroutine, without BEGIN and
// COMMIT, if nobody writes at the moment. That spares the way to the writer
// goroutine and back, which costs a lone caller more than the statement. done
// is false if somebody writes, in this process or another.
func (w *writer) alone(j *job) (done bool) {
	select {
	case w.turn <- struct{}{}:
	default:
		return false
	}
	defer func() { <-w.turn }()
	if w.isClosed() {
		return false
	}
	err := w.applyStep(j.op, j.steps[0])
	var fault *sqlite.Error
	switch {
	case busy(err):
		return false
	case err == nil || refused(err):
	case errors.As(err, &fault) && fault.Code()&0xff == sqlite3.SQLITE_IOERR:
		// Like a COMMIT that reports an error.
		err = j.unknown(err)
	default:
		err = fmt.Errorf("%s %q: nothing was written: %w", j.op, j.steps[0].Key, err)
	}
	j.finish(err)
	return true
}

// begin waits for SQLite's write lock, until the store is closed or no caller
// of these jobs is left.
func (w *writer) begin(jobs []*job) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	return untilFree(ctx, func() error {
		_, err := w.conn.ExecContext(context.Background(), "BEGIN IMMEDIATE")
		if !busy(err) {
			return err
		}
		left := 0
		for _, j := range jobs {
			if j.state.Load() == queued {
				left++
			}
		}
		switch {
		case w.isClosed():
			cancel(backend.ErrClosed)
		case left == 0:
			cancel(context.Canceled)
		}
		return err
	})
}

// rollback may find that SQLite has rolled back by itself; that is as good.
func (w *writer) rollback() { _, _ = w.conn.ExecContext(context.Background(), "ROLLBACK") }

// refused says whether the job was decided by a condition, with nothing
// written and the transaction intact.
func refused(err error) bool {
	var bounds *backend.BoundsError
	var corrupt *backend.CorruptError
	return errors.Is(err, backend.ErrConflict) || errors.As(err, &bounds) || errors.As(err, &corrupt)
}

func (w *writer) apply(j *job) error {
	switch {
	case j.add != nil:
		return w.applyAdd(j)
	case j.deletes != nil:
		j.gone = 0
		for _, d := range j.deletes {
			err := w.applyStep("delete", backend.Op{Key: d.Key, Cond: d.Cond, Delete: true})
			switch {
			case err == nil:
				j.gone++
			case !errors.Is(err, backend.ErrConflict):
				return err
			}
		}
		return nil
	case len(j.steps) == 1:
		return w.applyStep(j.op, j.steps[0])
	}
	ctx := context.Background()
	if _, err := w.conn.ExecContext(ctx, "SAVEPOINT batch"); err != nil {
		return err
	}
	for _, step := range j.steps {
		err := w.applyStep(j.op, step)
		if err == nil {
			continue
		}
		if refused(err) {
			if _, undo := w.conn.ExecContext(ctx, "ROLLBACK TO batch"); undo != nil {
				return undo
			}
		}
		return err
	}
	_, err := w.conn.ExecContext(ctx, "RELEASE batch")
	return err
}

func (w *writer) applyStep(op string, s backend.Op) error {
	var result sql.Result
	var err error
	ctx := context.Background()
	value := s.Value
	if value == nil {
		value = []byte{}
	}
	switch kind := s.Cond.Kind(); {
	case s.Delete && kind == backend.KindIfVersion:
		result, err = w.removeIf.ExecContext(ctx, s.Key, string(s.Cond.Version()))
	case s.Delete:
		_, err = w.remove.ExecContext(ctx, s.Key)
		return err
	case kind == backend.KindCreateOnly:
		result, err = w.insert.ExecContext(ctx, s.Key, value, s.Nonce)
	case kind == backend.KindIfVersion:
		result, err = w.update.ExecContext(ctx, s.Key, value, s.Nonce, string(s.Cond.Version()))
	default:
		_, err = w.upsert.ExecContext(ctx, s.Key, value, s.Nonce)
		return err
	}
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err != nil || n == 1 {
		return err
	}
	conflict := &backend.ConflictError{Op: op, Key: s.Key, Wanted: s.Cond}
	err = w.version.QueryRowContext(ctx, s.Key).Scan(&conflict.Found)
	if errors.Is(err, sql.ErrNoRows) {
		conflict.Absent = true
	} else if err != nil {
		return err
	}
	conflict.FoundNonce = string(conflict.Found)
	return conflict
}

// applyAdd reads and writes inside the transaction, which no other writer can
// enter.
func (w *writer) applyAdd(j *job) error {
	ctx, a := context.Background(), j.add
	var current int64
	var stored []byte
	err := w.value.QueryRowContext(ctx, a.Key).Scan(&stored)
	switch {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return err
	default:
		if current, err = strconv.ParseInt(string(stored), 10, 64); err != nil {
			return &backend.CorruptError{Key: a.Key, Why: "an add needs a decimal integer"}
		}
	}
	sum := current + a.Delta
	overflow := (a.Delta > 0 && current > math.MaxInt64-a.Delta) || (a.Delta < 0 && current < math.MinInt64-a.Delta)
	if overflow || sum < a.Min || sum > a.Max {
		return &backend.BoundsError{Key: a.Key, Delta: a.Delta, Min: a.Min, Max: a.Max, Current: current}
	}
	j.sum = sum
	_, err = w.upsert.ExecContext(ctx, a.Key, strconv.AppendInt(nil, sum, 10), a.Nonce)
	return err
}
