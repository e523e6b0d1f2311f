package store

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store/backend"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/mem"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// Scheme opens a backend for a URL of its scheme.
type Scheme func(ctx context.Context, u *url.URL) (Backend, error)

// OpenOption changes how [Open] works.
type OpenOption func(*opening)

type opening struct {
	schemes map[string]Scheme
	opts    Options
}

// WithScheme lets Open handle URLs of another scheme, or handle a known one
// differently. It is how a program adds a backend of its own, or one that is
// kept out of this module for its size, without a global registry.
func WithScheme(name string, open Scheme) OpenOption {
	return func(o *opening) { o.schemes[strings.ToLower(name)] = open }
}

// WithOptions sets the options of the opened store.
func WithOptions(opts Options) OpenOption {
	return func(o *opening) { o.opts = opts }
}

// Open opens the store that a URL names:
//
//	mem:                              memory of this process, gone at Close
//	file:///var/lib/app, file:state   a directory (absolute, relative)
//	sqlite:///var/lib/app/state.db    a SQLite file, made if it is absent
//	postgres://user@host/db           a PostgreSQL database; the parameter
//	                                  holdfast_table names the table
//
// A bad URL is *[InvalidError], which says what is wrong with it. Close the
// store when done.
func Open(ctx context.Context, rawURL string, options ...OpenOption) (*Store, error) {
	o := opening{schemes: map[string]Scheme{"mem": openMem, "file": openFile, "sqlite": openSQLite,
		"postgres": openPostgres, "postgresql": openPostgres}}
	for _, option := range options {
		option(&o)
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, badURL(rawURL, "it is not a URL; write a scheme and a colon first, such as file:///var/lib/app")
	}
	open, known := o.schemes[u.Scheme]
	if !known {
		return nil, badURL(rawURL, fmt.Sprintf("the scheme %q is none of %s", u.Scheme, strings.Join(schemeNames(o.schemes), ", ")))
	}
	b, err := open(ctx, u)
	if err != nil {
		return nil, err
	}
	return New(b, o.opts), nil
}

func schemeNames(schemes map[string]Scheme) []string {
	names := make([]string, 0, len(schemes))
	for name := range schemes {
		names = append(names, name+":")
	}
	slices.Sort(names)
	return names
}

// badURL keeps a password out of the message.
func badURL(raw, why string) error {
	shown := raw
	if u, err := url.Parse(raw); err == nil {
		shown = u.Redacted()
	} else if i := strings.IndexByte(raw, '@'); i >= 0 {
		shown = "…" + raw[i:]
	}
	return &backend.InvalidError{Op: "open store", What: fmt.Sprintf("URL %q", shown), Why: why}
}

func openMem(_ context.Context, u *url.URL) (Backend, error) {
	if u.Opaque != "" || u.Host != "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, badURL(u.String(), "a memory store has no name and no parameters, because each Open makes a new one; write mem:")
	}
	return mem.New(), nil
}

// localPath is the path of file:///abs, file:/abs, file:rel and
// file://localhost/abs.
func localPath(u *url.URL) (string, error) {
	if u.Host != "" && u.Host != "localhost" {
		return "", badURL(u.String(), fmt.Sprintf("%q stands where the host is; write three slashes for an absolute path and none for a relative one", u.Host))
	}
	path := u.Path
	if u.Opaque != "" {
		unescaped, err := url.PathUnescape(u.Opaque)
		if err != nil {
			return "", badURL(u.String(), err.Error())
		}
		path = unescaped
	}
	if path == "" || u.Fragment != "" {
		return "", badURL(u.String(), "it needs a path, and no fragment (write %23 for #)")
	}
	return path, nil
}

func noParameters(u *url.URL) error {
	for name := range u.Query() {
		return badURL(u.String(), fmt.Sprintf("the parameter %q is unknown", name))
	}
	return nil
}

func openFile(ctx context.Context, u *url.URL) (Backend, error) {
	path, err := localPath(u)
	if err == nil {
		err = noParameters(u)
	}
	if err != nil {
		return nil, err
	}
	return file.Open(ctx, path, file.Options{})
}

func openSQLite(ctx context.Context, u *url.URL) (Backend, error) {
	path, err := localPath(u)
	if err == nil {
		err = noParameters(u)
	}
	if err != nil {
		return nil, err
	}
	return sqlite.Open(ctx, path, sqlite.Options{})
}

func openPostgres(ctx context.Context, u *url.URL) (Backend, error) {
	const tableParameter = "holdfast_table"
	if u.Opaque != "" {
		return nil, badURL(u.String(), "write two slashes behind the scheme: postgres://user@host/database")
	}
	query := u.Query()
	table := query.Get(tableParameter)
	query.Del(tableParameter)
	address := *u
	address.RawQuery = query.Encode()
	return postgres.Open(ctx, address.String(), postgres.Options{Table: table})
}
