package golang

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/review/deploy"
	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/front"
	"github.com/holdfast-dev/holdfast/review/sql"
)

// Options of the front end; the zero value is ready to use.
type Options struct {
	Env        []string // further environment of the go command
	BuildFlags []string // for example -tags=integration
}

// FrontEnd analyses Go.
type FrontEnd struct{ opts Options }

// New makes a front end.
func New(o Options) *FrontEnd { return &FrontEnd{opts: o} }

// Name is "go".
func (*FrontEnd) Name() string { return "go" }

var _ front.FrontEnd = (*FrontEnd)(nil)

// Analyze loads and evaluates what the request names.
func (f *FrontEnd) Analyze(ctx context.Context, r front.Request) (*front.Result, error) {
	p := &effect.Program{}
	named := len(r.Patterns)
	r.Patterns = slices.DeleteFunc(slices.Clone(r.Patterns), func(s string) bool { return strings.HasSuffix(s, ".effect") })
	if named > 0 && len(r.Patterns) == 0 {
		return &front.Result{Program: p}, nil // nothing of it is Go
	}
	if !r.SkipRepo {
		s, err := sql.ReadDir(ctx, r.Dir)
		if err != nil {
			return nil, fmt.Errorf("read schema files in %s: %w", r.Dir, err)
		}
		p.Schema = *s
		d, err := deploy.ReadDir(ctx, r.Dir)
		if err != nil {
			return nil, fmt.Errorf("read deployment files in %s: %w", r.Dir, err)
		}
		p.Deploy = *d
	}
	w, err := load(ctx, r, f.opts)
	if err != nil {
		return nil, err
	}
	b := newBuilder(w, p)
	if err := b.run(ctx); err != nil {
		return nil, err
	}
	return &front.Result{Program: p, Problems: w.problems, Ignores: w.ignores, Packages: len(w.pkgs), Lines: w.lines}, nil
}
