package idempotency

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// The transaction that an effect gets is a pgx.Tx in every respect, except that
// it does not end before the effect does.
func TestPgxTransaction(t *testing.T) {
	k, pool := pgxKeys(t, Options{})
	r := prepare(t, newRig(k))
	undo := errors.New("undo")
	_, err := k.Do(t.Context(), Request{Key: "k"}, func(ctx context.Context, tx pgx.Tx) (Answer, error) {
		if err := tx.Commit(ctx); !errors.Is(err, errNotYours) {
			t.Errorf("commit: %v", err)
		}
		if err := tx.Rollback(ctx); !errors.Is(err, errNotYours) {
			t.Errorf("rollback: %v", err)
		}
		// A savepoint that is rolled back, and one that is kept.
		for _, want := range []error{undo, nil} {
			if err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
				_, err := inner.Exec(ctx, "INSERT INTO effects VALUES ('savepoint')")
				return errors.Join(err, want)
			}); !errors.Is(err, want) {
				t.Errorf("savepoint: %v", err)
			}
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name"}, pgx.CopyFromRows([][]any{{"a"}, {"b"}})); err != nil {
			return Answer{}, err
		}
		if _, err := tx.Prepare(ctx, "mine", "INSERT INTO effects VALUES ($1)"); err != nil {
			return Answer{}, err
		}
		b := &pgx.Batch{}
		b.Queue("mine", "c")
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return Answer{}, err
		}
		objects := tx.LargeObjects()
		if _, err := objects.Create(ctx, 0); err != nil {
			return Answer{}, err
		}
		rows, err := tx.Query(ctx, "SELECT name FROM effects")
		if err != nil {
			return Answer{}, err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if len(names) != 4 || tx.Conn() == nil {
			t.Errorf("names %v", names)
		}
		return created, err
	})
	if err != nil || r.effects(t) != 4 || number(t, r.db, "SELECT count(*) FROM pg_largeobject_metadata") != 1 {
		t.Errorf("%v, %d effects", err, r.effects(t))
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are out", n)
	}
}

// What fails inside leaves neither an effect nor a connection in a transaction.
func TestPgxFailures(t *testing.T) {
	k, pool := pgxKeys(t, Options{})
	r := prepare(t, newRig(k))
	execute(t, r.db, "CREATE TABLE parents (id integer PRIMARY KEY)",
		"CREATE TABLE children (parent integer REFERENCES parents DEFERRABLE INITIALLY DEFERRED)")
	for name, effect := range map[string]func(ctx context.Context, tx pgx.Tx) (Answer, error){
		// The server refuses the COMMIT, which came along with the record.
		"deferred constraint": func(ctx context.Context, tx pgx.Tx) (Answer, error) {
			_, err := tx.Exec(ctx, "INSERT INTO children VALUES (1)")
			return created, err
		},
		"deferred constraint, no answer": func(ctx context.Context, tx pgx.Tx) (Answer, error) {
			_, err := tx.Exec(ctx, "INSERT INTO children VALUES (1)")
			return Answer{}, err
		},
		// The effect hides that a statement has failed: COMMIT is ROLLBACK then.
		"aborted": func(ctx context.Context, tx pgx.Tx) (Answer, error) {
			_, err := tx.Exec(ctx, "INSERT INTO nowhere VALUES (1)")
			if err == nil {
				t.Error("it worked")
			}
			return Answer{}, nil
		},
		"aborted, with an answer": func(ctx context.Context, tx pgx.Tx) (Answer, error) {
			_, err := tx.Exec(ctx, "INSERT INTO nowhere VALUES (1)")
			if err == nil {
				t.Error("it worked")
			}
			return created, nil
		},
	} {
		got, err := k.Do(t.Context(), Request{Key: "k"}, effect)
		if err == nil || errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrConflict) || got.Attempts != 1 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	// The connection is cut by the server inside the transaction.
	_, err := k.Do(t.Context(), Request{Key: "k"}, func(ctx context.Context, tx pgx.Tx) (Answer, error) {
		var pid int
		if err := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return Answer{}, err
		}
		var ok bool
		if err := pool.QueryRow(ctx, "SELECT pg_terminate_backend($1, 10000)", pid).Scan(&ok); err != nil || !ok {
			t.Errorf("terminate: %v, %v", ok, err)
		}
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ('x')")
		return created, err
	})
	if err == nil {
		t.Error("no error")
	}
	// The same, noticed at the commit only. If it could not even be sent, nothing
	// was done, and the caller is told; otherwise a second try settles it.
	cut := false
	got, err := k.Do(t.Context(), Request{Key: "k"}, func(ctx context.Context, tx pgx.Tx) (Answer, error) {
		if cut {
			_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ('x')")
			return created, err
		}
		cut = true
		var pid int
		if err := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return Answer{}, err
		}
		var ok bool
		err := pool.QueryRow(ctx, "SELECT pg_terminate_backend($1, 10000)", pid).Scan(&ok)
		return created, err
	})
	switch n := r.effects(t); {
	case err == nil && got.Attempts == 2 && !got.Replayed && n == 1:
	case err != nil && got.Attempts == 1 && !errors.Is(err, store.ErrUnknownOutcome) && n == 0:
	default:
		t.Errorf("got %+v, %v, %d effects", got, err, n)
	}
	// The pool takes broken connections out in the background.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for pool.Stat().AcquiredConns() != 0 && ctx.Err() == nil {
		runtime.Gosched()
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are out", n)
	}
	if n := number(t, r.db, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"); n != 0 {
		t.Errorf("%d transactions are open", n)
	}
}
