package golang

import (
	"go/types"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// txOf is the transaction that a handle stands for.
func txOf(h *val) string {
	switch h.kind {
	case handleVal:
		return h.tx
	case sharedVal, stateVal:
		return ""
	}
	if h.v.Kind == effect.PathValue && h.v.Root() == h.v.Name && h.v.Name != "in" {
		return h.v.Name
	}
	if isNil(h.v) {
		return ""
	}
	return "?"
}

// transaction are the ways to begin, commit and roll back.
func (c *apiCall) transaction() (*val, bool) {
	switch c.id {
	case "github.com/jackc/pgx.BeginFunc", "github.com/jackc/pgx.BeginTxFunc":
		if len(c.args) >= 3 {
			return c.inTx(c.args[1], c.args[len(c.args)-1], nil), true
		}
	}
	if c.recv == nil || c.recv.kind != handleVal {
		if c.recv == nil || handleOf(recvTypeOrAny(c.f)) == "" {
			return nil, false
		}
	}
	switch c.method() {
	case "Begin", "BeginTx", "Beginx", "BeginTxx", "MustBegin", "MustBeginTx":
		if isGormOrXorm(recvTypeOrAny(c.f)) && c.method() == "Begin" && c.f.Signature().Results().Len() == 1 && isErrorType(c.f.Signature().Results().At(0).Type()) {
			return nil, false // xorm's session changes in place
		}
		bind := c.bind("tx")
		if bind == "err" || strings.HasPrefix(bind, "err_") {
			bind = c.e.fresh("tx")
		}
		c.e.emit(effect.Step{Op: effect.Begin, Pos: c.pos(), Bind: bind, Iso: c.isolation(), OnErr: effect.OnBind})
		return c.result(bind, &val{kind: handleVal, tx: bind, typ: c.f.Signature().Results().At(0).Type(), v: effect.Var(bind), query: &query{bind: bind, done: true}}), true
	case "Commit":
		bind := c.bind("committed")
		c.e.emit(effect.Step{Op: effect.Commit, Pos: c.pos(), Bind: bind, Tx: txOf(c.recv), OnErr: effect.OnBind})
		return c.txResult(bind), true
	case "Rollback", "RollbackUnlessCommitted":
		c.e.emit(effect.Step{Op: effect.Rollback, Pos: c.pos(), Tx: txOf(c.recv), OnErr: effect.OnDrop})
		return c.txResult(""), true
	case "RunInTx", "BeginFunc", "BeginTxFunc":
		return c.inTx(c.recv, c.args[len(c.args)-1], nil), true
	case "Conn", "Acquire":
		return c.withNoError(&val{kind: handleVal, tx: txOf(c.recv), typ: c.f.Signature().Results().At(0).Type(), v: c.recv.v}), true
	case "WithContext", "Session", "Debug", "Unsafe", "Unscoped", "Set", "Context", "Rebind":
		if c.f.Signature().Results().Len() == 1 && handleOf(c.f.Signature().Results().At(0).Type()) != "" && !isGormOrXorm(recvTypeOrAny(c.f)) {
			return c.recv, true
		}
		if c.method() == "Rebind" && len(c.args) == 1 {
			return c.args[0], true
		}
	case "Release", "Close", "Ping", "PingContext":
		return unknown(), true
	}
	return nil, false
}

func isGormOrXorm(t types.Type) bool {
	n := typeName(t)
	return strings.Contains(n, "gorm") || strings.Contains(n, "xorm")
}

func (c *apiCall) txResult(bind string) *val {
	res := c.f.Signature().Results()
	if res.Len() == 1 && isErrorType(res.At(0).Type()) {
		if bind == "" {
			return unknown()
		}
		return plainVal(effect.Var(bind, "err"))
	}
	if res.Len() == 1 { // gorm gives the handle back
		q := &query{bind: bind, done: true}
		return &val{kind: handleVal, tx: txOf(c.recv), query: q, typ: res.At(0).Type(), v: effect.Unknown()}
	}
	return unknown()
}

// isolation is the level that the options of a Begin ask for.
func (c *apiCall) isolation() string {
	for _, a := range c.args {
		a = c.e.deref(a)
		if a == nil || a.kind != structVal {
			continue
		}
		for _, f := range []string{"Isolation", "IsoLevel"} {
			x := a.fields[f]
			if x == nil {
				continue
			}
			if s, ok := constString(x.v); ok {
				return strings.ToLower(s)
			}
			if n, err := strconv.Atoi(x.v.Name); err == nil {
				return map[int]string{1: "read uncommitted", 2: "read committed", 4: "repeatable read", 5: "repeatable read", 6: "serializable", 7: "serializable"}[n]
			}
		}
	}
	return ""
}

// inTx runs a callback between begin and commit; an error of the callback rolls
// back.
func (c *apiCall) inTx(h, fn *val, params func(tx *val) []*val) *val {
	bind := c.e.fresh("tx")
	c.e.emit(effect.Step{Op: effect.Begin, Pos: c.pos(), Bind: bind, Iso: c.isolation(), OnErr: effect.OnReturn})
	tx := &val{kind: handleVal, tx: bind, v: effect.Var(bind)}
	var args []*val
	sig := fn.signature()
	if params != nil {
		args = params(tx)
	} else if sig != nil {
		for i := range sig.Params().Len() {
			if handleOf(sig.Params().At(i).Type()) != "" {
				t := *tx
				t.typ = sig.Params().At(i).Type()
				args = append(args, &t)
			} else {
				args = append(args, unknown())
			}
		}
	}
	r := c.e.callValue(fn, args, c.at)
	_ = h
	return c.endTx(bind, r)
}

func (a *val) signature() *types.Signature {
	switch {
	case a == nil || a.kind != funcVal:
		return nil
	case a.lit != nil:
		s, _ := a.info.TypeOf(a.lit).(*types.Signature)
		return s
	case a.decl != nil:
		return a.decl.Signature()
	}
	return nil
}

// endTx commits, or rolls back when the callback's error r says so. The result is
// the callback's or the commit's error.
func (c *apiCall) endTx(bind string, r *val) *val {
	err := r
	if r.kind == tupleVal && len(r.elems) > 0 {
		err = r.elems[len(r.elems)-1]
	}
	commit := c.e.fresh("committed")
	done := func() {
		c.e.emit(effect.Step{Op: effect.Commit, Pos: c.pos(), Bind: commit, Tx: bind, OnErr: effect.OnBind})
	}
	if isNil(err.v) || err.v.Kind == effect.UnknownValue {
		done()
		return c.result(commit)
	}
	name := c.e.fresh("txerr")
	cond := effect.Apply("!=", err.v, effect.Lit("nil"))
	undo := c.e.branch(func() {
		c.e.emit(effect.Step{Op: effect.Rollback, Pos: c.pos(), Tx: bind, OnErr: effect.OnDrop})
		v := err.v
		c.e.emit(effect.Step{Op: effect.Let, Name: name + ".err", Val: &v})
	})
	do := c.e.branch(func() {
		done()
		v := effect.Var(commit, "err")
		c.e.emit(effect.Step{Op: effect.Let, Name: name + ".err", Val: &v})
	})
	c.e.emit(effect.Step{Op: effect.If, Pos: c.pos(), Val: &cond, Body: undo, Else: do})
	return c.result(name)
}
