// Package kafka is a stub for type-checking test data.
package kafka

import "context"

type Message struct{ Key, Value []byte }

type Reader struct{}

func (*Reader) FetchMessage(ctx context.Context) (Message, error)      { return Message{}, nil }
func (*Reader) CommitMessages(ctx context.Context, m ...Message) error { return nil }
