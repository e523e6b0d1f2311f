package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	loopback = "127.0.0.1"
	// defaultPort names the socket of a server without TCP; its folder is its
	// own, so nobody else has the same socket.
	defaultPort = 5432
	// portTries is how many free ports are tried: between the choice of a port
	// and the server's listen another process can take it.
	portTries = 5
	logLines  = 15
	// readyPoll is how often the server is asked whether it is up.
	readyPoll = 2 * time.Millisecond
)

// settings are Holdfast's own. Each has a reason:
//   - nothing is kept, so nothing is synced;
//   - nothing happens on its own, so that two runs of a schedule are alike;
//   - a deadlock is reported at once: waiting is what a play makes on purpose,
//     and every blocked step would else wait a second before it is told;
//   - errors of statements are not logged: a play makes thousands of them;
//   - shared memory segments lie in the folder, so that they go with it.
var settings = map[string]string{
	"archive_mode":                    "off",
	"autovacuum":                      "off",
	"checkpoint_timeout":              "1d",
	"deadlock_timeout":                "1ms",
	"dynamic_shared_memory_type":      "mmap",
	"fsync":                           "off",
	"full_page_writes":                "off",
	"jit":                             "off",
	"log_min_messages":                "log",
	"log_timezone":                    "UTC",
	"logging_collector":               "off",
	"max_connections":                 "200",
	"max_locks_per_transaction":       "128",
	"max_logical_replication_workers": "0",
	"max_parallel_workers_per_gather": "0",
	"max_prepared_transactions":       "10",
	"max_wal_senders":                 "0",
	"max_wal_size":                    "128MB",
	"min_wal_size":                    "16MB",
	"password_encryption":             "scram-sha-256",
	"shared_buffers":                  "64MB",
	"synchronous_commit":              "off",
	"timezone":                        "UTC",
	"update_process_title":            "off",
	"wal_level":                       "minimal",
}

// hba lets the socket in without a password (its folder is closed to others)
// and TCP with one: on 127.0.0.1 every user of the machine could connect, and
// a superuser may run programs as the server's user.
const hba = "local all all trust\nhost all all " + loopback + "/32 scram-sha-256\n"

// builder carries what the parts of a start need.
type builder struct {
	Options
	as      account
	folder  *folder
	version string
	log     *slog.Logger
}

func (b *builder) build(ctx context.Context) (*Cluster, error) {
	cached, saved, err := b.fillData(ctx)
	if err != nil {
		return nil, err
	}
	c, err := b.startServer(ctx)
	saved.Wait()
	var failed *StartError
	if !cached || !errors.As(err, &failed) || ctx.Err() != nil {
		return c, err
	}
	// The copy was whole and the server still does not like it: whatever the
	// reason, the cache must not be what fails a start.
	b.log.Debug("server did not start from the cached initdb; trying without", "err", err)
	b.NoCache = true
	if err := b.folder.empty(b.as); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	if _, _, err := b.fillData(ctx); err != nil {
		return nil, err
	}
	c, err = b.startServer(ctx)
	if err == nil {
		if path, perr := b.cachePath(); perr == nil {
			_ = os.Remove(path) // the next start makes a new one
		}
	}
	return c, err
}

// startServer starts postgres on the data folder, with another port when its
// port was taken meanwhile.
func (b *builder) startServer(ctx context.Context) (*Cluster, error) {
	if err := b.writeHBA(); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	for try := 1; ; try++ {
		port := 0
		if b.TCP {
			p, err := freePort(ctx)
			if err != nil {
				return nil, err
			}
			port = p
		}
		c, err := b.tryServer(ctx, port)
		var failed *StartError
		if port != 0 && try < portTries && errors.As(err, &failed) && portTaken(failed.Log) {
			b.log.Debug("port was taken meanwhile; trying another", "port", port)
			continue
		}
		return c, err
	}
}

// portTaken recognises the server's complaint; the log is in English because
// [serverEnv] says so.
func portTaken(log string) bool {
	return strings.Contains(log, "Address already in use")
}

func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return 0, fmt.Errorf("find a free port on %s for PostgreSQL: %w", loopback, err)
	}
	defer l.Close()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("find a free port on %s for PostgreSQL: unexpected address %v", loopback, l.Addr())
	}
	return addr.Port, nil
}

func (b *builder) tryServer(ctx context.Context, port int) (*Cluster, error) {
	began := time.Now()
	// The log is ours, not the server's user's, and starts anew with each try
	// so that an error shows this try's lines.
	log, err := os.OpenFile(b.folder.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(b.BinDir, "postgres"), b.serverArgs(port)...)
	cmd.Dir = b.folder.data
	cmd.Env = serverEnv(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = sysProcAttr(b.as)
	p, err := launch(cmd)
	if err != nil {
		return nil, &StartError{Program: "postgres", Err: b.hint(err)}
	}
	c := &Cluster{folder: b.folder, version: b.version, server: p, tcpPort: port, log: b.log}
	if err := b.ready(ctx, c); err != nil {
		p.stop(ctx)
		out, rerr := os.ReadFile(b.folder.log)
		return nil, &StartError{Program: "postgres", Log: tail(out, logLines), Err: errors.Join(err, rerr)}
	}
	b.log.Debug("server is up", "took", time.Since(began))
	return c, nil
}

func (b *builder) serverArgs(port int) []string {
	all := maps.Clone(settings)
	maps.Copy(all, b.Settings)
	// What follows is how the rest of the package finds the server.
	all["listen_addresses"] = ""
	if port != 0 {
		all["listen_addresses"] = loopback
	}
	all["port"] = strconv.Itoa(socketPort(port))
	all["unix_socket_directories"] = `"` + strings.ReplaceAll(b.folder.socket, `"`, `""`) + `"`
	all["unix_socket_permissions"] = "0700"
	args := []string{"-D", b.folder.data}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", k+"="+all[k])
	}
	return args
}

func socketPort(tcp int) int {
	if tcp == 0 {
		return defaultPort
	}
	return tcp
}

// serverEnv leaves out what would change a server or initdb (PGDATA, PGPORT,
// PGOPTIONS, ...) and asks for messages in English.
func serverEnv(env []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		for _, p := range []string{"PG", "LC_", "LANG", "TZ="} {
			if strings.HasPrefix(kv, p) {
				return true
			}
		}
		return false
	})
	return append(out, "LC_ALL=C", "TZ=UTC")
}

// ready waits until the server takes connections. postmaster.pid has a status
// line that postgres writes for exactly this question.
func (b *builder) ready(ctx context.Context, c *Cluster) error {
	status := filepath.Join(b.folder.data, "postmaster.pid")
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for !statusReady(status) {
		select {
		case <-tick.C:
		case <-c.server.done:
			return errors.New("the server ended at once")
		case <-ctx.Done():
			return fmt.Errorf("the server was not up in time: %w", ctx.Err())
		}
	}
	conn, err := pgx.Connect(ctx, c.URL(Superuser))
	if err != nil {
		return fmt.Errorf("the server is up but can not be reached: %w", err)
	}
	c.admin = conn
	if c.tcpPort == 0 {
		return nil
	}
	c.password = rand.Text()
	if _, err := conn.PgConn().Exec(ctx, "ALTER ROLE "+Superuser+" PASSWORD '"+c.password+"'").ReadAll(); err != nil {
		_ = conn.Close(ctx)
		return fmt.Errorf("set the password for TCP: %w", err)
	}
	return nil
}

func statusReady(path string) bool {
	b, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	lines := bytes.Split(b, []byte("\n"))
	return len(lines) > 7 && string(bytes.TrimSpace(lines[7])) == "ready"
}

func (b *builder) writeHBA() error {
	path := filepath.Join(b.folder.data, "pg_hba.conf")
	if err := os.WriteFile(path, []byte(hba), 0o600); err != nil {
		return err
	}
	return b.as.own(path)
}

// hint adds what to do when a program can not be run as the server's user.
func (b *builder) hint(err error) error {
	if b.as.other && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EPERM)) {
		return fmt.Errorf("%w (it has to run as user %s, because PostgreSQL refuses root: let that user run %s, "+
			"or run Holdfast as another user)", err, b.as.name, b.BinDir)
	}
	return err
}

// initdb makes the data folder.
func (b *builder) initdb(ctx context.Context) error {
	began := time.Now()
	var first error
	// C.UTF-8 is missing on macOS and on musl.
	for _, locale := range []string{"C.UTF-8", "C"} {
		err := b.initdbLocale(ctx, locale)
		if err == nil {
			b.log.Debug("initdb", "locale", locale, "took", time.Since(began))
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		if first == nil {
			first = err
		}
		if err := b.folder.empty(b.as); err != nil {
			return fmt.Errorf("start PostgreSQL: %w", err)
		}
	}
	return first
}

func (b *builder) initdbLocale(ctx context.Context, locale string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(b.BinDir, "initdb"),
		append(slices.Clone(initdbArgs), "--locale="+locale, "-D", b.folder.data)...)
	var out bytes.Buffer
	cmd.Dir = "/"
	cmd.Env = serverEnv(os.Environ())
	cmd.Stdout, cmd.Stderr = io.Writer(&out), &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: b.as.credential(), Setpgid: true}
	// initdb runs postgres as a child: end the whole group.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return &StartError{Program: "initdb", Log: tail(out.Bytes(), logLines), Err: b.hint(err)}
	}
	return nil
}

// initdbArgs decide, with the version, what a cached result is good for.
var initdbArgs = []string{"--no-sync", "--auth=trust", "--encoding=UTF8", "--wal-segsize=4", "--username=" + Superuser}
