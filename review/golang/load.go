package golang

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/front"
)

// Only the packages in scope are loaded from source; all others come as export
// data, which the go command has in its cache.
const loadMode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
	packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedModule

// ErrNothing is returned when no package could be loaded at all.
var ErrNothing = errors.New("no Go package could be loaded")

// declared is a function of the analysed packages.
type declared struct {
	id   string
	decl *ast.FuncDecl
	info *types.Info
	pkg  *packages.Package
	obj  *types.Func
	root bool // contains an effect itself
	soft bool // moves data in a way that matters if it is given a file, a request, an address
	gen  bool // generated
}

// world is what is known of all analysed packages.
type world struct {
	dir      string
	fset     *token.FileSet
	pkgs     []*packages.Package
	funcs    map[string]*declared
	effects  map[string]bool            // functions from which an effect can be reached
	softs    map[string]bool            // likewise, for what only moves data
	methods  map[string][]*declared     // by method name, for calls through interfaces
	written  map[string]bool            // "pkg.Type.field" and "pkg.var" that are changed after construction
	infos    map[*ast.FuncLit]*declared // the function around a literal
	problems []front.Problem
	ignores  []front.Ignore
	lines    int
	module   string

	circle      map[string]int  // see cycles
	sharedTypes map[string]bool // see shareTypes
	implCache   map[*types.Func][]*declared
	valueFuncs  map[string][]*declared // see variants
	ownPkgs     map[string]bool
	sources     map[string][]byte
}

func load(ctx context.Context, r front.Request, o Options) (*world, error) {
	w := &world{dir: r.Dir, fset: token.NewFileSet(), funcs: map[string]*declared{}, effects: map[string]bool{}, softs: map[string]bool{},
		methods: map[string][]*declared{}, written: map[string]bool{}, infos: map[*ast.FuncLit]*declared{},
		implCache: map[*types.Func][]*declared{}, sources: map[string][]byte{}}
	patterns := r.Patterns
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	cfg := &packages.Config{Mode: loadMode, Context: ctx, Dir: r.Dir, Fset: w.fset, BuildFlags: o.BuildFlags}
	if len(o.Env) > 0 {
		cfg.Env = append(os.Environ(), o.Env...)
	}
	pkgs, err := packages.Load(cfg, patterns...)
	if err != nil {
		return nil, fmt.Errorf("load %s in %s: %w", strings.Join(patterns, " "), r.Dir, err)
	}
	sort.Slice(pkgs, func(i, j int) bool { return pkgs[i].PkgPath < pkgs[j].PkgPath })
	for _, p := range pkgs {
		if !shown(p.PkgPath) || named(patterns) {
			w.add(p)
		}
	}
	if len(pkgs) > 0 && len(w.pkgs) == 0 && len(w.problems) > 0 {
		return w, fmt.Errorf("%w: %s", ErrNothing, w.problems[0].Text)
	}
	return w, nil
}

// shown reports whether a package lies in a folder of examples. They show things,
// right ones and wrong ones, and nobody runs them in production.
func shown(path string) bool {
	for e := range strings.SplitSeq(path, "/") {
		if e == "examples" || e == "_examples" || e == "example" {
			return true
		}
	}
	return false
}

// named reports whether a pattern asks for examples.
func named(patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return shown(strings.TrimSuffix(p, "/...")) })
}

// add takes a package in. One that does not compile is a problem; what its
// syntax and the part that type-checks give is analysed all the same.
func (w *world) add(p *packages.Package) {
	for _, e := range p.Errors {
		if len(p.Errors) > 1 && strings.HasPrefix(e.Msg, "# ") {
			continue // the compiler's output as a whole; its lines come one by one
		}
		w.problems = append(w.problems, front.Problem{Pos: w.errorPos(e.Pos), Text: p.PkgPath + ": " + e.Msg})
	}
	if p.Types == nil || p.TypesInfo == nil || len(p.Syntax) == 0 {
		return
	}
	w.pkgs = append(w.pkgs, p)
	if w.module == "" && p.Module != nil {
		w.module = p.Module.Path
	}
	for _, f := range p.Syntax {
		w.lines += w.fset.File(f.FileStart).LineCount()
		w.collectIgnores(f)
		generated := ast.IsGenerated(f)
		for _, d := range f.Decls {
			fd, ok := d.(*ast.FuncDecl)
			if !ok || fd.Body == nil {
				continue
			}
			obj, _ := p.TypesInfo.Defs[fd.Name].(*types.Func)
			if obj == nil {
				continue
			}
			d := &declared{id: funcID(obj), decl: fd, info: p.TypesInfo, pkg: p, obj: obj, gen: generated}
			if fd.Name.Name == "init" || fd.Name.Name == "_" {
				d.id += fmt.Sprintf("#%d", w.fset.Position(fd.Pos()).Line)
			}
			w.funcs[d.id] = d
			if fd.Recv != nil {
				w.methods[fd.Name.Name] = append(w.methods[fd.Name.Name], d)
			}
		}
	}
}

func (w *world) collectIgnores(f *ast.File) {
	for _, g := range f.Comments {
		for _, c := range g.List {
			text, ok := strings.CutPrefix(c.Text, "//holdfast:ignore")
			if !ok {
				continue
			}
			rule, reason, _ := strings.Cut(strings.TrimSpace(text), " ")
			w.ignores = append(w.ignores, front.Ignore{Pos: w.pos(c.Pos()), Rule: rule, Reason: strings.TrimSpace(reason)})
		}
	}
}

// pos is a place relative to the analysed folder.
func (w *world) pos(p token.Pos) effect.Pos {
	if !p.IsValid() {
		return effect.Pos{}
	}
	at := w.fset.Position(p)
	return effect.Pos{File: w.rel(at.Filename), Line: at.Line, Col: at.Column}
}

func (w *world) rel(name string) string {
	if r, err := filepath.Rel(w.dir, name); err == nil && !strings.HasPrefix(r, "..") {
		name = r
	}
	return filepath.ToSlash(name)
}

// errorPos reads the place of a message of the go command: file:line:col.
func (w *world) errorPos(s string) effect.Pos {
	parts := strings.Split(s, ":")
	if len(parts) < 2 || s == "-" {
		return effect.Pos{}
	}
	var p effect.Pos
	p.File = w.rel(parts[0])
	fmt.Sscan(parts[1], &p.Line)
	if len(parts) > 2 {
		fmt.Sscan(parts[2], &p.Col)
	}
	return p
}

// funcID is the name of a function that is the same in every package that uses
// it: path.Name, path.(*Type).Name, path.Type.Name.
func funcID(f *types.Func) string {
	f = f.Origin()
	pkg := ""
	if f.Pkg() != nil {
		pkg = f.Pkg().Path()
	}
	recv := f.Signature().Recv()
	if recv == nil {
		return pkg + "." + f.Name()
	}
	t, star := recv.Type(), false
	if p, ok := t.(*types.Pointer); ok {
		t, star = p.Elem(), true
	}
	name := "interface"
	if n, ok := types.Unalias(t).(*types.Named); ok {
		name = n.Obj().Name()
		if n.Obj().Pkg() != nil {
			pkg = n.Obj().Pkg().Path()
		}
	}
	if star {
		return pkg + ".(*" + name + ")." + f.Name()
	}
	return pkg + "." + name + "." + f.Name()
}

// typeName is pkgpath.Name of a named type or of what it points to; empty for
// others.
func typeName(t types.Type) string {
	if t == nil {
		return ""
	}
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	n, ok := t.(*types.Named)
	if !ok {
		return ""
	}
	if n.Obj().Pkg() == nil {
		return n.Obj().Name()
	}
	return n.Obj().Pkg().Path() + "." + n.Obj().Name()
}

// shortName is the name of a type or function as people write it: the last
// element of the package path and the name.
func shortName(full string) string {
	i := strings.LastIndexByte(full, '/')
	return full[i+1:]
}

// text is the source of a node on one line, shortened.
func (w *world) text(src []byte) string {
	s := strings.Join(strings.Fields(string(bytes.TrimSpace(src))), " ")
	if len(s) > 120 {
		s = s[:117] + "..."
	}
	return s
}
