// Package retry is a stub for type-checking test data.
package retry

type Backoff struct{ Steps int }

var DefaultRetry Backoff

func RetryOnConflict(b Backoff, fn func() error) error { return nil }
