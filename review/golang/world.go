package golang

import (
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"strings"

	"github.com/holdfast-dev/holdfast/review/golang/knowledge"
)

// survey looks once over all functions: which of them can reach an effect, and
// which shared variables are changed after construction.
func (w *world) survey() {
	calls := map[string][]string{}
	for _, d := range w.funcs {
		w.surveyFunc(d, calls)
	}
	callers := map[string][]string{}
	for from, tos := range calls {
		for _, to := range tos {
			callers[to] = append(callers[to], from)
		}
	}
	w.circle = cycles(sortedKeys(w.funcs), calls)
	w.spread(callers, w.effects, func(d *declared) bool { return d.root })
	w.spread(callers, w.softs, func(d *declared) bool { return d.root || d.soft })
}

// spread marks the functions that can reach a marked one.
func (w *world) spread(callers map[string][]string, marks map[string]bool, first func(*declared) bool) {
	var queue []string
	for id, d := range w.funcs {
		if first(d) {
			marks[id] = true
			queue = append(queue, id)
		}
	}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		for _, c := range callers[id] {
			if !marks[c] {
				marks[c] = true
				queue = append(queue, c)
			}
		}
	}
}

// surveyFunc records what a function calls, changes, and does itself.
func (w *world) surveyFunc(d *declared, calls map[string][]string) {
	constructor := isConstructor(d.decl)
	ast.Inspect(d.decl.Body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Ident:
			f, ok := d.info.Uses[x].(*types.Func)
			if !ok {
				return true
			}
			w.surveyUse(d, f.Origin(), calls)
		case *ast.AssignStmt:
			for _, l := range x.Lhs {
				w.surveyWrite(d, l, constructor, x.Tok != token.DEFINE)
			}
		case *ast.IncDecStmt:
			w.surveyWrite(d, x.X, constructor, true)
		case *ast.CallExpr:
			if id, ok := ast.Unparen(x.Fun).(*ast.Ident); ok && id.Name == "delete" && len(x.Args) == 2 {
				w.surveyWrite(d, &ast.IndexExpr{X: x.Args[0], Index: x.Args[1]}, constructor, true)
			}
		case *ast.FuncLit:
			w.infos[x] = d
		case *ast.GoStmt:
			d.root = true
		}
		return true
	})
}

func (w *world) surveyUse(d *declared, f *types.Func, calls map[string][]string) {
	id := funcID(f)
	if f.Pkg() != nil && entPackage(f.Pkg().Path()) {
		d.root = true
	}
	if w.funcs[id] != nil {
		calls[d.id] = append(calls[d.id], id)
		return
	}
	if isInterfaceMethod(f) {
		for _, m := range w.implementers(f) {
			calls[d.id] = append(calls[d.id], m.id)
		}
	}
	if f.Pkg() == nil {
		return
	}
	switch p := f.Pkg().Path(); {
	case p == "time":
		d.root = d.root || f.Name() == "Sleep"
	case p == "fmt":
		d.soft = d.soft || strings.HasPrefix(f.Name(), "Fprint")
	case p == "encoding/json" || p == "io" || p == "bufio" || strings.HasSuffix(p, "yaml.v3") || strings.HasSuffix(p, "yaml/v3"):
		d.soft = true
	case p == "net/http":
		d.soft = true
		if r := typeName(recvTypeOrAny(f)); r == "net/http.Client" || knowledge.Effectful(p, f.Name()) && r == "" {
			d.root = true
		}
	case isInterfaceMethod(f) && execMethods[f.Name()] != "":
		d.root = true
	default:
		d.root = d.root || knowledge.Effectful(p, f.Name())
	}
}

// isConstructor says whether assignments in a function happen before others can
// see the object.
func isConstructor(f *ast.FuncDecl) bool {
	n := f.Name.Name
	return f.Recv == nil && (n == "init" || n == "main" || strings.HasPrefix(n, "New") || strings.HasPrefix(n, "new") || strings.HasPrefix(n, "Default") || strings.HasPrefix(n, "With") || strings.HasPrefix(n, "Setup"))
}

// surveyWrite records a change of a field or a package's variable.
func (w *world) surveyWrite(d *declared, l ast.Expr, constructor, assign bool) {
	for {
		switch x := ast.Unparen(l).(type) {
		case *ast.IndexExpr:
			l = x.X
			continue
		case *ast.StarExpr:
			l = x.X
			continue
		case *ast.SelectorExpr:
			if sel := d.info.Selections[x]; sel != nil {
				if !constructor {
					if n := typeName(sel.Recv()); n != "" && w.sharedTypes[n] {
						w.written[shortName(n)+"."+x.Sel.Name] = true
						d.root = true
					}
				}
				l = x.X
				if _, isSel := ast.Unparen(l).(*ast.SelectorExpr); isSel {
					continue
				}
				return
			}
			if v, ok := d.info.Uses[x.Sel].(*types.Var); ok && v.Pkg() != nil && !constructor {
				w.written[shortName(v.Pkg().Path())+"."+v.Name()] = true
				d.root = true
			}
			return
		case *ast.Ident:
			v, ok := d.info.Uses[x].(*types.Var)
			if ok && assign && v.Pkg() != nil && v.Parent() == v.Pkg().Scope() && d.decl.Name.Name != "init" && d.decl.Name.Name != "main" {
				w.written[shortName(v.Pkg().Path())+"."+v.Name()] = true
				d.root = true
			}
			return
		default:
			return
		}
	}
}

// implementers are the methods of the analysed packages that a call of an
// interface's method can reach. Test doubles are left out.
func (w *world) implementers(f *types.Func) []*declared {
	if c, ok := w.implCache[f]; ok {
		return c
	}
	var out []*declared
	iface, _ := f.Signature().Recv().Type().Underlying().(*types.Interface)
	for _, d := range w.methods[f.Name()] {
		t := d.obj.Signature().Recv().Type()
		n := strings.ToLower(typeName(t))
		if strings.Contains(n, "mock") || strings.Contains(n, "fake") || strings.Contains(n, "stub") || strings.Contains(n, "noop") || strings.Contains(n, "unimplemented") {
			continue
		}
		if iface == nil || !implements(t, iface) {
			continue
		}
		out = append(out, d)
	}
	w.implCache[f] = out
	return out
}

// implements compares by method names and shapes: the interface may come from
// export data, where the same named type is another object.
func implements(t types.Type, iface *types.Interface) bool {
	if types.Implements(t, iface) || types.Implements(types.NewPointer(t), iface) {
		return true
	}
	ms := types.NewMethodSet(t)
	if _, ok := t.(*types.Pointer); !ok {
		ms = types.NewMethodSet(types.NewPointer(t))
	}
	if iface.NumMethods() == 0 {
		return false
	}
	for i := range iface.NumMethods() {
		m := iface.Method(i)
		s := ms.Lookup(m.Pkg(), m.Name())
		if s == nil && m.Exported() {
			for j := range ms.Len() {
				if ms.At(j).Obj().Name() == m.Name() {
					s = ms.At(j)
				}
			}
		}
		if s == nil {
			return false
		}
		a, ok := s.Obj().Type().(*types.Signature)
		b, ok2 := m.Type().(*types.Signature)
		if !ok || !ok2 || types.TypeString(a.Params(), nil) != types.TypeString(b.Params(), nil) || types.TypeString(a.Results(), nil) != types.TypeString(b.Results(), nil) {
			return false
		}
	}
	return true
}

// owns says whether a type is declared in the analysed packages.
func (w *world) owns(name string) bool {
	if w.ownPkgs == nil {
		w.ownPkgs = map[string]bool{}
		for _, p := range w.pkgs {
			w.ownPkgs[p.PkgPath] = true
		}
	}
	i := lastDot(name)
	return i > 0 && w.ownPkgs[name[:i]]
}

// nodeText is the source of a node in one line, shortened.
func (w *world) nodeText(n ast.Node) string {
	a, b := w.fset.Position(n.Pos()), w.fset.Position(n.End())
	src, ok := w.sources[a.Filename]
	if !ok {
		src, _ = os.ReadFile(a.Filename) // a file that is gone gives no text
		w.sources[a.Filename] = src
	}
	if b.Offset > len(src) || a.Offset > b.Offset {
		return ""
	}
	return w.text(src[a.Offset:b.Offset])
}
