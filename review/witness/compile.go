package witness

import (
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// code is an entry point as a flat list of instructions.
type code struct {
	entry *effect.Entry
	ins   []instr
	// keyIns are the input paths that are used as keys: true where one is the
	// only key of something, false where it only ever stands beside others.
	keyIns map[string]bool
	// crosses are pairs of inputs that are keys of one table (from and to of a
	// transfer): the second actor may have them the other way round.
	crosses [][2]string
	// lastChange is the last instruction that others can notice.
	lastChange int
}

type insKind uint8

const (
	insEffect insKind = iota
	insLet
	insBranch // to target unless the condition holds
	insJump
	insEnter // a scope that ends at target
	insLeave
	insReturn
	insLoopInit
	insLoopHead // leaves to target after the last round
	insSpawn    // the body stands between here and target
	insEnd      // of a spawned body
)

type instr struct {
	kind   insKind
	step   *effect.Step
	target int
	loop   int
	prefer bool // the outcome of an open condition that is tried first
}

type compiler struct {
	*code
	loops int
	brk   [][]int // jumps to patch, per open loop
	heads []int   // where continue jumps, per open loop
}

func compile(e *effect.Entry) *code {
	c := &compiler{code: &code{entry: e, keyIns: map[string]bool{}}}
	c.block(e.Body, nil)
	c.emit(instr{kind: insReturn, step: &effect.Step{Op: effect.Return}})
	for i, in := range c.ins {
		if in.kind != insEffect {
			continue
		}
		switch in.step.Op {
		case effect.Read, effect.Check, effect.Sleep, effect.Fsync, effect.Close:
		default:
			c.lastChange = i
		}
	}
	c.keys(e)
	return c.code
}

// keys collects the inputs that are keys.
func (c *compiler) keys(e *effect.Entry) {
	byTable := map[string]string{}
	e.Body.Walk(func(s *effect.Step) bool {
		for _, r := range []*effect.Resource{s.On, s.To} {
			if r == nil {
				continue
			}
			for _, k := range r.Key {
				k.Val.Paths(func(p string) {
					if strings.HasPrefix(p, "in.") {
						c.keyIns[p] = c.keyIns[p] || len(r.Key) == 1
					}
				})
				if k.Val.Root() != "in" {
					continue
				}
				col := tableOf(r, 0) + "." + k.Col
				if p, ok := byTable[col]; ok && p != k.Val.Name {
					c.crosses = append(c.crosses, [2]string{p, k.Val.Name})
				} else {
					byTable[col] = k.Val.Name
				}
			}
		}
		return true
	})
}

func (c *compiler) emit(i instr) int {
	c.ins = append(c.ins, i)
	return len(c.ins) - 1
}

// block compiles a block; rest is what follows it in the enclosing ones.
func (c *compiler) block(b effect.Block, rest []effect.Block) {
	for i := range b {
		c.step(&b[i], append(rest[:len(rest):len(rest)], b[i+1:]))
	}
}

func (c *compiler) step(s *effect.Step, rest []effect.Block) {
	switch s.Op {
	case effect.Let:
		c.emit(instr{kind: insLet, step: s})
	case effect.If:
		c.branch(s, rest)
	case effect.Loop:
		c.loop(s, rest)
	case effect.Break, effect.Continue:
		if n := len(c.brk); n > 0 {
			at := c.emit(instr{kind: insJump, step: s})
			if s.Op == effect.Break {
				c.brk[n-1] = append(c.brk[n-1], at)
			} else {
				c.ins[at].target = c.heads[n-1]
			}
		}
	case effect.Return:
		c.emit(instr{kind: insReturn, step: s})
	case effect.Scope:
		at := c.emit(instr{kind: insEnter, step: s})
		brk, heads := c.brk, c.heads
		c.brk, c.heads = nil, nil
		c.block(s.Body, rest)
		c.brk, c.heads = brk, heads
		c.emit(instr{kind: insLeave, step: s})
		c.ins[at].target = len(c.ins)
	case effect.Spawn:
		at := c.emit(instr{kind: insSpawn, step: s})
		c.block(s.Body, nil)
		c.emit(instr{kind: insEnd, step: s})
		c.ins[at].target = len(c.ins)
	case effect.Call: // not linked: it does nothing that is known
	default:
		if !complete(s) {
			return
		}
		c.emit(instr{kind: insEffect, step: s})
	}
}

// complete says whether a step has what its operation needs. What a front end
// left out does nothing.
func complete(s *effect.Step) bool {
	switch s.Op {
	case effect.Begin, effect.Commit, effect.Rollback, effect.Sleep, effect.Wait:
		return true
	case effect.Rename:
		return s.On != nil && s.To != nil
	}
	return s.On != nil
}

func (c *compiler) branch(s *effect.Step, rest []effect.Block) {
	if s.Val == nil {
		s.Val = &effect.Value{}
	}
	at := c.emit(instr{kind: insBranch, step: s, prefer: preferBody(s, rest)})
	c.block(s.Body, rest)
	if len(s.Else) == 0 {
		c.ins[at].target = len(c.ins)
		return
	}
	end := c.emit(instr{kind: insJump, step: s})
	c.ins[at].target = len(c.ins)
	c.block(s.Else, rest)
	c.ins[end].target = len(c.ins)
}

func (c *compiler) loop(s *effect.Step, rest []effect.Block) {
	c.loops++
	id := c.loops
	c.emit(instr{kind: insLoopInit, step: s, loop: id})
	head := c.emit(instr{kind: insLoopHead, step: s, loop: id})
	c.brk, c.heads = append(c.brk, nil), append(c.heads, head)
	c.block(s.Body, rest)
	c.emit(instr{kind: insJump, step: s, target: head})
	end := len(c.ins)
	c.ins[head].target = end
	n := len(c.brk) - 1
	for _, at := range c.brk[n] {
		c.ins[at].target = end
	}
	c.brk, c.heads = c.brk[:n], c.heads[:n]
}

// preferBody says which way an undecided condition is tried first: the way with
// more effects. A body that leaves the function stands against what follows.
func preferBody(s *effect.Step, rest []effect.Block) bool {
	body, other := weight(s.Body), weight(s.Else)
	if leaves(s.Body) {
		for _, b := range rest {
			other += weight(b)
		}
	}
	if leaves(s.Else) {
		for _, b := range rest {
			body += weight(b)
		}
	}
	return body > other || body == other && !leaves(s.Body)
}

func leaves(b effect.Block) bool {
	if len(b) == 0 {
		return false
	}
	switch last := &b[len(b)-1]; last.Op {
	case effect.Return, effect.Break, effect.Continue:
		return true
	case effect.If:
		return leaves(last.Body) && leaves(last.Else)
	}
	return false
}

// weight counts effects that change something, tenfold, and others.
func weight(b effect.Block) int {
	n := 0
	b.Walk(func(s *effect.Step) bool {
		switch s.Op {
		case effect.Write, effect.Send, effect.Rename:
			n += 10
		case effect.Rollback, effect.Unlock:
		default:
			if s.IsEffect() {
				n++
			}
		}
		return true
	})
	return n
}
