// Package storage is a stub for type-checking test data.
package storage

import "context"

type Conditions struct {
	GenerationMatch int64
	DoesNotExist    bool
}

type ObjectAttrs struct{ Generation int64 }

type Writer struct{}

func (*Writer) Write(p []byte) (int, error) { return 0, nil }
func (*Writer) Close() error                { return nil }

type Reader struct{ Attrs ObjectAttrs }

func (*Reader) Read(p []byte) (int, error) { return 0, nil }
func (*Reader) Close() error               { return nil }

type ObjectHandle struct{}

func (o *ObjectHandle) If(c Conditions) *ObjectHandle                   { return o }
func (o *ObjectHandle) NewWriter(ctx context.Context) *Writer           { return nil }
func (o *ObjectHandle) NewReader(ctx context.Context) (*Reader, error)  { return nil, nil }
func (o *ObjectHandle) Attrs(ctx context.Context) (*ObjectAttrs, error) { return nil, nil }

type BucketHandle struct{}

func (*BucketHandle) Object(name string) *ObjectHandle { return nil }

type Client struct{}

func (*Client) Bucket(name string) *BucketHandle { return nil }
