// Package client is a stub for type-checking test data.
package client

import "context"

type Object interface{ GetName() string }

type ObjectKey struct{ Namespace, Name string }

type Patch interface{ Type() string }

type MergeFromOption interface{ apply() }

type MergeFromWithOptimisticLock struct{}

func (MergeFromWithOptimisticLock) apply() {}

func MergeFrom(obj Object) Patch                                     { return nil }
func MergeFromWithOptions(obj Object, opts ...MergeFromOption) Patch { return nil }

type Reader interface {
	Get(ctx context.Context, key ObjectKey, obj Object) error
}

type Writer interface {
	Update(ctx context.Context, obj Object) error
	Patch(ctx context.Context, obj Object, p Patch) error
}

type Client interface {
	Reader
	Writer
}
