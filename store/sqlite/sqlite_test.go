package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Main(m, func(ctx context.Context, url string) (*store.Store, error) { return store.Open(ctx, url) })
}

func open(t *testing.T, path string) *store.Store {
	t.Helper()
	b, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(b, store.Options{WatchInterval: 5 * time.Millisecond})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	storetest.Run(t, open(t, filepath.Join(t.TempDir(), "odd name%20?#.db")))
}

func TestProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	storetest.RunProcesses(t, open(t, path), storetest.Processes{URL: "sqlite://" + path})
}

// holdLock takes the write lock of the file from outside the store.
func holdLock(t *testing.T, path string) (release func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		_, err := conn.ExecContext(context.Background(), "ROLLBACK")
		if err := errors.Join(err, conn.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A caller whose time is over while another process writes has written
// nothing, and its write does not happen later either.
func TestDeadlineWhileLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s := open(t, path)
	ctx := t.Context()
	release := holdLock(t, path)
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err := s.Put(short, "late", nil, store.CreateOnly())
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("put under a foreign lock: %v, want the deadline and nothing written", err)
	}
	if _, err := s.Get(ctx, "late"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get under a foreign lock: %v", err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := s.Put(ctx, "patient", nil, store.CreateOnly())
		waiting <- err
	}()
	release()
	if err := <-waiting; err != nil {
		t.Errorf("put after the lock was released: %v", err)
	}
	if _, err := s.Get(ctx, "late"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the abandoned write: %v, want absent", err)
	}
}

// One write with a fault of its own does not take the others of its commit
// with it, and each keeps its own conflict.
func TestFaultStaysWithItsJob(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s := open(t, path)
	ctx := t.Context()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE TRIGGER poison BEFORE INSERT ON holdfast_kv WHEN NEW.key LIKE 'bad%' BEGIN SELECT RAISE(ABORT, 'poisoned'); END"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(ctx, "taken", nil, store.CreateOnly()); err != nil {
		t.Fatal(err)
	}
	release := holdLock(t, path)
	keys := []string{"a", "bad1", "b", "taken", "bad2", "c"}
	errs := make([]error, len(keys))
	var wg sync.WaitGroup
	for i, key := range keys {
		wg.Go(func() { _, errs[i] = s.Put(ctx, key, []byte(key), store.CreateOnly()) })
	}
	release()
	wg.Wait()
	for i, key := range keys {
		err := errs[i]
		switch {
		case key == "taken" && !errors.Is(err, store.ErrConflict):
			t.Errorf("taken: %v, want a conflict", err)
		case key[:1] == "b" && len(key) > 1 && (err == nil || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrUnknownOutcome)):
			t.Errorf("%s: %v, want a definite failure", key, err)
		case len(key) == 1 && err != nil:
			t.Errorf("%s: %v", key, err)
		}
	}
}

// Close during writes: every call returns, and what was acknowledged is there
// after opening again.
func TestCloseDuringWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	b, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(b, store.Options{})
	var mu sync.Mutex
	var acked []string
	var wg sync.WaitGroup
	begun := make(chan struct{}, 64)
	for w := range 16 {
		wg.Go(func() {
			for n := 0; ; n++ {
				key := fmt.Sprintf("%d/%d", w, n)
				_, err := s.Put(context.Background(), key, []byte(strconv.Itoa(n)), store.CreateOnly())
				if err != nil {
					if !errors.Is(err, store.ErrClosed) {
						t.Errorf("%s: %v", key, err)
					}
					return
				}
				mu.Lock()
				acked = append(acked, key)
				mu.Unlock()
				if n == 3 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range 16 {
		<-begun
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	again := open(t, path)
	for _, key := range acked {
		if _, err := again.Get(t.Context(), key); err != nil {
			t.Errorf("acknowledged %s: %v", key, err)
		}
	}
	if _, err := s.Put(t.Context(), "k", nil, store.None()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("put after close: %v", err)
	}
	if _, err := b.Get(t.Context(), "k"); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("get after close: %v", err)
	}
}

// Many open a new file at once: whoever turns it to WAL mode holds up the
// others, and nobody is turned away.
func TestOpenAtOnce(t *testing.T) {
	for range 5 {
		path := filepath.Join(t.TempDir(), "state.db")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				b, err := sqlite.Open(t.Context(), path, sqlite.Options{})
				if err != nil {
					t.Error(err)
					return
				}
				_ = b.Close()
			})
		}
		wg.Wait()
	}
}
