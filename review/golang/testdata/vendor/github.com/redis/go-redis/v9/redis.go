// Package redis is a stub for type-checking test data.
package redis

import (
	"context"
	"errors"
	"time"
)

var (
	Nil         = errors.New("redis: nil")
	TxFailedErr = errors.New("redis: transaction failed")
)

type StringCmd struct{}

func (*StringCmd) Result() (string, error) { return "", nil }
func (*StringCmd) Int() (int, error)       { return 0, nil }
func (*StringCmd) Err() error              { return nil }

type IntCmd struct{}

func (*IntCmd) Result() (int64, error) { return 0, nil }
func (*IntCmd) Err() error             { return nil }

type BoolCmd struct{}

func (*BoolCmd) Result() (bool, error) { return false, nil }
func (*BoolCmd) Val() bool             { return false }

type StatusCmd struct{}

func (*StatusCmd) Err() error { return nil }

type Cmd struct{}

func (*Cmd) Err() error { return nil }

type Cmder interface{ Err() error }

type cmdable struct{}

func (cmdable) Get(ctx context.Context, key string) *StringCmd { return nil }
func (cmdable) Set(ctx context.Context, key string, v any, ttl time.Duration) *StatusCmd {
	return nil
}
func (cmdable) SetNX(ctx context.Context, key string, v any, ttl time.Duration) *BoolCmd { return nil }
func (cmdable) Incr(ctx context.Context, key string) *IntCmd                             { return nil }
func (cmdable) Del(ctx context.Context, keys ...string) *IntCmd                          { return nil }
func (cmdable) Eval(ctx context.Context, script string, keys []string, args ...any) *Cmd { return nil }

type Pipeliner interface {
	Set(ctx context.Context, key string, v any, ttl time.Duration) *StatusCmd
}

type Client struct{ cmdable }

func (*Client) Watch(ctx context.Context, fn func(*Tx) error, keys ...string) error { return nil }

type Tx struct{ cmdable }

func (*Tx) TxPipelined(ctx context.Context, fn func(Pipeliner) error) ([]Cmder, error) {
	return nil, nil
}
