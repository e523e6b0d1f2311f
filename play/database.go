package play

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/play/app"
	"github.com/holdfast-dev/holdfast/play/gate"
	"github.com/holdfast-dev/holdfast/play/gate/postgres"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/explain"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/snapshot"
	"github.com/holdfast-dev/holdfast/play/oracle"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

// server is the PostgreSQL server of a play: a throwaway cluster, or the one
// that the scenario names.
type server struct {
	own    *cluster.Cluster
	admin  string // URL, without a database of ours
	number int    // of databases made so far
}

// startServer starts the throwaway cluster, or checks the named server.
func startServer(ctx context.Context, p *scenario.Postgres, vars scenario.Vars, log *slog.Logger) (*server, error) {
	if p.Server != "" {
		admin, err := scenario.Expand(p.Server, vars)
		return &server{admin: admin}, err
	}
	c, err := cluster.Start(ctx, cluster.Options{Logger: log})
	if err != nil {
		return nil, err
	}
	return &server{own: c, admin: c.URL("postgres")}, nil
}

func (s *server) stop(ctx context.Context) error {
	if s.own == nil {
		return nil
	}
	return s.own.Stop(ctx)
}

// url of a database of this server.
func (s *server) url(database string) (string, error) {
	if s.own != nil {
		return s.own.URL(database), nil
	}
	u, err := url.Parse(s.admin)
	if err != nil {
		return "", fmt.Errorf("read the URL in postgres.server: %w", err)
	}
	u.Path = "/" + database
	return u.String(), nil
}

// upstream is the address for the proxy.
func (s *server) upstream() (string, error) {
	if s.own != nil {
		return s.own.Addr(), nil
	}
	cfg, err := pgx.ParseConfig(s.admin)
	if err != nil {
		return "", fmt.Errorf("read the URL in postgres.server: %w", err)
	}
	if filepath.IsAbs(cfg.Host) {
		return fmt.Sprintf("unix:%s/.s.PGSQL.%d", cfg.Host, cfg.Port), nil
	}
	return fmt.Sprintf("%s:%d", cfg.Host, cfg.Port), nil
}

// exec runs statements on one database.
func (s *server) exec(ctx context.Context, database string, sqls ...string) error {
	u, err := s.url(database)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, u)
	if err != nil {
		return fmt.Errorf("connect to database %s: %w", database, err)
	}
	defer conn.Close(ctx)
	for _, q := range sqls {
		if _, err := conn.Exec(ctx, q, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	return nil
}

// database is one database behind its gate, with its recorded start state.
type database struct {
	server   *server
	name     string
	gate     *postgres.Gate
	analyzer *explain.Analyzer
	admin    *pgx.Conn // the snapshot's own
	asking   *pgx.Conn // for invariants; the snapshot changes its settings
	snapshot *snapshot.Snapshot
	ca       string
}

// createDatabase makes a fresh database with the scenario's schema and seed.
func createDatabase(ctx context.Context, s *server, sc *scenario.Scenario, vars scenario.Vars) (string, error) {
	name := sc.Postgres.Database
	if name == "" {
		name = "holdfast_play"
	}
	s.number++
	ident := pgx.Identifier{name}.Sanitize()
	if err := s.exec(ctx, maintenance(s), "DROP DATABASE IF EXISTS "+ident+" WITH (FORCE)", "CREATE DATABASE "+ident); err != nil {
		return "", fmt.Errorf("create database %s: %w", name, err)
	}
	for _, list := range []struct {
		key  string
		sqls scenario.SQLs
	}{{"schema", sc.Postgres.Schema}, {"seed", sc.Postgres.Seed}} {
		texts, err := sc.ReadSQL(list.sqls, vars)
		if err != nil {
			return "", err
		}
		if err := s.exec(ctx, name, texts...); err != nil {
			return "", fmt.Errorf("%s: postgres.%s: %w", sc.File, list.key, err)
		}
	}
	return name, nil
}

// maintenance is the database from which others are made.
func maintenance(s *server) string {
	if s.own != nil {
		return "postgres"
	}
	if cfg, err := pgx.ParseConfig(s.admin); err == nil && cfg.Database != "" {
		return cfg.Database
	}
	return "postgres"
}

// openDatabase puts a gate before a database.
func openDatabase(ctx context.Context, s *server, sc *scenario.Scenario, name, work string, sink func(gate.Event), log *slog.Logger) (d *database, err error) {
	d = &database{server: s, name: name}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close(ctx))
		}
	}()
	admin, err := s.url(name)
	if err != nil {
		return d, err
	}
	upstream, err := s.upstream()
	if err != nil {
		return d, err
	}
	if d.analyzer, err = explain.New(ctx, admin); err != nil {
		return d, err
	}
	d.gate, err = postgres.New(ctx, postgres.Config{Upstream: upstream, Admin: admin,
		TLS: sc.Postgres.TLS, Sink: sink, Analyzer: d.analyzer, Logger: log})
	if err != nil {
		return d, err
	}
	if sc.Postgres.TLS {
		d.ca = filepath.Join(work, "ca.pem")
		if err = os.WriteFile(d.ca, d.gate.CAPEM(), 0o644); err != nil {
			return d, err
		}
	}
	if d.admin, err = pgx.Connect(ctx, admin); err != nil {
		return d, err
	}
	d.asking, err = pgx.Connect(ctx, admin)
	return d, err
}

// vars are the placeholders of one instance's way to the gate.
func (d *database) vars(ctx context.Context) (scenario.Vars, error) {
	_, addr, err := d.gate.AddInstance(ctx)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse("postgres://" + addr + "/" + d.name)
	if err != nil {
		return nil, err
	}
	user, password := "postgres", ""
	if cfg, err := pgx.ParseConfig(d.server.admin); err == nil {
		user, password = cfg.User, cfg.Password
	}
	u.User = url.User(user)
	if password != "" {
		u.User = url.UserPassword(user, password)
	}
	mode := "disable"
	if d.ca != "" {
		mode = "require"
	}
	u.RawQuery = "sslmode=" + mode
	v := scenario.Vars{}
	for key, text := range map[string]string{"url": u.String(), "host": u.Hostname(), "port": u.Port(),
		"user": user, "password": password, "database": d.name, "ca": d.ca} {
		v["postgres."+key] = app.Value{Text: text}
	}
	return v, nil
}

// record takes the start state.
func (d *database) record(ctx context.Context, sc *scenario.Scenario) (err error) {
	d.snapshot, err = snapshot.Take(ctx, d.admin, snapshot.Options{Exclude: sc.Observe.Ignore})
	return err
}

// check asks a user's invariant.
func (d *database) check(ctx context.Context, sql string) (bool, error) {
	var holds *bool
	if err := d.asking.QueryRow(ctx, sql).Scan(&holds); err != nil {
		return false, err
	}
	return holds == nil || *holds, nil
}

// observe returns the tables to be compared.
func (d *database) observe(ctx context.Context, sc *scenario.Scenario, dirty []string) ([]oracle.Table, error) {
	tables, err := d.snapshot.Observe(ctx, dirty)
	if err != nil || len(sc.Observe.Tables) == 0 {
		return tables, err
	}
	wanted := map[string]bool{}
	for _, t := range sc.Observe.Tables {
		wanted[t] = true
	}
	var out []oracle.Table
	for _, t := range tables {
		if wanted[t.Name] {
			out = append(out, t)
		}
	}
	return out, nil
}

func (d *database) close(ctx context.Context) error {
	var errs []error
	if d.gate != nil {
		errs = append(errs, d.gate.Close())
	}
	if d.analyzer != nil {
		errs = append(errs, d.analyzer.Close())
	}
	for _, c := range []*pgx.Conn{d.admin, d.asking} {
		if c != nil {
			errs = append(errs, c.Close(ctx))
		}
	}
	return errors.Join(errs...)
}
