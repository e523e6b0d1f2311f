package effect

import "fmt"

// step reads one line (and the blocks it opens).
func (p *parser) step() (Step, error) {
	word, err := p.name()
	if err != nil {
		return Step{}, err
	}
	var s Step
	if p.take(":=") {
		s.Bind = word
		if word, err = p.name(); err != nil {
			return s, err
		}
	}
	s.Op = Op(word)
	if err := p.head(&s); err != nil {
		return s, err
	}
	if err := p.clauses(func(w string) error { return p.clause(&s, w) }); err != nil {
		return s, err
	}
	if s.Pos, err = p.pos(); err != nil {
		return s, err
	}
	if p.tok == "{" {
		if s.Body, err = p.block(nil); err != nil {
			return s, err
		}
		if p.take("else") {
			s.Else, err = p.block(nil)
		}
	}
	return s, err
}

// head reads what stands directly behind the operation.
func (p *parser) head(s *Step) (err error) {
	switch s.Op {
	case Let:
		if s.Name, err = p.name(); err != nil {
			return err
		}
		if err = p.need("="); err != nil {
			return err
		}
		return p.val(&s.Val)
	case If:
		return p.val(&s.Val)
	case Loop:
		if p.take("while") {
			return p.val(&s.Val)
		}
		return nil
	case Return:
		s.Fail = p.take("fail")
		for p.tok != "" && p.tok != "\n" && p.tok != "}" && p.tok[0] != '@' {
			v, err := p.expr(0)
			if err != nil {
				return err
			}
			s.Args = append(s.Args, v)
			if !p.take(",") {
				break
			}
		}
		return nil
	case Call:
		if s.Func, err = p.name(); err != nil {
			return err
		}
		if err = p.need("("); err != nil {
			return err
		}
		s.Args, err = p.values()
		return err
	case Break, Continue, Scope, Begin, Commit, Rollback, Spawn, Wait, Sleep:
		return nil
	case Write:
		if s.Mode, err = p.name(); err != nil {
			return err
		}
	case Send:
		if p.take(Get) {
			s.Mode = Get
		}
	case Read, Check, Guard, Lock, Unlock, Ack, Fsync, Close, Rename:
	default:
		return fmt.Errorf("line %d: %q is no operation", p.line, s.Op)
	}
	if s.On, err = p.resource(); err == nil && p.take("->") {
		s.To, err = p.resource()
	}
	return err
}

func (p *parser) val(to **Value) error {
	v, err := p.expr(0)
	*to = &v
	return err
}

// resource reads kind:name[col = value, ...].
func (p *parser) resource() (*Resource, error) {
	kind, err := p.name()
	if err != nil {
		return nil, err
	}
	r := &Resource{Kind: Kind(kind)}
	if err := p.need(":"); err != nil {
		return nil, err
	}
	if r.Name, err = p.name(); err != nil {
		return nil, err
	}
	if p.take("[") {
		r.Key, err = p.assigns("]")
	}
	return r, err
}

// assigns reads a = v, b = v up to the closing token.
func (p *parser) assigns(end string) ([]Assign, error) {
	var out []Assign
	for p.tok != end {
		var a Assign
		var err error
		if p.take("*") {
			a.Col = "*"
		} else if a.Col, err = p.name(); err != nil {
			return nil, err
		}
		if err := p.need("="); err != nil {
			return nil, err
		}
		if a.Val, err = p.expr(0); err != nil {
			return nil, err
		}
		out = append(out, a)
		if !p.take(",") {
			break
		}
	}
	return out, p.need(end)
}

func (p *parser) conds() ([]Cond, error) {
	if err := p.need("("); err != nil {
		return nil, err
	}
	var out []Cond
	for p.tok != ")" {
		var c Cond
		var err error
		if c.Col, err = p.name(); err != nil {
			return nil, err
		}
		if c.Op = p.tok; precedence(c.Op) != 3 {
			return nil, p.wrong("a comparison")
		}
		p.next()
		if c.Val, err = p.expr(0); err != nil {
			return nil, err
		}
		out = append(out, c)
		if !p.take(",") {
			break
		}
	}
	return out, p.need(")")
}

func (p *parser) clause(s *Step, word string) (err error) {
	switch word {
	case "cols":
		s.Cols, err = p.names()
	case "set":
		if err = p.need("("); err == nil {
			s.Set, err = p.assigns(")")
		}
	case "where":
		s.Where, err = p.conds()
	case "fence":
		err = p.val(&s.Fence)
	case "owner":
		err = p.val(&s.Owner)
	case "idem":
		err = p.val(&s.Idem)
	case "args":
		if err = p.need("("); err == nil {
			s.Args, err = p.values()
		}
	case "max":
		s.Max, err = p.number()
	case "via":
		err = p.via(s)
	default:
		if flag := s.flag(word); flag != nil {
			*flag = true
			return nil
		}
		text := s.textClause(word)
		if text == nil {
			return p.unknown(word, string(s.Op))
		}
		if p.take("?") {
			*text = "?"
			return nil
		}
		*text, err = p.name()
	}
	return err
}

func (p *parser) via(s *Step) error {
	if err := p.need("("); err != nil {
		return err
	}
	for p.tok != ")" {
		pos, err := p.pos()
		if err != nil {
			return err
		}
		if pos.IsZero() {
			return p.wrong("a place")
		}
		s.Via = append(s.Via, pos)
	}
	return p.need(")")
}

// flag gives the field of a word that stands alone.
func (s *Step) flag(word string) *bool {
	switch word {
	case "shared":
		return &s.Shared
	case "try":
		return &s.Try
	case "excl":
		return &s.Excl
	case "retry":
		return &s.Retry
	case "backoff":
		return &s.Backoff
	case "ctx":
		return &s.CtxChecked
	}
	return nil
}

// textClause gives the field of a word that has a text behind "=".
func (s *Step) textClause(word string) *string {
	switch word {
	case "agg":
		return &s.Agg
	case "tx":
		return &s.Tx
	case "iso":
		return &s.Iso
	case "lock":
		return &s.Lock
	case "missing":
		return &s.Missing
	case "err":
		return (*string)(&s.OnErr)
	case "stale":
		return &s.Stale
	case "void":
		return &s.Void
	case "note":
		return &s.Note
	case "content":
		if s.On == nil {
			return nil
		}
		return &s.On.Content
	}
	return nil
}
