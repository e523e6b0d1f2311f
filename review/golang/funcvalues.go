package golang

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/packages"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// maxVariants bounds the functions that a call of a function value is taken to
// reach. With more of them the value is more likely a general callback.
const maxVariants = 6

// valueKey names the functions that a value of a signature can be, within one
// package: variants that are chosen by configuration lie side by side.
func valueKey(pkg *types.Package, sig *types.Signature) string {
	return pkg.Path() + " " + types.TypeString(types.NewSignatureType(nil, nil, nil, sig.Params(), sig.Results(), sig.Variadic()), nil)
}

// variants are the declared functions of a package that are used as values of a
// signature.
func (w *world) variants(pkg *types.Package, sig *types.Signature) []*declared {
	if w.valueFuncs == nil {
		w.valueFuncs = map[string][]*declared{}
		for _, p := range w.pkgs {
			for _, f := range p.Syntax {
				w.collectValues(p, f)
			}
		}
	}
	return w.valueFuncs[valueKey(pkg, sig)]
}

// collectValues finds the functions that are named without being called.
func (w *world) collectValues(p *packages.Package, f *ast.File) {
	called := map[*ast.Ident]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.CallExpr:
			switch fun := ast.Unparen(x.Fun).(type) {
			case *ast.Ident:
				called[fun] = true
			case *ast.SelectorExpr:
				called[fun.Sel] = true
			}
		case *ast.Ident:
			fn, ok := p.TypesInfo.Uses[x].(*types.Func)
			if !ok || called[x] || fn.Pkg() == nil || fn.Signature().Recv() != nil {
				return true
			}
			d := w.funcs[funcID(fn)]
			if d == nil || !w.effects[d.id] {
				return true
			}
			key := valueKey(p.Types, fn.Signature())
			if !slices.Contains(w.valueFuncs[key], d) {
				w.valueFuncs[key] = append(w.valueFuncs[key], d)
			}
		}
		return true
	})
}

// oneOf evaluates a call that goes one of n ways, each in a branch of its own. The
// result is that of the last one.
func (e *ev) oneOf(n int, at *ast.CallExpr, way func(i int) *val) (out *val) {
	var run func(i int)
	run = func(i int) {
		if i == n-1 {
			out = way(i)
			return
		}
		e.fork(e.pos(at), effect.Unknown(), func() { out = way(i) }, func() { run(i + 1) })
	}
	run(0)
	return out
}

// callVariants follows a call of a value that is not known into each function that
// it can be.
func (e *ev) callVariants(args []*val, at *ast.CallExpr) (*val, bool) {
	sig, ok := e.fr.info.TypeOf(at.Fun).Underlying().(*types.Signature)
	if !ok || e.fr.fn == nil {
		return nil, false
	}
	found := e.w.variants(e.fr.fn.pkg.Types, sig)
	if len(found) == 0 || len(found) > maxVariants {
		return nil, false
	}
	out := e.oneOf(len(found), at, func(i int) *val { return e.follow(found[i], nil, args, at) })
	if len(found) > 1 && out != nil && !out.special() {
		return unknown(), true
	}
	return out, true
}
