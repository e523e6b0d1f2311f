package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// server is started once for the package; a worker process of the suite never
// gets here, because storetest.Main takes it.
var server *pgtest.Server

func TestMain(m *testing.M) {
	if storetest.IsWorker() {
		storetest.Main(m, func(ctx context.Context, url string) (*store.Store, error) { return store.Open(ctx, url) })
	}
	os.Exit(pgtest.Main(func(s *pgtest.Server) int {
		server = s
		return m.Run()
	}))
}

func open(t *testing.T, address, table string) *store.Store {
	t.Helper()
	b, err := postgres.Open(t.Context(), address, postgres.Options{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(b, store.Options{WatchInterval: 5 * time.Millisecond})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	storetest.Run(t, open(t, pgtest.Need(t, server).URL("postgres"), "conformance"))
}

func TestProcesses(t *testing.T) {
	address := pgtest.Need(t, server).URL("postgres")
	storetest.RunProcesses(t, open(t, address, "processes"), storetest.Processes{URL: address + "&holdfast_table=processes"})
}

// Sessions whose default isolation is higher get serialization failures; the
// server has undone those statements, so they are repeated.
func TestSerializableSessions(t *testing.T) {
	s := open(t, pgtest.Need(t, server).URL("postgres")+"&default_transaction_isolation=serializable", "serializable")
	for _, c := range storetest.Cases() {
		switch c.Name {
		case "32 if-version have one winner", "compare-and-set counter", "guarded stock", "batch":
			if err := storetest.RunCase(t.Context(), s, c); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	}
}

// Many processes start at once on an empty database.
func TestOpenAtOnce(t *testing.T) {
	address := pgtest.Need(t, server).URL("postgres")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			b, err := postgres.Open(t.Context(), address, postgres.Options{Table: "public.at once"})
			if err != nil {
				t.Error(err)
				return
			}
			_ = b.Close()
		})
	}
	wg.Wait()
}

// The throwaway server does not sync, and the backend says so.
func TestDurableIsDeclaredHonestly(t *testing.T) {
	if open(t, pgtest.Need(t, server).URL("postgres"), "durable").Capabilities().Durable {
		t.Error("durable is declared on a server with fsync off")
	}
}

// Two batches over the same keys in opposite orders: neither deadlocks, and
// the keys never show half of one.
func TestBatchesInOppositeOrder(t *testing.T) {
	s := open(t, pgtest.Need(t, server).URL("postgres"), "batches")
	ctx := t.Context()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for n := range 40 {
				value := []byte{byte(w), byte(n)}
				ops := []store.Op{{Key: "a", Value: value}, {Key: "b", Value: value}}
				if w%2 == 1 {
					ops[0], ops[1] = ops[1], ops[0]
				}
				if _, err := s.Batch(ctx, ops); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	a, errA := s.Get(ctx, "a")
	b, errB := s.Get(ctx, "b")
	if err := errors.Join(errA, errB); err != nil || string(a.Value) != string(b.Value) {
		t.Errorf("a = %v, b = %v, %v", a.Value, b.Value, err)
	}
}

// A statement that waits for a row lock when the deadline comes was sent and
// may still take effect: unknown, soon after the deadline, not "failed".
func TestDeadlineWhileSent(t *testing.T) {
	address := pgtest.Need(t, server).URL("postgres")
	s := open(t, address, "deadline")
	ctx := t.Context()
	v, err := s.Put(ctx, "k", []byte("one"), store.None())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "BEGIN; SELECT 1 FROM deadline WHERE key = 'k' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = s.Put(short, "k", []byte("two"), store.IfVersion(v))
	if !errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrConflict) {
		t.Errorf("put behind a row lock: %v, want unknown by the deadline", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// What the server itself refused is certain not to be written.
func TestReportedErrorIsDefinite(t *testing.T) {
	address := pgtest.Need(t, server).URL("postgres")
	s := open(t, address, "refusing")
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "ALTER TABLE refusing ADD CHECK (key <> 'bad')"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Put(ctx, "bad", nil, store.None())
	if err == nil || errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("put: %v, want a definite failure", err)
	}
}

// cutter is a proxy in front of the server that can cut connections.
type cutter struct {
	listener net.Listener
	target   string
	// mode is what happens to the next write that passes: cutRequest drops it
	// and closes; cutAnswer lets the server do it and drops the answer.
	mode atomic.Int32
	wg   sync.WaitGroup
}

const (
	passAll int32 = iota
	cutRequest
	cutAnswer
	// cutCommit is cutAnswer for the next COMMIT.
	cutCommit
)

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: listener, target: target}
	c.wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("unix", target)
			if err != nil {
				t.Error(err)
				_ = client.Close()
				return
			}
			c.wg.Go(func() { c.upward(client, upstream) })
			c.wg.Go(func() { c.downward(client, upstream) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); c.wg.Wait() })
	return c
}

func (c *cutter) upward(client, upstream net.Conn) {
	defer client.Close()
	defer upstream.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		// The write under test is the only traffic while a cut is armed.
		if err != nil || c.mode.CompareAndSwap(cutRequest, passAll) {
			return
		}
		if bytes.Contains(buf[:n], []byte("commit\x00")) {
			c.mode.CompareAndSwap(cutCommit, cutAnswer)
		}
		if _, err := upstream.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (c *cutter) downward(client, upstream net.Conn) {
	defer client.Close()
	defer upstream.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := upstream.Read(buf)
		if err != nil || c.mode.CompareAndSwap(cutAnswer, passAll) {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// The connection is cut before the request or after the effect; the outcome is
// settled by the nonce where that is possible, and unknown where it is not.
func TestCutConnections(t *testing.T) {
	s := pgtest.Need(t, server)
	u, err := url.Parse(s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	c := newCutter(t, filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432"))
	address := "postgres://postgres@" + c.listener.Addr().String() + "/postgres?sslmode=disable&pool_max_conns=1"
	st := open(t, address, "cut")
	ctx := t.Context()
	// Statements are prepared on first use of a connection; cut them when
	// they are, so that the cut hits the execution.
	warm := func() {
		for _, cond := range []store.Condition{store.CreateOnly(), store.IfVersion("none")} {
			if _, err := st.Put(ctx, "warm", nil, cond); err != nil && !errors.Is(err, store.ErrConflict) {
				t.Fatal(err)
			}
		}
	}
	check := func(key string, mode int32, cond store.Condition, want error, holds string) {
		t.Helper()
		warm()
		c.mode.Store(mode)
		v, err := st.Put(ctx, key, []byte("new"), cond)
		if !errors.Is(err, want) || (want == nil && err != nil) {
			t.Errorf("%s: put: %v, want %v", key, err, want)
		}
		item, getErr := st.Get(ctx, key)
		if string(item.Value) != holds || (holds != "" && getErr != nil) {
			t.Errorf("%s: holds %q (%v), want %q", key, item.Value, getErr, holds)
		}
		if want == nil && item.Version != v {
			t.Errorf("%s: version %q, put returned %q", key, item.Version, v)
		}
	}
	check("create-answer", cutAnswer, store.CreateOnly(), nil, "new")
	check("create-request", cutRequest, store.CreateOnly(), store.ErrUnknownOutcome, "")
	for _, key := range []string{"replace-answer", "replace-request"} {
		v, err := st.Put(ctx, key, []byte("old"), store.CreateOnly())
		if err != nil {
			t.Fatal(err)
		}
		mode := cutAnswer
		if key == "replace-request" {
			mode = cutRequest
		}
		check(key, mode, store.IfVersion(v), nil, "new")
	}
}

// The server commits a batch and the answer is lost. pgx reports "conn closed"
// then, with the word that nothing was sent; believing it would call a batch that
// took effect a failure.
func TestLostCommitOfABatch(t *testing.T) {
	s := pgtest.Need(t, server)
	u, err := url.Parse(s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	c := newCutter(t, filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432"))
	st := open(t, "postgres://postgres@"+c.listener.Addr().String()+"/postgres?sslmode=disable&pool_max_conns=1", "cutbatch")
	ctx := t.Context()
	c.mode.Store(cutCommit)
	// The nonces are there, which settles it.
	versions, err := st.Batch(ctx, []store.Op{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2")}})
	item, getErr := st.Get(ctx, "b")
	if err != nil || getErr != nil || item.Version != versions[1] {
		t.Errorf("a batch of writes: %v; then %v, %v", err, item, getErr)
	}
	c.mode.Store(cutCommit)
	// Deletions leave nothing to recognise.
	_, err = st.Batch(ctx, []store.Op{{Key: "a", Delete: true}, {Key: "b", Delete: true}})
	if !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("a batch of deletions: %v", err)
	}
}

func TestClosed(t *testing.T) {
	b, err := postgres.Open(t.Context(), pgtest.Need(t, server).URL("postgres"), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = b.Close()
	_, getErr := b.Get(t.Context(), "k")
	_, putErr := b.Put(t.Context(), backend.PutRequest{Key: "k", Nonce: backend.NewNonce()})
	if !errors.Is(getErr, backend.ErrClosed) || !errors.Is(putErr, backend.ErrClosed) {
		t.Errorf("after close: get %v, put %v", getErr, putErr)
	}
}
