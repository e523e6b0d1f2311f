package sql

// Verb is what a statement does.
type Verb string

// Verbs. Other is a statement that was read but changes no rows (SET, ANALYZE).
const (
	Select   Verb = "select"
	Insert   Verb = "insert"
	Update   Verb = "update"
	Delete   Verb = "delete"
	Begin    Verb = "begin"
	Commit   Verb = "commit"
	Rollback Verb = "rollback"
	LockTbl  Verb = "lock" // LOCK TABLE
	DDL      Verb = "ddl"
	Other    Verb = "other"
)

// Stmt is one statement.
type Stmt struct {
	Verb    Verb
	Text    string
	Table   string   // lower case, without schema; "?" if a hole; empty if there is none
	Alias   string   // of Table
	Joined  []Ref    // further tables that are read
	On      []*Expr  // conditions of joins
	Columns []Column // SELECT list, or RETURNING
	Where   *Expr
	Group   bool
	Limit   bool
	Order   bool
	Lock    string // "update", "share", "skip", "nowait"

	InsertCols []string
	Values     [][]*Expr // of INSERT ... VALUES, one per row
	Source     *Stmt     // of INSERT ... SELECT
	Set        []Assign
	OnConflict *Conflict

	CTEs []CTE
	Iso  string // of BEGIN ... ISOLATION LEVEL
	// Incomplete says that a hole may add conditions or clauses.
	Incomplete bool
}

// Ref is a table with its alias.
type Ref struct{ Name, Alias string }

// CTE is a WITH query.
type CTE struct {
	Name string
	Stmt *Stmt
}

// Conflict is ON CONFLICT or ON DUPLICATE KEY UPDATE, INSERT IGNORE, REPLACE.
type Conflict struct {
	Cols    []string
	Nothing bool
	Replace bool
	Set     []Assign
	Where   *Expr
}

// Assign is `column = expression`.
type Assign struct {
	Col string
	Val *Expr
}

// Column is one result of a SELECT list.
type Column struct {
	Name string // alias, or column name, or function name; "*" for all
	Expr *Expr
}

// ExprKind is the kind of an expression.
type ExprKind uint8

// Kinds of expressions.
const (
	Unknown  ExprKind = iota
	Const             // Name is the literal as Go writes it
	Param             // Name as written: $1, ?1 (numbered by order), :name, @name
	Col               // Name, lower case; Table its qualifier
	Call              // Name lower case, Args
	Op                // Name: and or not = <> < <= > >= + - * / % || is "is not" in "not in" like between ...
	Sub               // Stmt
	List              // Args
	HoleExpr          // known at run time only
	Star
)

// Expr is an expression.
type Expr struct {
	Kind  ExprKind
	Name  string
	Table string
	Args  []*Expr
	Stmt  *Stmt
}

// Conjuncts splits an expression at its ANDs.
func (e *Expr) Conjuncts() []*Expr {
	if e == nil {
		return nil
	}
	if e.Kind == Op && e.Name == "and" {
		var out []*Expr
		for _, a := range e.Args {
			out = append(out, a.Conjuncts()...)
		}
		return out
	}
	return []*Expr{e}
}

// Walk visits the expression and what is in it, statements of sub-queries
// excluded.
func (e *Expr) Walk(visit func(*Expr)) {
	if e == nil {
		return
	}
	visit(e)
	for _, a := range e.Args {
		a.Walk(visit)
	}
}

// Subqueries are the statements nested in the expression.
func (e *Expr) Subqueries() []*Stmt {
	var out []*Stmt
	e.Walk(func(x *Expr) {
		if x.Kind == Sub && x.Stmt != nil {
			out = append(out, x.Stmt)
		}
	})
	return out
}
