//go:build unix

package machine_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/internal/worktest"
	"github.com/holdfast-dev/holdfast/machine"
	"github.com/holdfast-dev/holdfast/store"
)

var server *pgtest.Server

func TestMain(m *testing.M) {
	os.Exit(worktest.Main(map[string]worktest.Job{"compete": compete}, func() int {
		return pgtest.Main(func(s *pgtest.Server) int {
			server = s
			return m.Run()
		})
	}))
}

var (
	kinds  = []string{"mem", "file", "sqlite", "postgres"}
	shared = kinds[1:]
	tables atomic.Int64
)

// address is that of an empty store of a kind.
func address(t *testing.T, kind string) string {
	t.Helper()
	switch kind {
	case "mem":
		return "mem:"
	case "postgres":
		return fmt.Sprintf("%s&holdfast_table=machine%d", pgtest.Need(t, server).URL("postgres"), tables.Add(1))
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

func objects(t *testing.T, s *store.Store, opts machine.ObjectOptions) *machine.Objects {
	t.Helper()
	opts.Prefix = "orders"
	o, err := machine.NewObjects(s, order(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func patience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// compete is a worker that tries to pay order after order, and says which it won.
func compete(ctx context.Context, args []string, in *bufio.Scanner, say func(string, ...any)) error {
	s, err := store.Open(ctx, args[0])
	if err != nil {
		return err
	}
	defer s.Close()
	m, err := machine.New(orders())
	if err != nil {
		return err
	}
	o, err := machine.NewObjects(s, m, machine.ObjectOptions{Prefix: "orders"})
	if err != nil {
		return err
	}
	say("ready")
	in.Scan()
	for i := range competed {
		id := fmt.Sprint(i)
		_, err := o.Transition(ctx, id, "new", "paid", machine.Step{By: args[1]})
		var lost *machine.LostError
		switch {
		case err == nil:
			say("won %s", id)
		case !errors.As(err, &lost) || !lost.Already():
			return err
		}
	}
	return nil
}

// competed is how many orders the workers compete for.
const competed = 60
