package effect

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse reads the text form of a program (see Format for an example of each
// line). An error names the line.
func Parse(text string) (*Program, error) {
	p := &parser{scanner: newScanner(text), prog: &Program{}}
	for p.tok != "" {
		if p.take("\n") {
			continue
		}
		if err := p.decl(); err != nil {
			return nil, err
		}
	}
	return p.prog, nil
}

type parser struct {
	*scanner
	prog *Program
}

func (p *parser) decl() error {
	word, err := p.name()
	if err != nil {
		return err
	}
	switch word {
	case "module":
		p.prog.Module, err = p.name()
	case "deploy":
		err = p.deploy()
	case "table":
		err = p.table()
	case "entry":
		err = p.entry()
	case "func":
		err = p.function()
	default:
		return fmt.Errorf("line %d: %q begins no declaration: use module, deploy, table, entry or func", p.line, word)
	}
	return err
}

// number reads a count; "many" is no bound.
func (p *parser) number() (int, error) {
	t := p.tok
	p.next()
	if t == "many" {
		return Many, nil
	}
	n, err := strconv.Atoi(t)
	if err != nil {
		return 0, fmt.Errorf("line %d: want a number or many, got %q", p.line, t)
	}
	return n, nil
}

// clauses reads words until the line or the head of a block ends. set gets each
// word; a word with a value stands before "=".
func (p *parser) clauses(set func(word string) error) error {
	for p.tok != "\n" && p.tok != "" && p.tok != "{" && p.tok[0] != '@' {
		word, err := p.name()
		if err != nil {
			return err
		}
		p.take("=")
		if err := set(word); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) deploy() (err error) {
	d := &p.prog.Deploy
	err = p.clauses(func(word string) (err error) {
		switch word {
		case "replicas":
			d.Replicas, err = p.number()
		case "rolling":
			d.Rolling = true
		case "evidence":
			d.Evidence, err = p.name()
		case "isolation":
			d.Isolation, err = p.name()
		default:
			err = p.unknown(word, "deploy")
		}
		return err
	})
	if err == nil {
		d.Pos, err = p.pos()
	}
	return err
}

func (p *parser) unknown(word, of string) error {
	return fmt.Errorf("line %d: %q says nothing in %s", p.line, word, of)
}

// names reads ( a, b ).
func (p *parser) names() ([]string, error) {
	if err := p.need("("); err != nil {
		return nil, err
	}
	var out []string
	for p.tok != ")" {
		if p.take("*") {
			out = append(out, "*")
		} else {
			n, err := p.name()
			if err != nil {
				return nil, err
			}
			out = append(out, n)
		}
		if !p.take(",") {
			break
		}
	}
	return out, p.need(")")
}

func (p *parser) table() error {
	t := &Table{}
	var err error
	if t.Name, err = p.name(); err != nil {
		return err
	}
	if p.tok == "(" {
		if t.Columns, err = p.names(); err != nil {
			return err
		}
	}
	err = p.clauses(func(word string) (err error) {
		switch word {
		case "primary":
			t.Primary, err = p.names()
		case "unique":
			var u Unique
			if p.tok != "(" {
				if u.Name, err = p.name(); err != nil {
					return err
				}
			}
			u.Cols, err = p.names()
			t.Unique = append(t.Unique, u)
		case "partial":
			if len(t.Unique) == 0 {
				return p.wrong("unique before partial")
			}
			t.Unique[len(t.Unique)-1].Where, err = p.name()
		case "check":
			var c string
			c, err = p.name()
			t.Checks = append(t.Checks, c)
		case "foreign":
			var f ForeignKey
			if f.Cols, err = p.names(); err != nil {
				return err
			}
			f.Ref, err = p.name()
			t.ForeignKeys = append(t.ForeignKeys, f)
		case "ondelete":
			if len(t.ForeignKeys) == 0 {
				return p.wrong("foreign before ondelete")
			}
			t.ForeignKeys[len(t.ForeignKeys)-1].OnDelete, err = p.name()
		default:
			err = p.unknown(word, "table")
		}
		return err
	})
	if err == nil {
		t.Pos, err = p.pos()
	}
	if p.prog.Schema.Tables == nil {
		p.prog.Schema.Tables = map[string]*Table{}
	}
	p.prog.Schema.Tables[strings.ToLower(t.Name)] = t
	return err
}

func (p *parser) entry() error {
	var e Entry
	var err error
	var kind string
	if e.ID, err = p.name(); err != nil {
		return err
	}
	if kind, err = p.name(); err != nil {
		return err
	}
	e.Kind = EntryKind(kind)
	if p.tok != "" && p.tok[0] == '"' {
		e.Name, _ = p.name()
	}
	err = p.clauses(func(word string) (err error) {
		switch word {
		case "retry":
			var r string
			r, err = p.name()
			e.Retry = Retry(r)
		case "per":
			e.PerProcess, err = p.number()
		case "procs":
			e.Processes, err = p.number()
		case "evidence":
			e.Evidence, err = p.name()
		default:
			err = p.unknown(word, "entry")
		}
		return err
	})
	if err != nil {
		return err
	}
	if e.Pos, err = p.pos(); err != nil {
		return err
	}
	e.Body, err = p.block(&e)
	p.prog.Entries = append(p.prog.Entries, e)
	return err
}

func (p *parser) test() (TestRef, error) {
	var t TestRef
	var err error
	if t.Name, err = p.name(); err != nil {
		return t, err
	}
	err = p.clauses(func(word string) error {
		switch word {
		case "parallel":
			t.Parallel = true
		case "claims":
			t.Claims = true
		default:
			return p.unknown(word, "test")
		}
		return nil
	})
	if err == nil {
		t.Pos, err = p.pos()
	}
	return t, err
}

func (p *parser) function() error {
	f := &Func{}
	var err error
	if f.ID, err = p.name(); err != nil {
		return err
	}
	if f.Params, err = p.names(); err != nil {
		return err
	}
	if f.Pos, err = p.pos(); err != nil {
		return err
	}
	f.Body, err = p.block(nil)
	if p.prog.Funcs == nil {
		p.prog.Funcs = map[string]*Func{}
	}
	p.prog.Funcs[f.ID] = f
	return err
}

// block reads { lines }. Tests may stand in the block of an entry.
func (p *parser) block(e *Entry) (Block, error) {
	if err := p.need("{"); err != nil {
		return nil, err
	}
	var b Block
	for !p.take("}") {
		if p.take("\n") {
			continue
		}
		if e != nil && p.take("test") {
			t, err := p.test()
			if err != nil {
				return nil, err
			}
			e.Tests = append(e.Tests, t)
			continue
		}
		s, err := p.step()
		if err != nil {
			return nil, err
		}
		b = append(b, s)
	}
	return b, nil
}
