// Package s3 is a stub for type-checking test data.
package s3

import (
	"context"
	"io"
)

type GetObjectInput struct{ Bucket, Key *string }

type GetObjectOutput struct {
	Body io.ReadCloser
	ETag *string
}

type PutObjectInput struct {
	Bucket, Key          *string
	Body                 io.Reader
	IfMatch, IfNoneMatch *string
}

type PutObjectOutput struct{}

type Options struct{}

type Client struct{}

func (*Client) GetObject(ctx context.Context, in *GetObjectInput, o ...func(*Options)) (*GetObjectOutput, error) {
	return nil, nil
}

func (*Client) PutObject(ctx context.Context, in *PutObjectInput, o ...func(*Options)) (*PutObjectOutput, error) {
	return nil, nil
}
