// Package effectfront is the front end for files in the text form of package
// effect (*.effect): for languages that have no front end of their own yet, and
// for tests.
//
// # Model
//
// Each pattern that names a file ending in .effect, or a folder holding some,
// is read. Steps without a place get that of their line's file.
//
// # Promise and limits
//
// A file that does not parse is a Problem with its place; the rest is analysed.
package effectfront

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/front"
)

// FrontEnd reads *.effect files.
type FrontEnd struct{}

// Name is "effect".
func (FrontEnd) Name() string { return "effect" }

// Analyze reads the files that the patterns name.
func (FrontEnd) Analyze(ctx context.Context, r front.Request) (*front.Result, error) {
	out := &front.Result{Program: &effect.Program{Schema: effect.Schema{Tables: map[string]*effect.Table{}}, Funcs: map[string]*effect.Func{}}}
	for _, pattern := range r.Patterns {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		full := pattern
		if !filepath.IsAbs(full) {
			full = filepath.Join(r.Dir, pattern)
		}
		files := []string{full}
		if !strings.HasSuffix(full, ".effect") {
			files, _ = filepath.Glob(filepath.Join(full, "*.effect"))
		}
		for _, f := range files {
			read(out, r.Dir, f)
		}
	}
	return out, nil
}

func read(out *front.Result, dir, file string) {
	name := file
	if rel, err := filepath.Rel(dir, file); err == nil {
		name = filepath.ToSlash(rel)
	}
	b, err := os.ReadFile(file)
	if err == nil {
		var p *effect.Program
		if p, err = effect.Parse(string(b)); err == nil {
			out.Packages++
			out.Lines += strings.Count(string(b), "\n")
			add(out, p, name)
			return
		}
	}
	out.Problems = append(out.Problems, front.Problem{Pos: effect.Pos{File: name}, Text: err.Error()})
}

func add(out *front.Result, p *effect.Program, name string) {
	place := func(b effect.Block) {
		b.Walk(func(s *effect.Step) bool {
			if s.Pos.IsZero() {
				s.Pos.File = name
			}
			return true
		})
	}
	for i := range p.Entries {
		place(p.Entries[i].Body)
		if p.Entries[i].Pos.IsZero() {
			p.Entries[i].Pos.File = name
		}
	}
	for _, f := range p.Funcs {
		place(f.Body)
	}
	to := out.Program
	to.Entries = append(to.Entries, p.Entries...)
	maps.Copy(to.Funcs, p.Funcs)
	maps.Copy(to.Schema.Tables, p.Schema.Tables)
	if p.Module != "" {
		to.Module = p.Module
	}
	if p.Deploy != (effect.Deployment{}) {
		to.Deploy = p.Deploy
	}
	slices.SortStableFunc(to.Entries, func(a, b effect.Entry) int { return strings.Compare(a.ID, b.ID) })
}
