package storetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/store"
)

// workerEnv holds the URL of a worker's store; its presence makes a test
// binary a worker.
const workerEnv = "HOLDFAST_STORETEST_WORKER"

// Opener opens the store that a URL names.
type Opener func(ctx context.Context, url string) (*store.Store, error)

// IsWorker says whether this process is one that RunProcesses started, for a
// TestMain that prepares something expensive before Main.
func IsWorker() bool {
	_, ok := os.LookupEnv(workerEnv)
	return ok
}

// Main is for TestMain. It runs the tests, or, in the processes that
// RunProcesses starts from the same binary, the work that they were given.
func Main(m *testing.M, open Opener) {
	if url, ok := os.LookupEnv(workerEnv); ok {
		if err := work(context.Background(), url, open, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "storetest worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// command is what a worker is told, one JSON object a line.
type command struct {
	Do      string // "put", "delete", "count", "history", "load"
	Key     string
	Version string
	// N is the goroutines of put and delete, the increments of count, the
	// operations of history.
	N      int
	Worker int
	Keys   []string
}

// reply is what a worker says, one JSON object a line.
type reply struct {
	Done      bool    `json:",omitempty"`
	Wins      int     `json:",omitempty"`
	Conflicts int     `json:",omitempty"`
	Err       string  `json:",omitempty"`
	Record    *Record `json:",omitempty"`
	// Load: an attempt is announced before and acknowledged after.
	Try, Ack string `json:",omitempty"`
	Seq      int    `json:",omitempty"`
}

// speaker writes each reply with one system call, so that what was said
// before a kill is in the pipe.
type speaker struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *speaker) say(r reply) {
	b, err := json.Marshal(r)
	if err != nil {
		b = fmt.Appendf(nil, `{"Err":%q}`, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// A parent that has gone needs no answer.
	_, _ = s.w.Write(append(b, '\n'))
}

func work(ctx context.Context, url string, open Opener, in io.Reader, out io.Writer) error {
	s, err := open(ctx, url)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	say := &speaker{w: out}
	say.say(reply{Done: true})
	commands := bufio.NewScanner(in)
	var running sync.WaitGroup
	defer running.Wait()
	for commands.Scan() {
		var c command
		if err := json.Unmarshal(commands.Bytes(), &c); err != nil {
			return err
		}
		if c.Do == "load" {
			running.Go(func() { load(ctx, s, c, say) })
			continue
		}
		say.say(obey(ctx, s, c, say))
	}
	cancel()
	return commands.Err()
}

func obey(ctx context.Context, s *store.Store, c command, say *speaker) reply {
	switch c.Do {
	case "put", "delete":
		return contend(ctx, s, c)
	case "count":
		errs := together(1, func(int) error {
			for range c.N {
				if err := increment(ctx, s, c.Key); err != nil {
					return err
				}
			}
			return nil
		})
		return reply{Done: true, Err: text(errs[0])}
	case "history":
		cl := &client{number: c.Worker, s: s, rng: rand.New(rand.NewPCG(uint64(c.Worker), rand.Uint64())), keys: c.Keys,
			now: monotonic, known: map[string]store.Version{}, record: func(r Record) { say.say(reply{Record: &r}) }}
		cl.run(ctx, c.N)
		return reply{Done: true}
	}
	return reply{Done: true, Err: "unknown command " + c.Do}
}

func contend(ctx context.Context, s *store.Store, c command) reply {
	cond := store.CreateOnly()
	if c.Version != "" {
		cond = store.IfVersion(store.Version(c.Version))
	}
	r := reply{Done: true}
	for i, err := range together(c.N, func(i int) error {
		if c.Do == "delete" {
			return s.Delete(ctx, c.Key, cond)
		}
		_, err := s.Put(ctx, c.Key, fmt.Appendf(nil, "%d of %d", i, os.Getpid()), cond)
		return err
	}) {
		switch {
		case err == nil:
			r.Wins++
		case errors.Is(err, store.ErrConflict):
			r.Conflicts++
		default:
			r.Err = fmt.Sprintf("contender %d: %v", i, err)
		}
	}
	return r
}

// monotonic is one clock for all processes of the machine.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(fmt.Sprintf("clock_gettime: %v", err))
	}
	return ts.Nano()
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// The three kinds of load, each a goroutine of its own, until the worker is
// killed or told to stop.
//
//	own/<worker>/<n>  a new key for each n, never changed again
//	chain/<worker>    one key, replaced by if-version with a long value
//	shared            one counter for all workers
func load(ctx context.Context, s *store.Store, c command, say *speaker) {
	var wg sync.WaitGroup
	loop := func(kind string, step func(n int) error) {
		wg.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				say.say(reply{Try: kind, Seq: n})
				err := step(n)
				switch {
				case err == nil:
					say.say(reply{Ack: kind, Seq: n})
				case ctx.Err() != nil:
					return
				default:
					say.say(reply{Err: fmt.Sprintf("%s %d: %v", kind, n, err)})
					return
				}
			}
		})
	}
	loop("own", func(n int) error {
		_, err := s.Put(ctx, ownKey(c.Key, c.Worker, n), []byte(strconv.Itoa(n)), store.CreateOnly())
		return err
	})
	var v store.Version
	loop("chain", func(n int) error {
		cond := store.CreateOnly()
		if n > 1 {
			cond = store.IfVersion(v)
		}
		var err error
		v, err = s.Put(ctx, chainKey(c.Key, c.Worker), tearable(uint64(n)), cond)
		return err
	})
	loop("shared", func(int) error { return increment(ctx, s, c.Key+"shared") })
	wg.Wait()
}

func ownKey(prefix string, worker, n int) string {
	return fmt.Sprintf("%sown/%d/%d", prefix, worker, n)
}
func chainKey(prefix string, worker int) string { return fmt.Sprintf("%schain/%d", prefix, worker) }

// worker is a process as the test sees it.
type worker struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	replies []reply
	// read ends when the worker's output does.
	read sync.WaitGroup
}

func startWorker(ctx context.Context, url string) (*worker, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.CommandContext(ctx, exe)}
	// The race detector would sleep for a second at each worker's end.
	w.cmd.Env = append(os.Environ(), workerEnv+"="+url, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	w.cmd.Stderr = os.Stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewReaderSize(out, 64<<10)
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := w.next(); err != nil {
		return nil, fmt.Errorf("worker did not start: %w", err)
	}
	return w, nil
}

func (w *worker) tell(c command) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = w.in.Write(append(b, '\n'))
	return err
}

func (w *worker) next() (reply, error) {
	line, err := w.out.ReadBytes('\n')
	if err != nil {
		return reply{}, err
	}
	var r reply
	return r, json.Unmarshal(line, &r)
}

// ask tells and returns the answer, keeping what comes before it.
func (w *worker) ask(c command) (reply, error) {
	if err := w.tell(c); err != nil {
		return reply{}, err
	}
	for {
		r, err := w.next()
		if err != nil || r.Done {
			if err == nil && r.Err != "" {
				err = errors.New(r.Err)
			}
			return r, err
		}
		w.replies = append(w.replies, r)
	}
}

// listen keeps all that the worker says until it ends.
func (w *worker) listen() {
	w.read.Go(func() {
		for {
			r, err := w.next()
			if err != nil {
				return
			}
			w.replies = append(w.replies, r)
		}
	})
}

// end closes the worker's input and waits for it.
func (w *worker) end() error {
	_ = w.in.Close()
	w.read.Wait()
	return w.cmd.Wait()
}

// kill is kill -9; what the worker said before is kept.
func (w *worker) kill() {
	_ = w.cmd.Process.Signal(unix.SIGKILL)
	w.read.Wait()
	_ = w.cmd.Wait()
}
