package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster/clustertest"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func query(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	var s string
	if err := conn.QueryRow(t.Context(), sql).Scan(&s); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return s
}

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there (%v)", path, err)
	}
}

func TestLife(t *testing.T) {
	c := clustertest.Start(t, cluster.Options{Settings: map[string]string{"work_mem": "7MB"}})
	conn := connect(t, c.URL("postgres"))
	for setting, want := range map[string]string{
		"server_version":   c.Version(),
		"deadlock_timeout": "1ms",
		"fsync":            "off",
		"autovacuum":       "off",
		"listen_addresses": "",
		"TimeZone":         "UTC",
		"server_encoding":  "UTF8",
		"work_mem":         "7MB",
	} {
		if got, _, _ := strings.Cut(query(t, conn, "SHOW "+setting), " ("); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	if got := query(t, conn, "SELECT usesuper::text FROM pg_user WHERE usename = current_user"); got != "true" {
		t.Errorf("superuser = %s", got)
	}
	socket, ok := strings.CutPrefix(c.Addr(), "unix:")
	if !ok || len(socket) >= 100 {
		t.Errorf("Addr() = %q: want a short socket path", c.Addr())
	}
	raw, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatalf("the proxy's way: %v", err)
	}
	_ = raw.Close()
	if fi, err := os.Stat(filepath.Dir(socket)); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("the socket's folder is open to others: %v %v", fi, err)
	}

	ctx := t.Context()
	if err := c.CreateDatabase(ctx, `te"mplate`, ""); err != nil {
		t.Fatal(err)
	}
	tmpl := connect(t, c.URL(`te"mplate`))
	if _, err := tmpl.Exec(ctx, "CREATE TABLE t AS SELECT 7 AS x"); err != nil {
		t.Fatal(err)
	}
	_ = tmpl.Close(ctx)
	if err := c.CreateDatabase(ctx, "copy", `te"mplate`); err != nil {
		t.Fatal(err)
	}
	inCopy := connect(t, c.URL("copy"))
	if got := query(t, inCopy, "SELECT x::text FROM t"); got != "7" {
		t.Errorf("the copy has %s", got)
	}
	for range 2 { // the second time there is nothing to drop
		if err := c.DropDatabase(ctx, "copy"); err != nil {
			t.Fatal(err)
		}
	}
	if err := inCopy.Ping(ctx); err == nil {
		t.Error("a session survived the drop of its database")
	}

	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(ctx); err != nil {
		t.Fatalf("second Stop: %v", err)
	}
	<-c.Done()
	gone(t, c.Folder())
	if err := c.CreateDatabase(ctx, "late", ""); err == nil {
		t.Error("CreateDatabase worked after Stop")
	}
}

func TestTCPNeedsPassword(t *testing.T) {
	c := clustertest.Start(t, cluster.Options{TCP: true})
	conn := connect(t, c.TCPURL("postgres"))
	if got := query(t, conn, "SELECT host(inet_server_addr())"); got != "127.0.0.1" {
		t.Errorf("server address %s", got)
	}
	cfg := conn.Config().Copy()
	cfg.Password = "wrong"
	if other, err := pgx.ConnectConfig(t.Context(), cfg); err == nil {
		_ = other.Close(t.Context())
		t.Error("the superuser got in over TCP with a wrong password")
	}
	// The socket keeps working beside it.
	connect(t, c.URL("postgres"))
}

func TestLongFolder(t *testing.T) {
	// t.TempDir is closed to other users, and root's server is one.
	top, err := os.MkdirTemp("/tmp", "holdfast-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	dir := filepath.Join(top, strings.Repeat("long/", 30))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	c := clustertest.Start(t, cluster.Options{Dir: dir})
	if !strings.HasPrefix(c.Folder(), dir) {
		t.Errorf("folder %s is not in %s", c.Folder(), dir)
	}
	connect(t, c.URL("postgres"))
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone(t, filepath.Dir(strings.TrimPrefix(c.Addr(), "unix:")))
}

func TestStartErrorHasLog(t *testing.T) {
	dir := parent(t)
	_, err := cluster.Start(t.Context(), cluster.Options{Dir: dir, Settings: map[string]string{"shared_buffers": "a lot"}})
	clustertest.Missing(t, err)
	var failed *cluster.StartError
	if !errors.As(err, &failed) || failed.Program != "postgres" || !strings.Contains(err.Error(), `invalid value for parameter "shared_buffers"`) {
		t.Errorf("error without the server's reason: %v", err)
	}
	empty(t, dir)
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	clustertest.Start(t, cluster.Options{CacheDir: cache}) // skips without PostgreSQL
	dir := parent(t)
	log := &record{stop: "data folder copied from cache"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log.hit = cancel
	c, err := cluster.Start(ctx, cluster.Options{Dir: dir, CacheDir: cache, Logger: slog.New(log)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	if err == nil {
		_ = c.Stop(t.Context())
	}
	empty(t, dir)
}

// parent is a folder for clusters that the server's user can reach.
func parent(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "holdfast-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind in %s: %v %v", dir, left, err)
	}
}

// record is a slog handler that keeps the messages.
type record struct {
	mu   sync.Mutex
	msgs []string
	stop string // calls hit at this message
	hit  func()
}

func (r *record) Enabled(context.Context, slog.Level) bool { return true }
func (r *record) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *record) WithGroup(string) slog.Handler            { return r }
func (r *record) Handle(_ context.Context, m slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.msgs = append(r.msgs, m.Message)
	if r.hit != nil && m.Message == r.stop {
		r.hit()
	}
	return nil
}

func (r *record) has(msg string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.msgs {
		if m == msg {
			return true
		}
	}
	return false
}

// startWith starts and stops a cluster and tells whether initdb ran.
func startWith(t *testing.T, cache string) (initdb bool) {
	t.Helper()
	log := new(record)
	c := clustertest.Start(t, cluster.Options{CacheDir: cache, Logger: slog.New(log)})
	connect(t, c.URL("postgres"))
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return log.has("initdb")
}

func TestCache(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "new")
	var wg sync.WaitGroup
	for range 2 { // both find no cache and make it
		wg.Go(func() { startWith(t, cache) })
	}
	wg.Wait()
	files, err := os.ReadDir(cache)
	if err != nil || len(files) != 1 {
		t.Fatalf("cache has %v %v, want one file", files, err)
	}
	file := filepath.Join(cache, files[0].Name())
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if startWith(t, cache) {
		t.Error("initdb ran although there is a cache")
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for name, bad := range map[string][]byte{
		"cut off": good[:len(good)/2], "one bit flipped": flipped,
	} {
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if !startWith(t, cache) {
			t.Errorf("%s: initdb did not run", name)
		}
		if startWith(t, cache) {
			t.Errorf("%s: the cache was not rebuilt", name)
		}
	}
}

func TestCacheThatCanNotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !startWith(t, file) { // a file where the folder should be
		t.Error("initdb did not run")
	}
}

func BenchmarkStart(b *testing.B) {
	for _, bm := range []struct {
		name string
		o    cluster.Options
	}{{"cache", cluster.Options{}}, {"initdb", cluster.Options{NoCache: true}}} {
		b.Run(bm.name, func(b *testing.B) {
			clustertest.Start(b, bm.o) // fills the cache, warms the file system
			for b.Loop() {
				c := clustertest.Start(b, bm.o)
				b.StopTimer()
				if err := c.Stop(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
