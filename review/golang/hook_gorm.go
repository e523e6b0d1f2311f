package golang

// build is a query under construction.
type build struct{}
