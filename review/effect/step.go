package effect

// Block is a sequence of steps.
type Block []Step

// Op is what a step does.
type Op string

// Effects.
const (
	// Read reads On; Bind receives it. Cols are the columns; Where are further
	// conditions besides the key. With Lock "update" or "share" (and a Tx) it
	// takes row locks. Agg ("count", "max", "sum", "exists") is a read of a set:
	// it locks nothing that does not exist yet.
	Read Op = "read"
	// Check reads only to decide (exists, stat): v.found. Same as Read otherwise.
	Check Op = "check"
	// Write changes On: see Mode. Set are the values, Where the conditions the
	// store checks at that moment.
	Write Op = "write"
	// Guard puts On under an optimistic transaction: Commit of Tx fails when On
	// has changed since (Redis WATCH, etcd compare).
	Guard Op = "guard"
	// Lock and Unlock take and give back a lock: mutex, flock, lockfile, advisory,
	// lease. Try gives v.ok instead of waiting. An advisory lock with a Tx is
	// released by its end.
	Lock   Op = "lock"
	Unlock Op = "unlock"
	// Begin opens the transaction named by Bind, at isolation Iso ("", "read
	// committed", "repeatable read", "serializable", "optimistic").
	Begin    Op = "begin"
	Commit   Op = "commit"   // of Tx
	Rollback Op = "rollback" // of Tx
	// Send is an effect outside: a network call, a publish, a mail, a payment.
	// Set are the values sent (what is sent twice is told by them), Idem the
	// idempotency key. Mode Get is a call that changes nothing there (HTTP GET, a
	// lookup): sending it twice does no harm, waiting for it does.
	Send Op = "send"
	// Ack acknowledges: a message to its broker (On topic), or an answer written
	// to the client before the work is done (On remote "client").
	Ack Op = "ack"
	// Sleep waits for time to pass.
	Sleep Op = "sleep"
	// Fsync makes a file's content, or (On dir) a folder's names, durable.
	Fsync Op = "fsync"
	// Close closes a written file; its error may be the only sign of a lost write.
	Close Op = "close"
	// Rename moves On to To. Excl fails if To exists (link, RENAME_NOREPLACE).
	Rename Op = "rename"
	// Spawn runs Body at the same time; Bind names it for Wait. OnErr says what
	// becomes of an error inside.
	Spawn Op = "spawn"
	// Wait waits for the spawned Bind (or for all, without Args).
	Wait Op = "wait"
)

// Control flow.
const (
	Let      Op = "let"      // Name = Val; Name may be a field: "u.balance"
	If       Op = "if"       // Val, Body, Else
	Loop     Op = "loop"     // Body, while Val (none: until a break or return); Max, Retry, Backoff, CtxChecked
	Break    Op = "break"    // out of the innermost loop
	Continue Op = "continue" // the next round
	Return   Op = "return"   // ends the function with the values Args; Fail says that an error is returned
	Call     Op = "call"     // the function Func with Args; Bind receives v.0, v.1 ...; v.err
	Scope    Op = "scope"    // a linked call: Body, in which return ends the scope
)

// Modes of a write.
const (
	Update   = "update"   // rows, documents, objects, variables, keys that exist; v.rows
	Insert   = "insert"   // a new row; refused by a unique index
	Upsert   = "upsert"   // insert, or on conflict update (ON CONFLICT DO UPDATE); one step
	Ignore   = "ignore"   // insert, or on conflict do nothing; v.rows
	Put      = "put"      // create or replace the whole (file content by one call, blob, cache key)
	Create   = "create"   // only if absent (O_EXCL, If-None-Match: *, SETNX); v.ok
	Delete   = "delete"   // rows, files, keys
	Truncate = "truncate" // a file is opened and emptied; the content follows by Append or Fill
	Fill     = "fill"     // content into an opened file
	Append   = "append"   // to the end (O_APPEND, RPUSH): one step, keeps what others appended
	Get      = "get"      // of a Send: changes nothing
	Temp     = "temp"     // a new file with a unique name (os.CreateTemp); Bind has .path
)

// ErrPolicy says what the program does when a step fails.
type ErrPolicy string

// What becomes of an error. The zero value is OnReturn.
const (
	OnReturn ErrPolicy = "return" // leaves the function with an error
	OnDrop   ErrPolicy = "drop"   // goes on as if nothing were; bound values are zero
	OnLog    ErrPolicy = "log"    // likewise, with a log line
	OnBind   ErrPolicy = "bind"   // v.err holds it; the steps that follow look at it
)

// Step is one effect or one piece of control flow. Which fields mean something
// follows from Op; see there.
type Step struct {
	Op   Op     `json:"op"`
	Pos  Pos    `json:"pos"`
	Bind string `json:"bind,omitempty"` // variable that receives the result

	// Effects.
	On    *Resource `json:"on,omitempty"`
	To    *Resource `json:"to,omitempty"` // target of a rename
	Mode  string    `json:"mode,omitempty"`
	Cols  []string  `json:"cols,omitempty"`
	Set   []Assign  `json:"set,omitempty"`
	Where []Cond    `json:"where,omitempty"`
	Agg   string    `json:"agg,omitempty"`
	// Tx is the variable of the transaction it runs on. Empty is the outer handle
	// (autocommit, another connection); "?" is not known, and is taken for the
	// innermost open one.
	Tx      string    `json:"tx,omitempty"`
	Iso     string    `json:"iso,omitempty"`
	Lock    string    `json:"lock,omitempty"` // row lock of a read: "update", "share", "skip" (SKIP LOCKED), "nowait"
	Shared  bool      `json:"shared,omitempty"`
	Try     bool      `json:"try,omitempty"`
	Excl    bool      `json:"excl,omitempty"`
	Missing string    `json:"missing,omitempty"` // "error": a missing row is an error
	OnErr   ErrPolicy `json:"onErr,omitempty"`
	// Stale is how a lock may be taken from its holder: "age" (mtime or TTL), or
	// "pid". Fence is the token that the holder's reads and writes carry, if they do.
	Stale string `json:"stale,omitempty"`
	Fence *Value `json:"fence,omitempty"`
	// Owner is the token by which an unlock makes sure that it frees its own
	// lock; nil frees whatever is there.
	Owner *Value `json:"owner,omitempty"`
	Idem  *Value `json:"idem,omitempty"`
	// Void is why a protection in the source has no effect (an option that the
	// ORM ignores, a query that is built and never run): such a step is not
	// executed, and explains the finding.
	Void string `json:"void,omitempty"`

	// Control flow.
	Name       string  `json:"name,omitempty"`
	Val        *Value  `json:"val,omitempty"`
	Args       []Value `json:"args,omitempty"`
	Fail       bool    `json:"fail,omitempty"`
	Func       string  `json:"func,omitempty"`
	Body       Block   `json:"body,omitempty"`
	Else       Block   `json:"else,omitempty"`
	Max        int     `json:"max,omitempty"`   // most rounds of a loop; 0 is no bound
	Retry      bool    `json:"retry,omitempty"` // the loop repeats after a failure or conflict
	Backoff    bool    `json:"backoff,omitempty"`
	CtxChecked bool    `json:"ctxChecked,omitempty"` // each round looks at the context or a deadline

	// For the reader.
	Note string `json:"note,omitempty"` // the statement as the source has it, shortened
	Via  []Pos  `json:"via,omitempty"`  // the calls that led here, outermost first; Link fills it
}

// IsEffect says whether the step touches something outside the local copy.
func (s *Step) IsEffect() bool {
	switch s.Op {
	case Let, If, Loop, Break, Continue, Return, Call, Scope:
		return false
	}
	return true
}

// Walk visits each step of the block and of what is nested in it, in source
// order, until visit returns false.
func (b Block) Walk(visit func(*Step) bool) bool {
	for i := range b {
		if !visit(&b[i]) || !b[i].Body.Walk(visit) || !b[i].Else.Walk(visit) {
			return false
		}
	}
	return true
}
