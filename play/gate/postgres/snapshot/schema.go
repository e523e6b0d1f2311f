package snapshot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/play/oracle"
)

// schema is what Take has found in the catalog.
type schema struct {
	tables    []*table    // sorted by name
	relations []*relation // all parts of all tables
	sequences []*sequence
	// dirty gives the relations to restore for each name that a caller may use.
	dirty map[string][]*relation
}

// table is a table as the application sees it: a plain one, or a partitioned
// one with all its partitions.
type table struct {
	oid         uint32
	name        string // for people and for the oracle
	ident       string // for SQL
	partitioned bool
	columns     []column
	// primary are the columns of the primary key, sortable or not.
	primary []string
	// sortable: all of the key's types have an order.
	sortable bool
	parts    []*relation
	excluded bool
	large    bool

	// What is observed: the columns that are not excluded.
	seen       []oracle.Column
	seenKey    []int
	observeSQL string
	rows       [][]*string
}

// relation is what stores rows: a plain table or one partition.
type relation struct {
	oid     uint32
	display string
	ident   string
	copy    string
	columns []column
	// key is the primary key with the operators of its index; empty when there
	// is none that rows can be joined by.
	key    []keyColumn
	digest string
}

type column struct {
	name      string
	typ       oracle.Type
	refs      string // "table.column"
	generated bool
	excluded  bool
}

type keyColumn struct {
	name string
	// equal is the equality of the primary key's own index, in SQL. Looking it
	// up by name alone would depend on the search path (citext).
	equal string
}

type sequence struct {
	ident               string
	increment, min, max int64
	last                int64
	called              bool
}

// expand gives the relations that the dirty names mean (nil: all), each once.
// unknown: some name was not there at Take, so all relations are meant.
func (s *schema) expand(dirty []string) (rels []*relation, unknown bool) {
	if dirty == nil {
		return s.relations, false
	}
	seen := map[*relation]bool{}
	for _, name := range dirty {
		parts, ok := s.dirty[name]
		if !ok {
			return s.relations, true
		}
		for _, r := range parts {
			if !seen[r] {
				seen[r] = true
				rels = append(rels, r)
			}
		}
	}
	return rels, false
}

// displayName is "table" in schema public, else "schema.table". Parts with a
// dot are quoted, so that no two tables share a name.
func displayName(schema, name string) string {
	if schema == "public" {
		return quoteDotted(name)
	}
	return quoteDotted(schema) + "." + quoteDotted(name)
}

func quoteDotted(name string) string {
	if strings.Contains(name, ".") {
		return quote(name)
	}
	return name
}

func quote(name ...string) string { return pgx.Identifier(name).Sanitize() }

func literal(s string) string {
	// standard_conforming_strings is on in this session.
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// exclude marks what Options.Exclude names.
func (s *Snapshot) exclude() error {
	for _, name := range s.opts.Exclude {
		if !s.schema.excludeOne(name) {
			return fmt.Errorf("exclude %q: there is no such table or column: use \"table\" or \"table.column\" "+
				"with one of the tables %s", name, strings.Join(s.Tables(), ", "))
		}
	}
	return nil
}

func (s *schema) excludeOne(name string) bool {
	for _, t := range s.tables {
		if t.name == name {
			t.excluded = true
			return true
		}
		col, ok := strings.CutPrefix(name, t.name+".")
		if !ok {
			continue
		}
		i := slices.IndexFunc(t.columns, func(c column) bool { return c.name == col })
		if i >= 0 {
			t.columns[i].excluded = true
			return true
		}
	}
	return false
}

// prepareObservation fixes what Observe reads of the table.
func (t *table) prepareObservation() {
	if t.large {
		t.seen = append(t.seen, oracle.Column{Name: "(change)", Type: oracle.Plain})
	}
	at := map[string]int{}
	for _, c := range t.columns {
		if c.excluded {
			continue
		}
		at[c.name] = len(t.seen)
		t.seen = append(t.seen, oracle.Column{Name: c.name, Type: c.typ, References: c.refs})
	}
	for _, k := range t.primary {
		i, ok := at[k]
		if !ok {
			// Without one of its columns it does not tell rows apart.
			t.seenKey = nil
			break
		}
		t.seenKey = append(t.seenKey, i)
	}
	if t.large && t.seenKey != nil {
		t.seenKey = append([]int{0}, t.seenKey...)
	}
	if t.large {
		t.observeSQL = t.differencesSQL()
	} else {
		t.observeSQL = t.rowsSQL()
	}
}
