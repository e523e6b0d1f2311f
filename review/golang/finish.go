package golang

import (
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// finish brings a block into its final form: error policies where the code shows
// one, no assignments that nobody reads, no empty branches.
func (b *builder) finish(blk effect.Block) effect.Block {
	stale(blk)
	for range 4 {
		uses := map[string]int{}
		countUses(blk, uses)
		n := size(blk)
		blk = policies(blk, uses)
		blk = sweep(blk, uses)
		if size(blk) == n {
			break
		}
	}
	return blk
}

func size(b effect.Block) int {
	n := 0
	b.Walk(func(*effect.Step) bool { n++; return true })
	return n
}

// countUses counts how often each path and each root is read.
func countUses(b effect.Block, uses map[string]int) {
	val := func(v *effect.Value) {
		if v != nil {
			v.Paths(func(p string) {
				uses[p]++
				root, _, dotted := strings.Cut(p, ".")
				if dotted {
					uses[root+".*"]++
				}
			})
		}
	}
	vals := func(vs []effect.Value) {
		for i := range vs {
			val(&vs[i])
		}
	}
	res := func(r *effect.Resource) {
		if r != nil {
			for i := range r.Key {
				val(&r.Key[i].Val)
			}
		}
	}
	b.Walk(func(s *effect.Step) bool {
		val(s.Val)
		vals(s.Args)
		res(s.On)
		res(s.To)
		for i := range s.Set {
			val(&s.Set[i].Val)
		}
		for i := range s.Where {
			val(&s.Where[i].Val)
		}
		val(s.Fence)
		val(s.Owner)
		val(s.Idem)
		if s.Tx != "" {
			uses[s.Tx]++
		}
		return true
	})
}

// used says whether a variable, or anything of it, is read.
func used(uses map[string]int, name string) bool {
	return uses[name] > 0 || uses[name+".*"] > 0
}

// policies replaces `bind the error; if it is there return a failure` by the
// policy of that name, and finds the errors that nobody looks at.
func policies(b effect.Block, uses map[string]int) effect.Block {
	var out effect.Block
	for i := 0; i < len(b); i++ {
		s := b[i]
		s.Body, s.Else = policies(s.Body, uses), policies(s.Else, uses)
		if s.OnErr != effect.OnBind {
			out = append(out, s)
			continue
		}
		e := s.Bind + ".err"
		switch {
		case uses[e] == 0:
			s.OnErr = effect.OnDrop
		case uses[e] >= 1 && i+1 < len(b) && isCheck(&b[i+1], e):
			next := &b[i+1]
			reads := 1 + inReturns(next.Body, e)
			if uses[e] != reads {
				break
			}
			switch {
			case onlyFailure(next.Body) && len(next.Else) == 0:
				s.OnErr = effect.OnReturn
				i++
			case len(next.Body) == 0 && len(next.Else) == 0:
				s.OnErr = effect.OnLog
				i++
			}
		}
		out = append(out, s)
	}
	return out
}

// isCheck is `if x.err != nil`.
func isCheck(s *effect.Step, e string) bool {
	return s.Op == effect.If && s.Val != nil && s.Val.Kind == effect.ApplyValue && s.Val.Name == "!=" && len(s.Val.Args) == 2 &&
		s.Val.Args[0].Kind == effect.PathValue && s.Val.Args[0].Name == e && isNil(s.Val.Args[1])
}

func onlyFailure(b effect.Block) bool {
	return len(b) == 1 && b[0].Op == effect.Return && b[0].Fail
}

// fails says whether a block ends with a failure.
func fails(b effect.Block) bool {
	return len(b) > 0 && b[len(b)-1].Op == effect.Return && b[len(b)-1].Fail
}

func inReturns(b effect.Block, e string) int {
	n := 0
	b.Walk(func(s *effect.Step) bool {
		if s.Op == effect.Return {
			for _, a := range s.Args {
				a.Paths(func(p string) {
					if p == e {
						n++
					}
				})
			}
		}
		return true
	})
	return n
}

// sweep drops what has no effect and that nothing needs.
func sweep(b effect.Block, uses map[string]int) effect.Block {
	var out effect.Block
	for _, s := range b {
		s.Body, s.Else = sweep(s.Body, uses), sweep(s.Else, uses)
		switch s.Op {
		case effect.Let:
			root, _, dotted := strings.Cut(s.Name, ".")
			if dotted && !used(uses, root) || !dotted && !used(uses, s.Name) {
				continue
			}
		case effect.If:
			if len(s.Body) == 0 && len(s.Else) == 0 {
				continue
			}
			if len(s.Else) == 0 && (fails(s.Body) && blind(*s.Val) || unknownError(*s.Val) && terminated(s.Body)) {
				continue // input that is refused: no other actor can change that
			}
		case effect.Loop, effect.Scope, effect.Spawn:
			if trivial(s.Body, s.Op != effect.Loop) && !used(uses, s.Bind) {
				continue
			}
		case effect.Write, effect.Send, effect.Close, effect.Fsync, effect.Rename, effect.Commit, effect.Lock, effect.Unlock, effect.Call, effect.Rollback, effect.Sleep, effect.Ack, effect.Wait:
			if s.Bind != "" && !used(uses, s.Bind) && s.OnErr != effect.OnBind && s.Mode != effect.Temp {
				s.Bind = ""
			}
		}
		out = append(out, s)
	}
	return out
}

// blind says whether a condition looks at nothing that is known.
func blind(v effect.Value) bool {
	switch v.Kind {
	case effect.UnknownValue:
		return true
	case effect.ApplyValue:
		some := false
		for _, a := range v.Args {
			if a.Kind != effect.ConstValue && !blind(a) {
				return false
			}
			some = some || blind(a)
		}
		return some
	}
	return false
}

// trivial says whether a block can be left out: it does nothing and leaves
// nothing. A return inside of a scope only ends the scope.
func trivial(b effect.Block, scope bool) bool {
	ok := true
	b.Walk(func(s *effect.Step) bool {
		if s.IsEffect() || s.Op == effect.Call || s.Op == effect.Let || s.Op == effect.Return && !scope {
			ok = false
		}
		return ok
	})
	return ok
}

// stale finds the locks that are taken from their holder when they look old or
// their holder looks dead: under such a condition the same lock is removed.
func stale(b effect.Block) {
	broken := map[string]string{}
	b.Walk(func(s *effect.Step) bool {
		if s.Op != effect.If || s.Val == nil {
			return true
		}
		how := ""
		switch text := s.Val.String(); {
		case strings.Contains(text, "now()"):
			how = "age"
		case strings.Contains(strings.ToLower(text), "pid") || strings.Contains(text, "FindProcess") || strings.Contains(text, "Kill("):
			how = "pid"
		default:
			return true
		}
		for _, way := range []effect.Block{s.Body, s.Else} {
			way.Walk(func(u *effect.Step) bool {
				if u.Op == effect.Unlock || u.Op == effect.Rename {
					broken[lockID(u.On)] = how
				}
				return true
			})
		}
		return true
	})
	if len(broken) == 0 {
		return
	}
	b.Walk(func(s *effect.Step) bool {
		if s.Op == effect.Lock && s.Stale == "" && s.On.Kind == effect.LockfileKind {
			s.Stale = broken[lockID(s.On)]
		}
		return true
	})
}

func lockID(r *effect.Resource) string {
	if r == nil {
		return ""
	}
	var b strings.Builder
	for _, k := range r.Key {
		b.WriteString(k.Val.String())
	}
	return b.String()
}
