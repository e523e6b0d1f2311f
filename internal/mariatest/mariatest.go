// Package mariatest starts throwaway MariaDB servers, which stand for MySQL in
// tests: a fresh data directory in memory-backed storage where there is some,
// reachable only by a Unix socket, gone at Stop.
package mariatest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver of the tests
)

// ErrNotInstalled says that no MariaDB server was found.
var ErrNotInstalled = errors.New("MariaDB is not installed: mariadbd is not on PATH (Debian package mariadb-server-core)")

// Server is a running server.
type Server struct {
	dir    string
	cmd    *exec.Cmd
	exited chan error
}

// Start starts a server and waits until it answers.
func Start(ctx context.Context) (*Server, error) {
	path, err := exec.LookPath("mariadbd")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/mariadbd") // not on the PATH of everybody
	}
	if err != nil {
		return nil, ErrNotInstalled
	}
	parent := ""
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		parent = "/dev/shm"
	}
	dir, err := os.MkdirTemp(parent, "holdfast-maria-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, exited: make(chan error, 1)}
	if err := s.start(ctx, path); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, path string) error {
	data := filepath.Join(s.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	// Without the grant tables it starts on an empty directory. As root it wants
	// to be told that this is meant.
	args := []string{"--no-defaults", "--datadir=" + data, "--socket=" + filepath.Join(s.dir, "s"), "--skip-networking", "--skip-grant-tables",
		"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--max-connections=200", "--back-log=200"}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	s.cmd = exec.Command(path, args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = serverAttr()
	err = s.run()
	if cerr := log.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		s.cmd = nil
		return err
	}
	if err := s.ready(ctx); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("MariaDB does not answer: %w\n%s", err, text)
	}
	return nil
}

// run starts the server and waits for its end on a thread of its own: the signal
// that ends it with this process is sent when the thread that started it ends,
// so that thread must stay.
func (s *Server) run() error {
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

func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	db, err := sql.Open("mysql", s.DSN(""))
	if err != nil {
		return err
	}
	defer db.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case exit := <-s.exited:
			s.exited <- exit
			return fmt.Errorf("the server ended at once: %w", errors.Join(exit, err))
		case <-ctx.Done():
			return err
		}
	}
}

// DSN is the address of a database of the server for the driver "mysql".
func (s *Server) DSN(database string) string {
	return "root@unix(" + filepath.Join(s.dir, "s") + ")/" + database
}

// Stop ends the server and removes its data.
func (s *Server) Stop() error {
	if s.cmd != nil {
		// Nothing of it is kept, so it need not shut down in order.
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
	return os.RemoveAll(s.dir)
}

// Main starts a server, runs a package's tests and returns their exit code.
// Without MariaDB the tests that need it are skipped, with a line that says so;
// in CI (CI=true) that is a failure. run gets a nil server then.
func Main(run func(*Server) int) int {
	s, err := Start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "mariatest:", err)
		if !errors.Is(err, ErrNotInstalled) || strings.EqualFold(os.Getenv("CI"), "true") {
			return 1
		}
		return run(nil)
	}
	code := run(s)
	if err := s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "mariatest:", err)
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
