package idempotency

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/store"
)

var created = Answer{Status: 201, Header: []Field{{"Content-Type", "text/plain"}, {"Link", "<a>"}, {"Link", "<b>"}},
	Body: []byte("first\x00\xff answer\n")}

func TestReplayIsByteForByte(t *testing.T) {
	everywhere(t, Options{}, func(t *testing.T, r *rig) {
		req := Request{Scope: "alice", Key: "k1", Fingerprint: Fingerprint([]byte("pay 10"))}
		for i := range 3 {
			answer := created
			if i > 0 {
				answer.Body = []byte("another answer")
			}
			got, err := r.do(t.Context(), req, insert("k1", answer))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Answer, created) || got.Replayed != (i > 0) {
				t.Errorf("request %d: got %+v, want %+v", i, got, created)
			}
		}
		if n := r.effects(t); n != 1 {
			t.Errorf("%d effects", n)
		}
		// The same key of somebody else is another key, and case matters.
		for _, other := range []Request{{Scope: "bob", Key: "k1"}, {Scope: "alice", Key: "K1"}} {
			if got, err := r.do(t.Context(), other, insert("other", Answer{})); err != nil || got.Replayed {
				t.Errorf("%+v: %+v, %v", other, got, err)
			}
		}
		if n := r.effects(t); n != 3 {
			t.Errorf("%d effects", n)
		}
	})
}

func TestOtherRequestWithTheSameKey(t *testing.T) {
	everywhere(t, Options{}, func(t *testing.T, r *rig) {
		req := Request{Key: "k", Fingerprint: Fingerprint([]byte("pay 10"))}
		if _, err := r.do(t.Context(), req, insert("k", created)); err != nil {
			t.Fatal(err)
		}
		req.Fingerprint = Fingerprint([]byte("pay 1000"))
		_, err := r.do(t.Context(), req, insert("k", created))
		mismatch, is := errors.AsType[*MismatchError](err)
		if !is || errors.Is(err, store.ErrConflict) {
			t.Fatalf("got %v", err)
		}
		if status, _ := mismatch.Race(); status != 422 {
			t.Errorf("status %d", status)
		}
		if n := r.effects(t); n != 1 {
			t.Errorf("%d effects", n)
		}
	})
}

// An effect that fails takes its key back.
func TestFailureFreesTheKey(t *testing.T) {
	everywhere(t, Options{}, func(t *testing.T, r *rig) {
		broken := errors.New("no")
		_, err := r.do(t.Context(), Request{Key: "k"}, func(ctx context.Context, tx guard.Handle) (Answer, error) {
			_, err := insert("k", Answer{})(ctx, tx)
			return created, errors.Join(err, broken)
		})
		if !errors.Is(err, broken) {
			t.Fatalf("got %v", err)
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = r.do(t.Context(), Request{Key: "k"}, func(ctx context.Context, tx guard.Handle) (Answer, error) {
				_, _ = insert("k", Answer{})(ctx, tx)
				panic("no")
			})
		}()
		if n := r.effects(t); n != 0 {
			t.Errorf("%d effects", n)
		}
		if _, err := r.table.Lookup(t.Context(), r.db, Request{Key: "k"}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("look up: %v", err)
		}
		if got, err := r.do(t.Context(), Request{Key: "k"}, insert("k", created)); err != nil || got.Replayed {
			t.Errorf("again: %+v, %v", got, err)
		}
		if a, err := r.table.Lookup(t.Context(), r.db, Request{Key: "k"}); err != nil || a.Status != 201 {
			t.Errorf("look up: %+v, %v", a, err)
		}
	})
}

// Copies that come while the first runs: refused on PostgreSQL, and with Wait
// they get its answer.
func TestInProgress(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Minute} {
		t.Run(wait.String(), func(t *testing.T) {
			k, _ := pgxKeys(t, Options{Wait: wait})
			r := prepare(t, newRig(k))
			begun := make(chan struct{}, 10)
			r.begun(func() { begun <- struct{}{} })
			inside, goOn := make(chan struct{}), make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				_, err := r.do(t.Context(), Request{Key: "k"}, func(ctx context.Context, tx guard.Handle) (Answer, error) {
					close(inside)
					<-goOn
					return insert("k", created)(ctx, tx)
				})
				if err != nil {
					t.Error(err)
				}
			})
			<-inside
			<-begun
			if wait == 0 {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				_, err := r.do(ctx, Request{Key: "k"}, insert("k", created))
				if _, is := errors.AsType[*InProgressError](err); !is || !errors.Is(err, store.ErrConflict) {
					t.Errorf("got %v", err)
				}
				close(goOn)
			} else {
				// Let the first go on when the copy has come and is turned away.
				wg.Go(func() { <-begun; <-begun; close(goOn) })
				got, err := r.do(t.Context(), Request{Key: "k"}, insert("k", created))
				if err != nil || !got.Replayed || got.Status != 201 {
					t.Errorf("got %+v, %v", got, err)
				}
			}
			wg.Wait()
			if n := r.effects(t); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// Many copies of a few requests at once: one effect for each, and whoever is
// answered is answered the same.
func TestCopiesAtOnce(t *testing.T) {
	everywhere(t, Options{Wait: time.Minute}, func(t *testing.T, r *rig) {
		const keys, copies = 12, 8
		var mu sync.Mutex
		answers := map[string]map[string]bool{}
		var wg sync.WaitGroup
		for i := range keys * copies {
			wg.Go(func() {
				key := fmt.Sprint(i % keys)
				got, err := r.do(t.Context(), Request{Key: key}, insert(key, Answer{Status: 200, Body: fmt.Append(nil, i)}))
				if err != nil {
					t.Errorf("copy %d of %s: %v", i, key, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if answers[key] == nil {
					answers[key] = map[string]bool{}
				}
				answers[key][string(got.Body)] = true
			})
		}
		wg.Wait()
		if n := r.effects(t); n != keys {
			t.Errorf("%d effects of %d keys", n, keys)
		}
		for key, bodies := range answers {
			if len(bodies) != 1 {
				t.Errorf("key %s was answered %v", key, bodies)
			}
		}
	})
}

// A transaction that starts its own snapshot before the key was committed must
// not miss it.
func TestSerializableTransactions(t *testing.T) {
	k, pool := pgxKeys(t, Options{Wait: time.Minute, Attempts: 20})
	r := prepare(t, newRig(k))
	execute(t, r.db, "ALTER DATABASE "+pool.Config().ConnConfig.Database+" SET default_transaction_isolation = 'serializable'")
	pool.Reset()
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if _, err := r.do(t.Context(), Request{Key: fmt.Sprint(i % 4)}, insert("x", created)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := r.effects(t); n != 4 {
		t.Errorf("%d effects of 4 keys", n)
	}
}

var errGone = fmt.Errorf("read: %w", io.ErrUnexpectedEOF)

// The answer to a commit is lost. Whether it took effect, did not, or does so
// later, there is one effect and a right answer.
func TestLostCommit(t *testing.T) {
	req := Request{Key: "k", Fingerprint: []byte("f")}
	t.Run("it took effect", func(t *testing.T) {
		everywhere(t, Options{}, func(t *testing.T, r *rig) {
			r.commits(func(ctx context.Context, commit, _ func(context.Context) error) error {
				return errors.Join(commit(ctx), errGone)
			})
			got, err := r.do(t.Context(), req, insert("k", created))
			if err != nil || !got.Settled || got.Replayed || !reflect.DeepEqual(got.Answer, created) || r.effects(t) != 1 {
				t.Errorf("got %+v, %v, %d effects", got, err, r.effects(t))
			}
		})
	})
	t.Run("it did not", func(t *testing.T) {
		everywhere(t, Options{}, func(t *testing.T, r *rig) {
			lost := 0
			r.commits(func(ctx context.Context, commit, rollback func(context.Context) error) error {
				if lost++; lost <= 2 {
					return errors.Join(rollback(ctx), errGone)
				}
				return commit(ctx)
			})
			got, err := r.do(t.Context(), req, insert("k", created))
			if err != nil || got.Settled || got.Replayed || got.Attempts != 3 || r.effects(t) != 1 {
				t.Errorf("got %+v, %v, %d effects", got, err, r.effects(t))
			}
		})
	})
	// The server has the commit and is slow: the key is in progress until then.
	t.Run("later", func(t *testing.T) {
		k, _ := pgxKeys(t, Options{})
		r := prepare(t, newRig(k))
		begun := 0
		var late func(context.Context) error
		r.commits(func(_ context.Context, commit, _ func(context.Context) error) error {
			late = commit
			return errGone
		})
		r.begun(func() {
			if begun++; begun == 4 {
				if err := late(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
		got, err := r.do(t.Context(), req, insert("k", created))
		if begun < 4 {
			t.Errorf("the outcome was not asked for: %+v, %v", got, err)
			_ = late(t.Context())
		}
		if err != nil || !got.Settled || got.Attempts != 4 || r.effects(t) != 1 {
			t.Errorf("got %+v, %v, %d effects", got, err, r.effects(t))
		}
	})
	t.Run("not known in time", func(t *testing.T) {
		k, _ := pgxKeys(t, Options{})
		r := prepare(t, newRig(k))
		ctx, cancel := context.WithCancel(t.Context())
		var late func(context.Context) error
		r.commits(func(_ context.Context, commit, _ func(context.Context) error) error {
			late = commit
			return errGone
		})
		begun := 0
		r.begun(func() {
			if begun++; begun == 3 {
				cancel()
			}
		})
		_, err := r.do(ctx, req, insert("k", created))
		if _, unknown := errors.AsType[*UnknownOutcomeError](err); !unknown || !errors.Is(err, store.ErrUnknownOutcome) ||
			errors.Is(err, store.ErrConflict) || !errors.Is(err, errGone) {
			t.Errorf("got %v", err)
		}
		if err := late(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Expired keys are new keys, and are swept a bounded number at a time.
func TestExpiry(t *testing.T) {
	everywhere(t, Options{TTL: MinTTL}, func(t *testing.T, r *rig) {
		for i := range 6 {
			if _, err := r.do(t.Context(), Request{Key: fmt.Sprint(i)}, insert("x", created)); err != nil {
				t.Fatal(err)
			}
		}
		if n := number(t, r.db, "SELECT count(*) FROM holdfast_idempotency WHERE expires_at > 1700000000 + 86400"); n != 6 {
			t.Errorf("%d keys with a sensible expiry", n)
		}
		execute(t, r.db, "UPDATE holdfast_idempotency SET expires_at = 1700000000 WHERE idempotency_key < '5'")
		got, err := r.do(t.Context(), Request{Key: "0", Fingerprint: []byte("another")}, insert("x", Answer{Status: 204}))
		if err != nil || got.Replayed || got.Status != 204 {
			t.Errorf("an expired key: %+v, %v", got, err)
		}
		got, err = r.do(t.Context(), Request{Key: "0"}, insert("x", created))
		if err != nil || !got.Replayed || got.Status != 204 || len(got.Body) != 0 || len(got.Header) != 0 {
			t.Errorf("a revived key: %+v, %v", got, err)
		}
		for _, want := range []int64{3, 1, 0} {
			if n, err := r.table.Sweep(t.Context(), r.db, 3); err != nil || n != want {
				t.Errorf("swept %d, %v, want %d", n, err, want)
			}
		}
		if n := number(t, r.db, "SELECT count(*) FROM holdfast_idempotency"); n != 2 {
			t.Errorf("%d keys left", n)
		}
		if _, err := r.table.Sweep(t.Context(), r.db, 0); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	})
}

// Copies of an expired request, and the sweeper, at once: one effect more.
func TestExpiredCopiesAtOnce(t *testing.T) {
	everywhere(t, Options{Wait: time.Minute}, func(t *testing.T, r *rig) {
		for round := range 5 {
			if _, err := r.do(t.Context(), Request{Key: "k"}, insert("x", created)); err != nil {
				t.Fatal(err)
			}
			execute(t, r.db, "UPDATE holdfast_idempotency SET expires_at = 1")
			before := r.effects(t)
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					if i == 0 {
						if _, err := r.table.Sweep(t.Context(), r.db, 10); err != nil && !transient(err) {
							t.Error(err)
						}
						return
					}
					if _, err := r.do(t.Context(), Request{Key: "k"}, insert("x", created)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := r.effects(t) - before; n != 1 {
				t.Fatalf("round %d: %d effects", round, n)
			}
		}
	})
}

// Many processes that start at once on an empty database.
func TestCreateAtOnce(t *testing.T) {
	everywhere(t, Options{}, func(t *testing.T, r *rig) {
		execute(t, r.db, "DROP TABLE holdfast_idempotency")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := r.table.Create(t.Context(), r.db); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if _, err := r.do(t.Context(), Request{Key: "k"}, insert("x", created)); err != nil {
			t.Error(err)
		}
	})
}

func TestConsume(t *testing.T) {
	k, db := sqliteKeys(t, Options{})
	r := prepare(t, newRig(k))
	for i := range 3 {
		first, err := k.Consume(t.Context(), Request{Scope: "orders", Key: "delivery-7"}, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES ('order')")
			return err
		})
		if err != nil || first != (i == 0) {
			t.Errorf("delivery %d: %v, %v", i, first, err)
		}
	}
	if n := r.effects(t); n != 1 {
		t.Errorf("%d effects", n)
	}
	// In a transaction of one's own.
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := guard.SQL(tx, guard.SQLite)
	a, err := k.Claim(t.Context(), h, Request{Key: "own"})
	if a != nil || err != nil {
		t.Fatal(a, err)
	}
	if err := k.Record(t.Context(), h, Request{Key: "own"}, created); err != nil {
		t.Fatal(err)
	}
	if err := k.Record(t.Context(), h, Request{Key: "never claimed"}, created); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if a, err := k.Claim(t.Context(), guard.SQL(db, guard.SQLite), Request{Key: "own"}); err != nil || !reflect.DeepEqual(*a, created) {
		t.Errorf("got %+v, %v", a, err)
	}
}

func TestRefusedArguments(t *testing.T) {
	for _, opts := range []Options{{TTL: time.Hour}, {TTL: MinTTL - 1}, {TTL: -1}, {Table: "a b"}, {Table: "x;y"}, {Table: "a.b.c"}} {
		if _, err := NewTable(guard.Postgres, opts); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
	k, _ := sqliteKeys(t, Options{Table: "keys_of_mine"})
	for _, req := range []Request{{}, {Key: strings.Repeat("k", 256)}, {Key: "a\x00b"}, {Key: "\xff"}, {Key: "k", Scope: "a\nb"},
		{Key: "k", Fingerprint: make([]byte, 256)}} {
		_, err := k.Do(t.Context(), req, func(context.Context, *sql.Tx) (Answer, error) {
			t.Error("the effect ran")
			return Answer{}, nil
		})
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", req, err)
		}
	}
	if _, err := k.Claim(t.Context(), guard.SQL(nil, guard.Postgres), Request{Key: "k"}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
