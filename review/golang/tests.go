package golang

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// testFunc is a test as its syntax shows it; tests are not type-checked, because
// that would load all that only tests need.
type testFunc struct {
	ref   effect.TestRef
	dir   string
	names map[string]bool // identifiers and routes in it, and in helpers it calls in its file
}

// findTests tells for each entry point which tests mention it: by the function's
// name in a test of the same folder, or by the route anywhere.
func (b *builder) findTests() {
	var tests []*testFunc
	for _, dir := range b.w.dirs() {
		tests = append(tests, b.w.parseTests(dir)...)
	}
	if len(tests) == 0 {
		return
	}
	for i := range b.p.Entries {
		e := &b.p.Entries[i]
		dir := filepath.Dir(filepath.Join(b.w.dir, filepath.FromSlash(e.Pos.File)))
		name := e.ID[strings.LastIndexByte(e.ID, '.')+1:]
		name, _, _ = strings.Cut(name, "@")
		route := ""
		if e.Kind == effect.HTTP {
			route = e.Name[strings.LastIndexByte(e.Name, ' ')+1:]
			route, _, _ = strings.Cut(route, "{")
			route, _, _ = strings.Cut(route, ":")
		}
		for _, t := range tests {
			if t.dir == dir && t.names[name] || len(route) > 2 && route[0] == '/' && t.mentions(route) {
				e.Tests = append(e.Tests, t.ref)
			}
		}
	}
}

func (t *testFunc) mentions(route string) bool {
	for n := range t.names {
		if strings.HasPrefix(n, route) {
			return true
		}
	}
	return false
}

// dirs are the folders of the analysed packages.
func (w *world) dirs() []string {
	seen := map[string]bool{}
	var out []string
	for _, p := range w.pkgs {
		for _, f := range p.GoFiles {
			if d := filepath.Dir(f); !seen[d] {
				seen[d] = true
				out = append(out, d)
			}
		}
	}
	sort.Strings(out)
	return out
}

func (w *world) parseTests(dir string) []*testFunc {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil // a folder that is gone has no tests
	}
	var out []*testFunc
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(w.fset, filepath.Join(dir, f.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if file == nil || err != nil {
			continue // the compiler says what is wrong with a test
		}
		helpers := map[string]*ast.FuncDecl{}
		for _, d := range file.Decls {
			if fd, ok := d.(*ast.FuncDecl); ok && fd.Body != nil {
				helpers[fd.Name.Name] = fd
			}
		}
		for _, d := range file.Decls {
			fd, ok := d.(*ast.FuncDecl)
			if !ok || fd.Body == nil || fd.Recv != nil || !strings.HasPrefix(fd.Name.Name, "Test") {
				continue
			}
			t := &testFunc{ref: effect.TestRef{Name: fd.Name.Name, Pos: w.pos(fd.Pos())}, dir: dir, names: map[string]bool{}}
			t.ref.Claims = claims(fd.Name.Name) || fd.Doc != nil && claims(fd.Doc.Text())
			t.collect(fd, helpers, 0)
			out = append(out, t)
		}
	}
	return out
}

func claims(text string) bool {
	l := strings.ToLower(text)
	for _, w := range []string{"concurren", "parallel", "race", "simultan", "atonce", "at once"} {
		if strings.Contains(l, w) {
			return true
		}
	}
	return false
}

// collect takes the names in a function, and whether it starts several actors.
func (t *testFunc) collect(fd *ast.FuncDecl, helpers map[string]*ast.FuncDecl, depth int) {
	ast.Inspect(fd.Body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Ident:
			if h := helpers[x.Name]; h != nil && h != fd && depth < 2 && !t.names[x.Name] {
				t.names[x.Name] = true
				t.collect(h, helpers, depth+1)
			}
			t.names[x.Name] = true
		case *ast.BasicLit:
			if x.Kind == token.STRING {
				if s, err := strconv.Unquote(x.Value); err == nil && strings.Contains(s, "/") && len(s) < 200 {
					t.names[s] = true
					if i := strings.IndexByte(s, ' '); i > 0 {
						t.names[s[i+1:]] = true
					}
				}
			}
		case *ast.GoStmt:
			t.ref.Parallel = true
		case *ast.SelectorExpr:
			if x.Sel.Name == "Go" || x.Sel.Name == "RunParallel" {
				t.ref.Parallel = true
			}
		}
		return true
	})
}
