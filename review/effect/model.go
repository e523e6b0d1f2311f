package effect

import "strconv"

// Pos is a place in the source. File is relative to the root of the analysed
// module, with slashes.
type Pos struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"` // from 1; 0 is unknown
	Col  int    `json:"col,omitempty"`  // from 1; 0 is unknown
}

// IsZero says that nothing is known of the place.
func (p Pos) IsZero() bool { return p.File == "" && p.Line == 0 }

func (p Pos) String() string {
	if p.IsZero() {
		return "-"
	}
	s := p.File + ":" + strconv.Itoa(p.Line)
	if p.Col > 0 {
		s += ":" + strconv.Itoa(p.Col)
	}
	return s
}

// Program is all that the front ends know of the analysed scope.
type Program struct {
	Module  string           `json:"module,omitempty"`
	Deploy  Deployment       `json:"deploy"`
	Schema  Schema           `json:"schema"`
	Entries []Entry          `json:"entries"`
	Funcs   map[string]*Func `json:"funcs,omitempty"` // by Func.ID; see Link
}

// EntryKind says what starts an entry point, and so whether two of them can run
// at once.
type EntryKind string

// The kinds of entry points. Library is an exported function whose callers are
// not in scope: it is no evidence of concurrency by itself.
const (
	HTTP      EntryKind = "http"      // a request handler: many at once
	GRPC      EntryKind = "grpc"      // likewise
	Consumer  EntryKind = "consumer"  // a queue message, a webhook queue, a job of a worker pool
	Cron      EntryKind = "cron"      // one at a time in a process, once per replica
	Reconcile EntryKind = "reconcile" // a controller: other writers are outside the process
	Goroutine EntryKind = "goroutine" // started by go (or a thread, a task)
	Main      EntryKind = "main"      // a command a person may run twice
	Startup   EntryKind = "startup"   // runs when a process starts, once per replica
	Library   EntryKind = "library"   // exported; who calls it is not known
)

// Retry says who runs an entry point again after a failure or a missing answer.
type Retry string

// Who retries. A broker redelivers until it is acknowledged; a caller may (a
// client after a time-out, a person who runs the command again).
const (
	RetryNone   Retry = ""
	RetryCaller Retry = "caller"
	RetryBroker Retry = "broker"
)

// Many stands for a number that has no bound.
const Many = -1

// Entry is one entry point with what it does.
type Entry struct {
	ID    string    `json:"id"`             // unique and stable: package path and function
	Name  string    `json:"name,omitempty"` // as people call it: "POST /withdraw"; ID if empty
	Kind  EntryKind `json:"kind"`
	Pos   Pos       `json:"pos"`
	Retry Retry     `json:"retry,omitempty"`
	// PerProcess is how many of it run at once in one process: Many, 1, or 0 for
	// what the kind implies (see Entry.Concurrent).
	PerProcess int `json:"perProcess,omitempty"`
	// Processes is how many processes run it at once: Many, 1, or 0 for what the
	// deployment says. A command that takes a lock on its whole run has 1.
	Processes int       `json:"processes,omitempty"`
	Evidence  string    `json:"evidence,omitempty"` // why it is thought to be concurrent
	Tests     []TestRef `json:"tests,omitempty"`    // tests that reach it
	Body      Block     `json:"body"`
}

// Title is the name people know the entry by.
func (e *Entry) Title() string {
	if e.Name != "" {
		return e.Name
	}
	return e.ID
}

// TestRef is a test that reaches an entry point or a write.
type TestRef struct {
	Name     string `json:"name"`
	Pos      Pos    `json:"pos"`
	Parallel bool   `json:"parallel,omitempty"` // it starts at least two actors at once
	Claims   bool   `json:"claims,omitempty"`   // its name or comment claims concurrency
}

// Deployment is what the deployment files say.
type Deployment struct {
	Replicas int    `json:"replicas,omitempty"` // processes of one service at once; 0 is unknown, Many for autoscaled
	Rolling  bool   `json:"rolling,omitempty"`  // old and new process overlap during a roll-out
	Evidence string `json:"evidence,omitempty"` // for example "deploy.yaml: replicas: 3"
	Pos      Pos    `json:"pos"`
	// Isolation is the default isolation level of the database where it is set
	// ("serializable", "repeatable read"); empty is READ COMMITTED. It means what
	// PostgreSQL means by it: REPEATABLE READ refuses the second of two updates.
	// That of MySQL does not (a plain SELECT is old, an UPDATE works on what is
	// new), and is to be given as empty.
	Isolation string `json:"isolation,omitempty"`
}

// Schema is what migrations and schema files leave, after all of them ran.
type Schema struct {
	Tables map[string]*Table `json:"tables,omitempty"` // by name, lower case, without schema prefix
}

// Table holds the facts of one table that decide races.
type Table struct {
	Name        string       `json:"name"`
	Pos         Pos          `json:"pos"`
	Columns     []string     `json:"columns,omitempty"`
	Primary     []string     `json:"primary,omitempty"`
	Unique      []Unique     `json:"unique,omitempty"` // without the primary key
	Checks      []string     `json:"checks,omitempty"` // SQL text
	ForeignKeys []ForeignKey `json:"foreignKeys,omitempty"`
}

// Unique is a unique constraint or index.
type Unique struct {
	Name  string   `json:"name,omitempty"`
	Cols  []string `json:"cols"`
	Where string   `json:"where,omitempty"` // of a partial index, SQL text
	Pos   Pos      `json:"pos"`
}

// ForeignKey is a reference to another table.
type ForeignKey struct {
	Cols     []string `json:"cols"`
	Ref      string   `json:"ref"`
	OnDelete string   `json:"onDelete,omitempty"` // "cascade", "set null", ...
}

// Func is the summary of one function: what it does in terms of its parameters.
type Func struct {
	ID     string   `json:"id"`
	Pos    Pos      `json:"pos"`
	Params []string `json:"params,omitempty"` // receiver first; used as variables in Body
	Body   Block    `json:"body"`
}

// Kind of a resource.
type Kind string

// Kinds of resources; see the package comment for names and keys.
const (
	TableKind    Kind = "table"
	FileKind     Kind = "file"
	DirKind      Kind = "dir"
	BlobKind     Kind = "blob"
	CacheKind    Kind = "cache"
	ObjectKind   Kind = "object"
	VarKind      Kind = "var"
	MutexKind    Kind = "mutex"
	FlockKind    Kind = "flock"
	LockfileKind Kind = "lockfile"
	AdvisoryKind Kind = "advisory"
	LeaseKind    Kind = "lease"
	TopicKind    Kind = "topic"
	RemoteKind   Kind = "remote"
)

// Resource is what an effect is on.
type Resource struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	// Key says which one: equalities of columns (or "path", "key", "name") and
	// values, all of which hold. No key is the whole table, or the only one.
	Key []Assign `json:"key,omitempty"`
	// Content names the form of the content where it matters to the reader of a
	// report: "json" for a JSON file or column that holds a list or map.
	Content string `json:"content,omitempty"`
}

// Assign pairs a column with a value.
type Assign struct {
	Col string `json:"col"` // "*" is the whole row, file, object
	Val Value  `json:"val"`
}

// Cond is a condition that the store itself checks: a column, an operator (==,
// !=, <, <=, >, >=) and a value.
type Cond struct {
	Col string `json:"col"`
	Op  string `json:"op"`
	Val Value  `json:"val"`
}
