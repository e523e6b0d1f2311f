// Package cluster starts a throwaway PostgreSQL server that Holdfast owns.
//
// # Model
//
// One [Cluster] is one folder and one postgres process. The folder has the
// data, the socket, the server's log and a lock file; nothing of the server
// lies outside of it. The server listens on a unix socket that only its own
// user (and root) can reach, so "trust" lets nobody else in; on request it
// listens on 127.0.0.1 too, with a password made for this one server.
//
// The data is meant to be lost: nothing is synced, and the folder lies in
// memory-backed storage where there is enough of it. The settings favour a
// short start and a server that does nothing on its own (no autovacuum, no
// parallel workers, UTC, the lowest deadlock_timeout), because a play must
// find the same schedule twice.
//
// # Promise
//
// The server ends with [Cluster.Stop], and on Linux also when the Holdfast
// process dies in any way, SIGKILL included. A folder whose owner died without
// Stop is removed by the next Start with the same parent folder: its lock is
// then free.
//
// # Limits
//
// PostgreSQL 13 or later, on Linux or another Unix. On systems other than
// Linux a server outlives a Holdfast that is killed by SIGKILL. PostgreSQL
// refuses to run as root; started by root it runs as user postgres, else as
// nobody, and needs the right to change user.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Superuser is the only role of a new cluster.
const Superuser = "postgres"

// stopGrace is how long the server may take to end after SIGQUIT before it is
// killed; stopLeast is how long even when the caller's context is over. It
// needs a few milliseconds; postgres itself gives its children 5 s.
const (
	stopGrace = 6 * time.Second
	stopLeast = 250 * time.Millisecond
)

// Options say how to start a cluster. The zero value is useful.
type Options struct {
	// BinDir has the programs initdb and postgres. Empty: see [FindBinDir].
	BinDir string
	// Dir is the parent of the cluster's folder. Empty: /dev/shm if that is
	// writable and has at least 512 MB free, else os.TempDir.
	Dir string
	// Settings are server settings (postgresql.conf) that go before Holdfast's
	// own.
	Settings map[string]string
	// TCP makes the server listen on 127.0.0.1 as well; see [Cluster.TCPURL].
	TCP bool
	// CacheDir is where the result of initdb is kept. Empty: the folder
	// "holdfast" in os.UserCacheDir.
	CacheDir string
	// NoCache runs initdb each time.
	NoCache bool
	// Logger hears how long each part of the start took (level Debug). Nil: nobody.
	Logger *slog.Logger
}

// Cluster is a running server. Its methods may be called by many goroutines.
type Cluster struct {
	folder   *folder
	version  string
	server   *process
	tcpPort  int
	password string
	log      *slog.Logger

	mu      sync.Mutex // guards admin, stopped, stopErr; held while admin is used
	admin   *pgx.Conn
	stopped bool
	stopErr error
}

// Start makes a new cluster and returns when it takes connections. When ctx
// ends before that, everything is undone. The end of ctx after Start has
// returned does nothing.
//
// Errors: [*NotFoundError] when there is no PostgreSQL, [*StartError] with the
// last lines of the output or log when initdb or the server failed.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	began := time.Now()
	if o.BinDir == "" {
		dir, err := FindBinDir(ctx)
		if err != nil {
			return nil, err
		}
		o.BinDir = dir
	}
	version, err := binVersion(ctx, o.BinDir)
	if err != nil {
		return nil, err
	}
	as, err := serverAccount()
	if err != nil {
		return nil, err
	}
	f, err := newFolder(o.Dir, as)
	if err != nil {
		return nil, err
	}
	b := builder{Options: o, as: as, folder: f, version: version, log: log}
	c, err := b.build(ctx)
	if err != nil {
		return nil, errors.Join(err, f.remove())
	}
	log.Debug("PostgreSQL started", "version", version, "folder", f.path, "took", time.Since(began))
	return c, nil
}

// Stop ends the server at once (an immediate shutdown: clients are cut off)
// and removes its folder. When ctx ends before the server does, it is killed.
// Only the first call does anything; later calls return the same error.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return c.stopErr
	}
	c.stopped = true
	if c.admin != nil {
		// The server is about to cut the connection off anyway; without this
		// the socket would stay open in our process.
		_ = c.admin.PgConn().Conn().Close()
		c.admin = nil
	}
	c.server.stop(ctx)
	c.stopErr = c.folder.remove()
	return c.stopErr
}

// Done is closed when the server has ended, by Stop or by itself.
func (c *Cluster) Done() <-chan struct{} { return c.server.done }

// Version is the server's version, such as "15.18".
func (c *Cluster) Version() string { return c.version }

// Folder is the cluster's folder; it has the server's log, "server.log".
func (c *Cluster) Folder() string { return c.folder.path }

// Addr is where the server listens, as "unix:" and the path of the socket.
func (c *Cluster) Addr() string {
	return "unix:" + filepath.Join(c.folder.socket, ".s.PGSQL."+strconv.Itoa(socketPort(c.tcpPort)))
}

// URL is the connection string of a database for the superuser, over the unix
// socket, without a password.
func (c *Cluster) URL(database string) string {
	q := url.Values{
		"host":    {c.folder.socket},
		"port":    {strconv.Itoa(socketPort(c.tcpPort))},
		"sslmode": {"disable"},
	}
	u := url.URL{Scheme: "postgres", User: url.User(Superuser), Path: "/" + database, RawQuery: q.Encode()}
	return u.String()
}

// TCPURL is the connection string of a database for the superuser over
// 127.0.0.1, password included; empty without [Options.TCP].
func (c *Cluster) TCPURL(database string) string {
	if c.tcpPort == 0 {
		return ""
	}
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(Superuser, c.password),
		Host:     net.JoinHostPort(loopback, strconv.Itoa(c.tcpPort)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// CreateDatabase makes a database as a copy of another one (template; empty is
// PostgreSQL's own). Nobody may be connected to the template meanwhile;
// PostgreSQL waits up to 5 s for sessions to leave it and then fails.
func (c *Cluster) CreateDatabase(ctx context.Context, name, template string) error {
	q := "CREATE DATABASE " + quote(name)
	if template != "" {
		q += " TEMPLATE " + quote(template)
	}
	if major(c.version) >= 15 {
		// The other strategy writes every page to the log as well.
		q += " STRATEGY file_copy"
	}
	return c.exec(ctx, q, "create database "+name)
}

// DropDatabase removes a database if it exists; sessions in it are cut off.
func (c *Cluster) DropDatabase(ctx context.Context, name string) error {
	return c.exec(ctx, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)", "drop database "+name)
}

// exec runs one command on the side connection, which it makes when there is
// none. A caller's ctx that ends breaks the connection; the next call makes a
// new one.
func (c *Cluster) exec(ctx context.Context, sql, what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return fmt.Errorf("%s: the cluster was stopped", what)
	}
	if c.admin == nil || c.admin.IsClosed() {
		conn, err := pgx.Connect(ctx, c.URL(Superuser))
		if err != nil {
			return fmt.Errorf("%s: connect to Holdfast's own server: %w", what, err)
		}
		c.admin = conn
	}
	// The simple protocol: these commands are not allowed in a transaction and
	// each has another text, so preparing them would only cost a round trip.
	if _, err := c.admin.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// process is the running server and the goroutine that waits for it.
type process struct {
	signal func(os.Signal) error
	done   chan struct{}
}

// stop ends the process and returns when it has ended. Even when ctx is over
// the server gets a moment: killed, it would leave children that still write
// to the folder, and a piece of shared memory.
func (p *process) stop(ctx context.Context) {
	_ = p.signal(syscall.SIGQUIT) // an error means that it has ended already
	if p.ended(context.Background(), stopLeast) || p.ended(ctx, stopGrace) {
		return
	}
	_ = p.signal(syscall.SIGKILL)
	<-p.done
}

// ended waits for the end of the process, ctx or the time d.
func (p *process) ended(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}
