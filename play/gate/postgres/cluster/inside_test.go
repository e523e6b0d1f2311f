package cluster

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func newBuilder(t *testing.T) *builder {
	t.Helper()
	bin, err := FindBinDir(t.Context())
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	version, err := binVersion(t.Context(), bin)
	if err != nil {
		t.Fatal(err)
	}
	as, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	f, err := newFolder("", as)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.remove(); err != nil {
			t.Error(err)
		}
	})
	return &builder{
		Options: Options{BinDir: bin, CacheDir: t.TempDir()},
		as:      as, folder: f, version: version, log: slog.New(slog.DiscardHandler),
	}
}

// TestCacheThatDoesNotStart: a cache with a good checksum of a folder that the
// server refuses must not fail the start, and must not stay.
func TestCacheThatDoesNotStart(t *testing.T) {
	b := newBuilder(t)
	if err := b.initdb(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(b.folder.data, "global/pg_control")); err != nil {
		t.Fatal(err)
	}
	packed, err := pack(b.folder.data)
	if err != nil {
		t.Fatal(err)
	}
	path, err := b.cachePath()
	if err != nil {
		t.Fatal(err)
	}
	if err := writeCache(path, packed); err != nil {
		t.Fatal(err)
	}
	if err := b.folder.empty(b.as); err != nil {
		t.Fatal(err)
	}
	c, err := b.build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.server.stop(t.Context())
	if _, err := os.Stat(path); err == nil {
		t.Error("the bad cache is still there")
	}
}

func TestPortTaken(t *testing.T) {
	b := newBuilder(t)
	b.CacheDir = ""
	if _, _, err := b.fillData(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = b.tryServer(t.Context(), l.Addr().(*net.TCPAddr).Port)
	var failed *StartError
	if !errors.As(err, &failed) || !portTaken(failed.Log) {
		t.Fatalf("a taken port is not recognised: %v", err)
	}
	p, err := freePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.tryServer(t.Context(), p)
	if err != nil {
		t.Fatalf("no second try on the same folder: %v", err)
	}
	c.server.stop(t.Context())
}

func TestFind(t *testing.T) {
	real := newBuilder(t).BinDir
	dir := t.TempDir()
	var missing *NotFoundError

	_, err := find(t.Context(), "", dir, []string{filepath.Join(dir, "*", "bin")})
	if !errors.As(err, &missing) {
		t.Fatalf("err = %v", err)
	}
	for _, want := range []string{"apt-get install postgresql", "HOLDFAST_PG_BIN", "scenario"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if _, err := find(t.Context(), dir, real, places[:]); !errors.As(err, &missing) || !strings.Contains(err.Error(), dir+": no initdb") {
		t.Errorf("a wrong HOLDFAST_PG_BIN was passed over: %v", err)
	}

	program := func(version, dir string) string {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"initdb", "postgres"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho 'postgres (PostgreSQL) "+version+"'\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	program("9.6.24", filepath.Join(dir, "99/bin")) // too old, whatever its folder says
	program("9.2.1", filepath.Join(dir, "9/bin"))
	want := program("16.1", filepath.Join(dir, "16/bin"))
	program("14.3", filepath.Join(dir, "14/bin"))
	got, err := find(t.Context(), "", "", []string{filepath.Join(dir, "*", "bin")})
	if err != nil || got != want {
		t.Errorf("found %q %v, want %q", got, err, want)
	}
	links := filepath.Join(dir, "links")
	if err := os.Mkdir(links, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(want, "postgres"), filepath.Join(links, "postgres")); err != nil {
		t.Fatal(err)
	}
	if got, err := find(t.Context(), "", links, nil); err != nil || got != want {
		t.Errorf("by PATH found %q %v, want %q", got, err, want)
	}
}

func TestSweepSparesTheLiving(t *testing.T) {
	as, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	living, err := newFolder(dir, as)
	if err != nil {
		t.Fatal(err)
	}
	dead, err := newFolder(dir, as)
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.lock.Close(); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, prefix+"without-lock")
	if err := os.Mkdir(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	sweep(dir, as)
	if _, err := os.Stat(living.data); err != nil {
		t.Errorf("the folder of a living owner was removed: %v", err)
	}
	if _, err := os.Stat(dead.path); err == nil {
		t.Error("the folder of a dead owner is still there")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a folder without a lock was removed: %v", err)
	}
	if err := living.remove(); err != nil {
		t.Error(err)
	}
}

// helperEnv makes the test binary the program that TestDiesWithParent kills.
const helperEnv = "HOLDFAST_TEST_CLUSTER_PARENT"

func TestHelperParent(t *testing.T) {
	dir := os.Getenv(helperEnv)
	if dir == "" {
		t.Skip("runs as a child of TestDiesWithParent only")
	}
	c, err := Start(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.WriteString(c.Folder() + "\n"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed
}

func TestDiesWithParent(t *testing.T) {
	newBuilder(t) // skips without PostgreSQL
	dir, err := os.MkdirTemp("/tmp", "holdfast-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHelperParent$")
	cmd.Env = append(os.Environ(), helperEnv+"="+dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := stdout.Read(buf)
	folder := strings.TrimSpace(string(buf[:n]))
	if err != nil || !strings.HasPrefix(folder, dir) {
		t.Fatalf("the child said %q (%v)", folder, err)
	}
	data := filepath.Join(folder, "data")
	if !serverAlive(data) {
		t.Fatal("the child's server does not run")
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for serverAlive(data) {
		select {
		case <-ctx.Done():
			t.Fatal("the server outlives its parent")
		case <-time.After(10 * time.Millisecond):
		}
	}
	as, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	sweep(dir, as)
	if _, err := os.Stat(folder); err == nil {
		t.Error("the next start leaves the dead one's folder")
	}
}
