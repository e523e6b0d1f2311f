package golang

import (
	"go/ast"
	"go/types"
)

// shareTypes finds the types whose values outlive a request: the receivers of
// entry points and what their closures capture, the types of package variables,
// types that hold a lock, and all that hangs on those. An assignment to a field
// of any other type is nobody else's business.
func (w *world) shareTypes(starts []*start) {
	w.sharedTypes = map[string]bool{}
	for _, s := range starts {
		if s.kind == "main" || s.kind == "startup" {
			continue
		}
		if sig := s.fn.signature(); sig != nil && sig.Recv() != nil {
			w.shareType(sig.Recv().Type(), 0)
		}
		if s.fn.lit != nil {
			ast.Inspect(s.fn.lit.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if v, ok := s.fn.info.Uses[id].(*types.Var); ok && !v.IsField() && v.Pos() < s.fn.lit.Pos() {
						w.shareType(v.Type(), 0)
					}
				}
				return true
			})
		}
	}
	for _, p := range w.pkgs {
		scope := p.Types.Scope()
		for _, n := range scope.Names() {
			switch o := scope.Lookup(n).(type) {
			case *types.Var:
				w.shareType(o.Type(), 0)
			case *types.TypeName:
				if s, ok := o.Type().Underlying().(*types.Struct); ok && holdsLock(s) {
					w.shareType(o.Type(), 0)
				}
			}
		}
	}
}

func holdsLock(s *types.Struct) bool {
	for i := range s.NumFields() {
		if isMutexType(s.Field(i).Type()) {
			return true
		}
	}
	return false
}

func (w *world) shareType(t types.Type, depth int) {
	if depth > 12 {
		return
	}
	switch u := types.Unalias(t).(type) {
	case *types.Pointer:
		w.shareType(u.Elem(), depth)
	case *types.Slice:
		w.shareType(u.Elem(), depth)
	case *types.Array:
		w.shareType(u.Elem(), depth)
	case *types.Map:
		w.shareType(u.Elem(), depth)
	case *types.Named:
		n := typeName(u)
		if n == "" || w.sharedTypes[n] || !w.owns(n) || u.Obj().Pkg() != nil && entPackage(u.Obj().Pkg().Path()) {
			return
		}
		w.sharedTypes[n] = true
		switch x := u.Underlying().(type) {
		case *types.Struct:
			for i := range x.NumFields() {
				w.shareType(x.Field(i).Type(), depth+1)
			}
		case *types.Interface:
			if x.NumMethods() > 0 { // who has one method of it has them all
				for _, d := range w.implementers(x.Method(0)) {
					w.shareType(d.obj.Signature().Recv().Type(), depth+1)
				}
			}
		case *types.Map:
			w.shareType(x.Elem(), depth+1)
		case *types.Slice:
			w.shareType(x.Elem(), depth+1)
		}
	}
}
