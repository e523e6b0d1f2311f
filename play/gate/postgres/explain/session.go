package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/play/explore"
)

// Result is what one step does.
type Result struct {
	Footprint explore.Footprint
	// First and Rest are its parts when it stops inside; see Splittable.
	First, Rest explore.Footprint
	// Writes are the tables that it may change, cascades included; nil with an
	// unknown footprint means any.
	Writes []string
	// Quiet: it touches nothing, and begins and ends nothing.
	Quiet bool
	// Splittable: it changes rows that it has selected under its snapshot, which
	// others can change in between.
	Splittable bool
}

// Session follows the transactions of one client connection. Its methods are
// safe for concurrent use; steps of one connection come one after the other.
type Session struct {
	analyzer *Analyzer

	mu   sync.Mutex
	path string // search_path of the client; "" is the default
	// isolation of the session's transactions, and of the one under way.
	session, isolation string
	status             byte // of the last ReadyForQuery
	tx                 transaction
	// next is the state after the step that was analysed last; ddl: it changes
	// the schema.
	next transaction
	ddl  bool
}

// transaction is what the open transaction has done.
type transaction struct {
	open bool
	// wrote are accesses that COMMIT publishes, held those that it only ends.
	wrote, held []explore.Access
	unknown     string
	snapshot    bool // REPEATABLE READ: the snapshot has been taken
	savepoint   bool // an error may end only a part of it
}

// Session starts following a connection.
func (a *Analyzer) Session() *Session {
	return &Session{analyzer: a, status: 'I', session: a.isolation}
}

// Parameter takes in a parameter of the startup message.
func (s *Session) Parameter(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(strings.ToLower(name), value)
}

func (s *Session) set(name, value string) {
	switch name {
	case "search_path":
		s.path = value
	case "default_transaction_isolation":
		s.session = strings.ToLower(strings.Trim(value, "' "))
	}
}

// Finished takes in the transaction status of the ReadyForQuery that ended the
// step: 'I' idle, 'T' in a transaction, 'E' in a failed one.
func (s *Session) Finished(status byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
	if s.ddl {
		s.analyzer.Invalidate()
		s.ddl = false
	}
	if status == 'I' {
		s.tx = transaction{}
		return
	}
	s.tx = s.next
	s.tx.open = true
	if status == 'E' && !s.tx.savepoint {
		// The error has ended its locks already, not the ROLLBACK to come.
		s.tx.wrote, s.tx.held, s.tx.unknown = nil, nil, ""
	}
}

// builder collects the result of one step.
type builder struct {
	s     *Session
	tx    transaction
	res   Result
	acc   []explore.Access
	reads []explore.Access
	any   bool // something that is not quiet
	ddl   bool
}

// Analyze tells what a step of these statements touches. It does not fail: what
// it can not tell conflicts with everything, for a reason.
func (s *Session) Analyze(ctx context.Context, stmts []Statement) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &builder{s: s, tx: s.tx}
	if !b.tx.open {
		s.isolation = s.session
	}
	explicit := b.tx.open
	for _, st := range stmts {
		pieces := split(st.SQL)
		for _, p := range pieces {
			b.statement(ctx, st, p)
		}
	}
	if !b.tx.open && !explicit {
		b.end(explore.Publish) // the implicit transaction
	}
	s.next = b.tx
	s.ddl = b.ddl
	return b.result()
}

func (b *builder) result() Result {
	r := b.res
	r.Quiet = !b.any && !r.Footprint.Unknown && len(b.acc)+len(b.reads) == 0
	why := r.Footprint.Why
	unknown := r.Footprint.Unknown
	r.Footprint = explore.Footprint{Unknown: unknown, Why: why, Accesses: append(slices.Clone(b.reads), b.acc...)}
	r.First = explore.Footprint{Unknown: unknown, Why: why, Accesses: b.reads}
	r.Rest = explore.Footprint{Unknown: unknown, Why: why, Accesses: b.acc}
	if unknown {
		r.Footprint.Accesses, r.First.Accesses, r.Rest.Accesses = nil, nil, nil
	}
	return r
}

func (b *builder) unknown(why string) {
	b.any = true
	if !b.res.Footprint.Unknown {
		b.res.Footprint = explore.Anything(why)
	}
	if b.tx.unknown == "" {
		b.tx.unknown = why
	}
	b.res.Writes = nil
}

// end is what COMMIT (Publish) or ROLLBACK (Unlock) does.
func (b *builder) end(mode explore.Mode) {
	for _, a := range b.tx.wrote {
		a.Mode = mode
		b.acc = append(b.acc, a)
	}
	for _, a := range b.tx.held {
		a.Mode = explore.Unlock
		b.acc = append(b.acc, a)
	}
	if b.tx.unknown != "" && !b.res.Footprint.Unknown {
		b.res.Footprint = explore.Anything("it ends a transaction with: " + b.tx.unknown)
	}
	b.tx = transaction{}
}

// statement adds one statement.
func (b *builder) statement(ctx context.Context, st Statement, p piece) {
	if b.s.status == 'E' && b.tx.open && !p.toks[0].is("rollback", "abort", "commit", "end") {
		return // refused by the server until the transaction ends
	}
	if b.control(p.toks) || b.utility(ctx, st, p) {
		return
	}
	b.add(b.s.analyzer.effect(ctx, st, p, b.s.path))
}

// control handles the statements that begin and end transactions.
func (b *builder) control(toks []token) bool {
	switch first := toks[0]; {
	case first.is("begin") || first.is("start") && len(toks) > 1 && toks[1].is("transaction"):
		b.any = true
		b.tx.open = true
		b.s.isolation = b.s.session
		b.level(toks)
	case first.is("commit", "end") && !(len(toks) > 1 && toks[1].is("prepared")):
		b.any = true
		b.end(explore.Publish)
	case first.is("rollback", "abort") && len(toks) > 1 && slices.ContainsFunc(toks, func(t token) bool { return t.is("to") }):
		b.any = true
		// Locks taken since the savepoint end; which ones is not kept.
		for _, a := range append(slices.Clone(b.tx.wrote), b.tx.held...) {
			a.Mode = explore.Unlock
			b.acc = append(b.acc, a)
		}
	case first.is("rollback", "abort") && !(len(toks) > 1 && toks[1].is("prepared")):
		b.any = true
		b.end(explore.Unlock)
	case first.is("savepoint", "release"):
		b.tx.savepoint = true
	default:
		return false
	}
	return true
}

// level notes an isolation level in BEGIN or SET TRANSACTION.
func (b *builder) level(toks []token) {
	for i, t := range toks {
		if t.is("level") && i+1 < len(toks) {
			level := toks[i+1].text
			if i+2 < len(toks) && (toks[i+1].is("repeatable") || toks[i+1].is("read")) {
				level += " " + toks[i+2].text
			}
			b.s.isolation = level
		}
	}
}

// utility handles the statements that have no plan; false for those that do.
func (b *builder) utility(ctx context.Context, st Statement, p piece) bool {
	toks := p.toks
	switch first := toks[0]; {
	case first.is("select", "with") && intoTable(toks):
		b.ddl = true
		b.unknown("SELECT INTO makes a table")
	case first.is("select", "insert", "update", "delete", "with", "values", "merge", "table", "("):
		return false
	case first.is("set"):
		b.setting(toks)
	case first.is("show", "reset", "discard", "deallocate", "listen", "unlisten", "notify", "close", "checkpoint"):
		if first.is("reset", "discard") {
			b.s.path, b.s.session = "", b.s.analyzer.isolation
		}
	case first.is("declare"):
		if i := slices.IndexFunc(toks, func(t token) bool { return t.is("for") }); i >= 0 && i+1 < len(toks) {
			b.statement(ctx, st, piece{sql: join(toks[i+1:]), toks: toks[i+1:]})
			return true
		}
		b.unknown("a cursor")
	case first.is("fetch", "move"):
		// The cursor's snapshot was taken by DECLARE.
		b.any = true
	case first.is("copy"):
		b.copy(ctx, toks)
	case first.is("lock"):
		b.lockTable(toks)
	case first.is("truncate"):
		b.unknown("TRUNCATE")
	case first.is("explain"):
		b.unknown("EXPLAIN")
	case first.is("do", "call", "execute", "prepare"):
		b.unknown(strings.ToUpper(first.text))
	default:
		b.ddl = true
		b.unknown(strings.ToUpper(first.text) + " is not analysed")
	}
	return true
}

// intoTable finds the INTO of SELECT INTO, which is at the top level and not that
// of an INSERT or MERGE.
func intoTable(toks []token) bool {
	depth := 0
	for i, t := range toks {
		switch {
		case t.is("("):
			depth++
		case t.is(")"):
			depth--
		case depth == 0 && t.is("into") && i > 0 && !toks[i-1].is("insert", "merge"):
			return true
		}
	}
	return false
}

// setting follows SET where it matters.
func (b *builder) setting(toks []token) {
	rest := toks[1:]
	if len(rest) > 0 && rest[0].is("transaction") {
		b.level(rest)
		return
	}
	if len(rest) > 1 && rest[0].is("session") && rest[1].is("characteristics") {
		saved := b.s.isolation
		b.level(rest)
		b.s.session, b.s.isolation = b.s.isolation, saved
		return
	}
	if len(rest) > 0 && rest[0].is("local", "session") {
		rest = rest[1:]
	}
	if len(rest) >= 3 && rest[1].is("=", "to") {
		b.s.set(rest[0].text, join(rest[2:]))
	}
}

// copy handles COPY table FROM and TO.
func (b *builder) copy(ctx context.Context, toks []token) {
	name, i := tableName(toks[1:])
	if name == "" {
		b.unknown("COPY of a query")
		return
	}
	from := slices.IndexFunc(toks[1+i:], func(t token) bool { return t.is("from", "to") })
	if from < 0 || b.s.path != "" {
		b.unknown("COPY")
		return
	}
	if toks[1+i+from].is("to") {
		b.add(&effect{reads: []explore.Access{{Mode: explore.Read, Object: name}}, snapshot: true})
		return
	}
	b.add(b.s.analyzer.insertInto(ctx, name))
}

// insertInto is the effect of a plain insert without a plan.
func (a *Analyzer) insertInto(ctx context.Context, name string) *effect {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := &effect{snapshot: true}
	if err := a.load(ctx); err != nil {
		out.unknown = fmt.Sprintf("the catalog: %v", err)
		return out
	}
	r := &reader{cat: a.cat, out: out, seen: map[string]bool{}}
	r.write(name, "Insert", nil)
	return out
}

// tableName reads a possibly qualified name and tells how many tokens it took.
func tableName(toks []token) (string, int) {
	if len(toks) == 0 || name(toks[0]) == "" {
		return "", 0
	}
	if len(toks) > 2 && toks[1].is(".") && name(toks[2]) != "" {
		if name(toks[0]) == "public" {
			return name(toks[2]), 3
		}
		return name(toks[0]) + "." + name(toks[2]), 3
	}
	return name(toks[0]), 1
}

func (b *builder) lockTable(toks []token) {
	rest := toks[1:]
	if len(rest) > 0 && rest[0].is("table") {
		rest = rest[1:]
	}
	name, n := tableName(rest)
	if name == "" || b.s.path != "" || n < len(rest) && rest[n].is(",") {
		b.unknown("LOCK of several tables")
		return
	}
	// Which modes conflict is not modelled: all of them are taken to.
	b.unknown("LOCK TABLE " + name)
}

// add takes in the effect of a planned statement.
func (b *builder) add(e *effect) {
	if e.unknown != "" {
		b.unknown(e.unknown)
		return
	}
	if !e.touches() {
		return
	}
	b.any = true
	switch b.s.isolation {
	case "serializable":
		b.unknown("SERIALIZABLE: the server compares reads and writes of all transactions")
		b.changes(e)
		return
	case "repeatable read":
		if e.snapshot && !b.tx.snapshot {
			b.tx.snapshot = true
			b.changes(e)
			if b.res.Footprint = explore.Anything("REPEATABLE READ: its snapshot serves the whole transaction"); b.tx.open || len(e.locks) > 0 {
				b.remember(e)
			}
			return
		}
	default:
		b.reads = append(b.reads, e.reads...)
	}
	b.changes(e)
	b.acc = append(b.acc, e.locks...)
	b.acc = append(b.acc, e.holds...)
	b.acc = append(b.acc, e.writes...)
	b.acc = append(b.acc, e.advisory...)
	b.res.Splittable = b.res.Splittable || e.splittable
	b.remember(e)
}

func (b *builder) changes(e *effect) {
	for _, t := range e.changes {
		if !slices.Contains(b.res.Writes, t) {
			b.res.Writes = append(b.res.Writes, t)
		}
	}
}

// remember keeps what the transaction's end will publish and end.
func (b *builder) remember(e *effect) {
	b.tx.wrote = append(slices.Clip(b.tx.wrote), e.locks...)
	b.tx.held = append(slices.Clip(b.tx.held), e.holds...)
	for _, a := range e.advisory {
		if a.Mode != explore.Unlock {
			b.tx.held = append(b.tx.held, a)
		}
	}
}
