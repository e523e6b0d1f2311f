package postgres

import (
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/holdfast-dev/holdfast/play/gate"
)

// state is where a unit stands.
type state uint8

const (
	queued    state = iota // arrived, behind others
	preparing              // at the head, its footprint is being computed
	held                   // announced
	releasing              // being let through
	sent                   // at the server
	answered               // answer kept
	gone                   // delivered, or lost with its connection
)

func (s state) String() string {
	return [...]string{"queued", "being prepared", "held", "being released", "at the server", "answered", "gone"}[s]
}

// unit is a part of the client's stream that goes to the server as a whole:
// one Query, everything up to a Sync, or everything up to a Flush.
// The connection's mutex guards it.
type unit struct {
	conn *conn
	// step is set when the unit has been announced as a step.
	step *gate.Step
	raw  []byte
	// simple and sync units end with ReadyForQuery; without either the unit
	// is a flush part and ends with the last completion of its ops, or with an
	// error, since the server then skips all until Sync.
	simple, sync bool
	// runs: a Query or an Execute is in it.
	runs bool
	// ops are the messages that have a completion, in order; next is the first
	// that has not been completed.
	ops  []op
	next int
	// execs are the executed portals (or the Query's text).
	execs []execution

	state state
	// keep: the answer is kept for Deliver; otherwise it streams.
	keep bool
	// reply is the kept answer; seen is what was read in it.
	reply []byte
	seen  answer
	// open: a transaction is open after it.
	open bool
	// copying: the server has asked for COPY data.
	copying bool
	// armed: the gate holds the split lock of this backend for the step;
	// paused: the trigger has said that it waits.
	armed, paused bool
}

// op is one extended-protocol message that the server answers.
type op struct {
	kind   byte // the message's type byte
	target byte // 'S' or 'P', of Describe and Close
	name   string
	stmt   *prepared // of Parse, Describe and (the closed one) Close
	prev   *prepared // what the name meant before Parse or Close
	portal *portal   // of Bind, Describe and Execute
}

// prepared is a statement the client has parsed.
type prepared struct {
	sql string
	// oids are the parameter types: as declared, then as the server reports.
	oids   []uint32
	fields []field
}

// portal is a bound statement.
type portal struct {
	stmt    *prepared // nil: bound to a name that the gate has not seen parsed
	name    string    // of the statement, for messages
	params  [][]byte
	formats []int16
	results []int16
	fields  []field // from Describe of the portal itself
}

// execution is one thing a step executes.
type execution struct {
	sql    string
	portal *portal // nil for a simple Query
}

// field is a result column.
type field struct {
	name   string
	oid    uint32
	format int16
}

func fieldsOf(raw []byte) ([]field, error) {
	var d pgproto3.RowDescription
	if err := d.Decode(raw[headerLen:]); err != nil {
		return nil, err
	}
	fs := make([]field, len(d.Fields))
	for i, f := range d.Fields {
		fs[i] = field{string(f.Name), f.DataTypeOID, f.Format}
	}
	return fs, nil
}

// resultFields are the columns of the portal's rows, where known: from its own
// description, or from its statement's with the formats asked for in Bind.
func (p *portal) resultFields() []field {
	if p.fields != nil || p.stmt == nil {
		return p.fields
	}
	p.fields = make([]field, len(p.stmt.fields))
	for i, f := range p.stmt.fields {
		f.format = formatAt(p.results, i)
		p.fields[i] = f
	}
	return p.fields
}

// formatAt is the format of the i-th value: no codes mean text for all, one
// code is for all.
func formatAt(codes []int16, i int) int16 {
	switch {
	case len(codes) == 1:
		return codes[0]
	case i < len(codes):
		return codes[i]
	}
	return pgproto3.TextFormat
}

// names are the statements and portals of one connection, as the client's
// messages define them. Entries are made when a message arrives, since the next
// one of the same cycle refers to it, and taken back when the server answers
// with an error instead of completing it.
type names struct {
	stmts   map[string]*prepared
	portals map[string]*portal
}

func (n *names) parse(u *unit, m *pgproto3.Parse) {
	p := &prepared{sql: m.Query, oids: m.ParameterOIDs}
	u.ops = append(u.ops, op{kind: 'P', name: m.Name, stmt: p, prev: n.stmts[m.Name]})
	n.stmts[m.Name] = p
}

func (n *names) bind(u *unit, m *pgproto3.Bind) {
	p := &portal{stmt: n.stmts[m.PreparedStatement], name: m.PreparedStatement,
		params: m.Parameters, formats: m.ParameterFormatCodes, results: m.ResultFormatCodes}
	u.ops = append(u.ops, op{kind: 'B', name: m.DestinationPortal, portal: p})
	n.portals[m.DestinationPortal] = p
}

func (n *names) describe(u *unit, m *pgproto3.Describe) {
	o := op{kind: 'D', target: m.ObjectType, name: m.Name}
	if m.ObjectType == 'S' {
		o.stmt = n.stmts[m.Name]
	} else {
		o.portal = n.portals[m.Name]
	}
	u.ops = append(u.ops, o)
}

func (n *names) close(u *unit, m *pgproto3.Close) {
	o := op{kind: 'C', target: m.ObjectType, name: m.Name}
	if m.ObjectType == 'S' {
		o.prev = n.stmts[m.Name]
		delete(n.stmts, m.Name)
	} else {
		delete(n.portals, m.Name)
	}
	u.ops = append(u.ops, o)
}

func (n *names) execute(u *unit, m *pgproto3.Execute) {
	p := n.portals[m.Portal]
	if p == nil {
		p = &portal{name: m.Portal}
	}
	e := execution{portal: p}
	if p.stmt != nil {
		e.sql = p.stmt.sql
	}
	u.runs = true
	u.ops = append(u.ops, op{kind: 'E', portal: p})
	u.execs = append(u.execs, e)
}

// undo takes back what the ops from the failed one on have defined. A name that
// a later unit of the pipeline has defined anew keeps the new meaning.
func (n *names) undo(u *unit) {
	for i := len(u.ops) - 1; i >= u.next; i-- {
		o := u.ops[i]
		if o.kind != 'P' && (o.kind != 'C' || o.target != 'S') {
			continue
		}
		if n.stmts[o.name] != o.stmt {
			continue
		}
		if o.prev == nil {
			delete(n.stmts, o.name)
		} else {
			n.stmts[o.name] = o.prev
		}
	}
}
