package oracle

// Type is what the oracle needs to know of a column's type.
type Type string

const (
	// Plain values are compared as they are.
	Plain Type = "plain"
	// ID values come from a sequence, an identity column or a generator, or
	// refer to one; they are renamed one-to-one by first appearance.
	ID Type = "id"
	// Time values are moments; where two identical serial runs differ in them
	// they are masked.
	Time Type = "time"
	// JSON values are compared by their parsed form.
	JSON Type = "json"
)

// Column of an observed table.
type Column struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
	// References names the "table.column" that a foreign key points to.
	References string `json:"references,omitempty"`
}

// Table is one observed table (or file, or key space) after a run.
type Table struct {
	Name    string   `json:"name"`
	Columns []Column `json:"columns"`
	// Key are the indexes of the primary key's columns; empty without one.
	Key []int `json:"key,omitempty"`
	// Rows hold each cell as text; nil is NULL. The order means nothing.
	Rows [][]*string `json:"rows"`
}

// Response is what one request was answered.
type Response struct {
	// Status is the HTTP status; 0 when no answer came, and then Err says why.
	Status int `json:"status"`
	// Header has the compared headers only (Location, ETag).
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body"`
	// ContentType decides how the body is compared.
	ContentType string `json:"content_type,omitempty"`
	Err         string `json:"err,omitempty"`
	// Broken: the application broke off without an answer, of its own. It counts
	// as a server error, unlike an answer that was dropped on purpose.
	Broken bool `json:"broken,omitempty"`
	// Codes are the error codes (SQLSTATE) that the gates saw answered to
	// this actor's steps, in order.
	Codes []string `json:"codes,omitempty"`
}

// Outcome is all that can be seen after a run.
type Outcome struct {
	Tables []Table `json:"tables"`
	// Responses by actor; nil for an actor that was left out of a serial run.
	Responses []*Response `json:"responses"`
	// Violated are the names of user invariants that did not hold.
	Violated []string `json:"violated,omitempty"`
	// Stuck: the run made no more progress although not every actor was done.
	Stuck bool `json:"stuck,omitempty"`
}

// Kind of a finding.
type Kind string

// The kinds of findings, in the order in which they are tested.
const (
	Deadlock        Kind = "deadlock"
	LostUpdate      Kind = "lost update"
	DuplicateEffect Kind = "duplicate effect"
	PartialEffect   Kind = "partial effect"
	ServerError     Kind = "server error only under concurrency"
	WriteSkew       Kind = "write skew or other non-serializable outcome"
	Invariant       Kind = "invariant violated"
)
