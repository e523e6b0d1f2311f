//go:build unix

// Package pgtest starts throwaway PostgreSQL servers for tests and benchmarks:
// a fresh cluster in memory-backed storage where there is some, reachable only
// by a Unix socket, gone at Stop.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNotInstalled says that no PostgreSQL server was found.
var ErrNotInstalled = errors.New("PostgreSQL is not installed: neither on PATH nor in /usr/lib/postgresql")

// Options are for Start. The zero value is for tests: memory-backed, unsynced.
type Options struct {
	// Dir is where the cluster goes; empty means /dev/shm if it is there,
	// else the temporary directory.
	Dir string
	// Durable keeps fsync on, for benchmarks of commits on a real disk.
	Durable bool
	// Settings are further server settings.
	Settings map[string]string
}

// Server is a running cluster.
type Server struct {
	dir    string
	cmd    *exec.Cmd
	exited chan error
}

// bin finds a server program.
func bin(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(found) == 0 {
		return "", ErrNotInstalled
	}
	slices.Sort(found)
	return found[len(found)-1], nil
}

// credential is the user to run as: PostgreSQL refuses to run as root.
func credential() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root and there is neither a user postgres nor nobody")
}

// Start makes a cluster and waits until it answers.
func Start(ctx context.Context, opts Options) (*Server, error) {
	initdb, err := bin("initdb")
	if err != nil {
		return nil, err
	}
	postgres, err := bin("postgres")
	if err != nil {
		return nil, err
	}
	cred, err := credential()
	if err != nil {
		return nil, err
	}
	parent := opts.Dir
	if parent == "" {
		if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
			parent = "/dev/shm"
		}
	}
	dir, err := os.MkdirTemp(parent, "holdfast-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, exited: make(chan error, 1)}
	if err := s.start(ctx, initdb, postgres, cred, opts); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, initdb, postgres string, cred *syscall.Credential, opts Options) error {
	if cred != nil {
		if err := os.Chown(s.dir, int(cred.Uid), int(cred.Gid)); err != nil {
			return err
		}
	}
	data := filepath.Join(s.dir, "data")
	cmd := exec.CommandContext(ctx, initdb, "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D", data)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	cmd.Dir = s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		if cred != nil && errors.Is(err, os.ErrPermission) {
			err = fmt.Errorf("%w (the server runs as uid %d, which must be able to enter %s and all directories above it)", err, cred.Uid, s.dir)
		}
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	settings := map[string]string{
		"listen_addresses": "", "unix_socket_directories": s.dir, "max_connections": "200",
		"fsync": "off", "log_min_messages": "panic", "autovacuum": "on",
	}
	if opts.Durable {
		settings["fsync"] = "on"
	}
	for name, value := range opts.Settings {
		settings[name] = value
	}
	args := []string{"-D", data}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	s.cmd = exec.Command(postgres, args...)
	s.cmd.Dir = s.dir
	s.cmd.Stderr = os.Stderr
	if err := s.run(cred); err != nil {
		s.cmd = nil
		return err
	}
	return s.waitReady(ctx)
}

// run starts the server and waits for its end on a thread of its own: the
// signal that ends it with this process is sent when the thread that started
// it ends, so that thread must stay.
func (s *Server) run(cred *syscall.Credential) error {
	s.cmd.SysProcAttr = serverAttr(cred)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			s.exited <- s.cmd.Wait()
		}
	}()
	return <-started
}

func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-tick.C:
		case exit := <-s.exited:
			s.exited <- exit
			return fmt.Errorf("the server ended at once: %w", errors.Join(exit, err))
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w", err)
		}
	}
}

// URL is the address of a database of the cluster.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@/%s?host=%s", url.PathEscape(database), url.QueryEscape(s.dir))
}

// Stop ends the server and removes the cluster.
func (s *Server) Stop() error {
	var err error
	if s.cmd != nil {
		// SIGQUIT is an immediate shutdown: nothing of the cluster is kept.
		if err = s.cmd.Process.Signal(syscall.SIGQUIT); errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
		<-s.exited
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Main starts a server, runs a package's tests and returns their exit code.
// Without PostgreSQL the tests that need it are skipped, with a line that says
// so; in CI (CI=true) that is a failure. run gets a nil server then.
func Main(run func(*Server) int) int {
	s, err := Start(context.Background(), Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		if !errors.Is(err, ErrNotInstalled) || strings.EqualFold(os.Getenv("CI"), "true") {
			return 1
		}
		return run(nil)
	}
	code := run(s)
	if err := s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return 1
	}
	return code
}

// Need returns the server or skips the test.
func Need(t testing.TB, s *Server) *Server {
	t.Helper()
	if s == nil {
		t.Skip("skipped: " + ErrNotInstalled.Error())
	}
	return s
}
