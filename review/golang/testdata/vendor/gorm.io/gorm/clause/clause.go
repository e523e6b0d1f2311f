// Package clause is a stub for type-checking test data.
package clause

type Expression interface{ Build() }

type Locking struct{ Strength, Options string }

func (Locking) Build() {}

type Column struct{ Name string }

type OnConflict struct {
	Columns   []Column
	DoNothing bool
	UpdateAll bool
}

func (OnConflict) Build() {}

type Expr struct{ SQL string }

func (Expr) Build() {}
