//go:build unix

package counter_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/counter"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/internal/worktest"
	"github.com/holdfast-dev/holdfast/store"
)

var server *pgtest.Server

func TestMain(m *testing.M) {
	os.Exit(worktest.Main(map[string]worktest.Job{"take": take, "hold": hold}, func() int {
		return pgtest.Main(func(s *pgtest.Server) int {
			server = s
			return m.Run()
		})
	}))
}

var tables atomic.Int64

// address is that of an empty store of a kind.
func address(t *testing.T, kind string) string {
	t.Helper()
	switch kind {
	case "mem":
		return "mem:"
	case "postgres":
		return fmt.Sprintf("%s&holdfast_table=counter%d", pgtest.Need(t, server).URL("postgres"), tables.Add(1))
	}
	return kind + "://" + filepath.Join(t.TempDir(), "store")
}

func open(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// kinds are the stores, and shared those that processes can share.
var (
	kinds  = []string{"mem", "file", "sqlite", "postgres"}
	shared = kinds[1:]
)

func patience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// together runs f in n goroutines and waits for them.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// take is a worker that takes one unit after the other, in four goroutines, until
// it is refused. It says "took" after each.
func take(ctx context.Context, args []string, in *bufio.Scanner, say func(string, ...any)) error {
	s, err := store.Open(ctx, args[0])
	if err != nil {
		return err
	}
	defer s.Close()
	add, err := adder(s, args[1])
	if err != nil {
		return err
	}
	say("ready")
	in.Scan()
	errs := make([]error, 4)
	together(len(errs), func(i int) {
		for {
			r, err := add(ctx, "stock", -1)
			if err != nil || !r.Applied {
				errs[i] = err
				return
			}
			say("took")
		}
	})
	return errors.Join(errs...)
}

// adder is a way of adding, by name.
func adder(s *store.Store, way string) (func(ctx context.Context, id string, delta int64) (counter.Result, error), error) {
	bounds := counter.AtLeast(0)
	if way == "sharded" {
		c, err := counter.NewSharded(s, counter.ShardedOptions{Prefix: "n", Bounds: bounds, Shards: 4})
		if err != nil {
			return nil, err
		}
		return c.Add, nil
	}
	method := counter.Native
	if way == "cas" {
		method = counter.CompareAndSet
	}
	c, err := counter.New(s, counter.Options{Prefix: "n", Bounds: bounds, Method: method})
	if err != nil {
		return nil, err
	}
	return c.Add, nil
}

// hold is a worker that obeys orders on a quota: "reserve AMOUNT", "confirm ID".
func hold(ctx context.Context, args []string, in *bufio.Scanner, say func(string, ...any)) error {
	s, err := store.Open(ctx, args[0])
	if err != nil {
		return err
	}
	defer s.Close()
	q, err := counter.NewQuota(s, counter.QuotaOptions{Prefix: "q", Limit: 10, TTL: time.Hour})
	if err != nil {
		return err
	}
	say("ready")
	for in.Scan() {
		order, arg, _ := strings.Cut(in.Text(), " ")
		switch order {
		case "reserve":
			n, err := strconv.ParseInt(arg, 10, 64)
			if err != nil {
				return err
			}
			r, err := q.Reserve(ctx, "seats", counter.Request{Amount: n})
			if err != nil || !r.Granted {
				return fmt.Errorf("reserve: %v, %w", r, err)
			}
			say("reserved %s", r.ID)
		case "confirm":
			out, err := q.Confirm(ctx, "seats", arg)
			if err != nil {
				return err
			}
			say("confirm %s", out)
		}
	}
	return in.Err()
}
