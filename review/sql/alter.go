package sql

import (
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

func (s *Schema) alterTable(p *parser, pos effect.Pos) {
	p.word("ONLY")
	p.words("IF", "EXISTS")
	p.word("ONLY")
	name := p.table()
	if p.bad != "" {
		return
	}
	t := s.table(name, pos)
	for p.tok().kind != tokEOF && p.bad == "" {
		switch {
		case p.word("ADD"):
			if !s.tableConstraint(p, t, pos) {
				p.word("COLUMN")
				p.words("IF", "NOT", "EXISTS")
				s.columnDef(p, t, pos)
			}
		case p.word("DROP"):
			s.alterDrop(p, t)
		case p.words("RENAME", "TO"):
			to := p.table()
			delete(s.Tables, name)
			t.Name = to
			s.Tables[to] = t
		case p.word("RENAME"):
			p.word("COLUMN")
			from := strings.ToLower(p.ident())
			if p.word("TO") {
				rename(t, from, strings.ToLower(p.ident()))
			}
		}
		p.skipItem()
		if !p.op(",") {
			break
		}
	}
}

func (s *Schema) alterDrop(p *parser, t *effect.Table) {
	switch {
	case p.word("CONSTRAINT"), p.word("INDEX"), p.word("KEY"):
		p.words("IF", "EXISTS")
		n := strings.ToLower(p.ident())
		s.dropIndex(n)
		if n == t.Name+"_pkey" {
			t.Primary = nil
		}
	case p.words("PRIMARY", "KEY"):
		t.Primary = nil
	case p.words("FOREIGN", "KEY"):
	default:
		p.word("COLUMN")
		p.words("IF", "EXISTS")
		dropColumn(t, strings.ToLower(p.ident()))
	}
}

func (s *Schema) dropIndex(name string) {
	t := s.Tables[s.indexes[name]]
	if t == nil {
		return
	}
	kept := t.Unique[:0:0]
	for _, u := range t.Unique {
		if u.Name == name || u.Name == "" && len(u.Cols) == 1 && t.Name+"_"+u.Cols[0]+"_key" == name {
			continue
		}
		kept = append(kept, u)
	}
	t.Unique = kept
	delete(s.indexes, name)
}

func dropColumn(t *effect.Table, col string) {
	has := func(cols []string) bool {
		for _, c := range cols {
			if c == col {
				return true
			}
		}
		return false
	}
	cols := t.Columns[:0:0]
	for _, c := range t.Columns {
		if c != col {
			cols = append(cols, c)
		}
	}
	t.Columns = cols
	kept := t.Unique[:0:0]
	for _, u := range t.Unique {
		if !has(u.Cols) {
			kept = append(kept, u)
		}
	}
	t.Unique = kept
	if has(t.Primary) {
		t.Primary = nil
	}
}

func rename(t *effect.Table, from, to string) {
	swap := func(cols []string) {
		for i := range cols {
			if cols[i] == from {
				cols[i] = to
			}
		}
	}
	swap(t.Columns)
	swap(t.Primary)
	for i := range t.Unique {
		swap(t.Unique[i].Cols)
	}
	for i := range t.ForeignKeys {
		swap(t.ForeignKeys[i].Cols)
	}
}
