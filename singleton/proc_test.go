//go:build unix

package singleton

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/store"
)

// workerEnv makes the test binary an instance in a process of its own: the URL
// of the store, when the clock began, and how its jobs are.
const workerEnv = "HOLDFAST_SINGLETON_WORKER"

func TestMain(m *testing.M) {
	if do, ok := os.LookupEnv(workerEnv); ok {
		if err := work(context.Background(), strings.Fields(do)); err != nil {
			fmt.Fprintln(os.Stderr, "singleton worker:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(pgtest.Main(func(s *pgtest.Server) int {
		server = s
		return m.Run()
	}))
}

// rate is how much faster the clock of the workers goes: a minute is 60 ms.
const rate = 1000

// fast is a clock that goes faster, and at the same pace in every process.
type fast struct{ start time.Time }

func (f fast) Now() time.Time { return f.start.Add(time.Since(f.start) * rate) }

func (f fast) After(d time.Duration) (<-chan time.Time, func()) {
	return lease.SystemClock{}.After(d / rate)
}

// work is an instance: its job says that it starts, does something, and says
// that it is through. What is said is in the pipe before a kill can come.
func work(ctx context.Context, do []string) error {
	nanos, err := strconv.ParseInt(do[1], 10, 64)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, do[0])
	if err != nil {
		return err
	}
	defer s.Close()
	r, err := New(s, Options{
		// 200 ms for a sign of life, while the machine is busy.
		TTL: 200 * time.Second, Poll: 10 * time.Second, Clock: fast{start: time.Unix(0, nanos)},
	}, Job{Name: "job", Schedule: "* * * * *", Run: func(ctx context.Context, r Run) error {
		fmt.Printf("start %d %d\n", r.Tick.Unix(), r.Attempt)
		for range rand.N(5) {
			if _, err := s.Get(ctx, "something"); err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
		cancel()
	}()
	_ = r.Run(ctx)
	return nil
}

type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{}
}

// spawn starts an instance, whose words go to said.
func spawn(t *testing.T, do string, said chan<- string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	p := &process{cmd: exec.CommandContext(ctx, exe), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+do)
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said <- lines.Text()
		}
	}()
	return p
}

// end ends the process, gently or not, and waits for its last words.
func (p *process) end(kill bool) {
	if kill {
		_ = p.cmd.Process.Kill()
	}
	_ = p.in.Close()
	<-p.done
	_ = p.cmd.Wait()
}

// Four processes, which are killed and (on PostgreSQL) stopped at any moment,
// run a job every minute of a fast clock: no tick is started twice, and the
// ticks go on.
func TestProcesses(t *testing.T) {
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			url := "sqlite://" + filepath.Join(t.TempDir(), "state.db")
			if kind == "postgres" {
				url = pgtest.Need(t, server).URL("postgres") + "&holdfast_table=singleton_processes"
			}
			do := fmt.Sprintf("%s %d", url, time.Now().UnixNano())
			said := make(chan string, 100_000)
			starts := map[string]int{}
			all := make([]*process, 4)
			for i := range all {
				all[i] = spawn(t, do, said)
			}
			var stopped *process
			deadline := time.After(2 * patience)
			const ticks = 24
			for n := 1; len(starts) < ticks; n++ {
				select {
				case line := <-said:
					starts[line]++
				case <-deadline:
					t.Fatalf("%d ticks in %s", len(starts), 2*patience)
				}
				// The word has just come: often it is the runner that is hit.
				i := rand.N(len(all))
				switch {
				case n%5 == 0:
					all[i].end(true)
					all[i] = spawn(t, do, said)
				case n%5 == 2 && kind != "sqlite": // there, one that is stopped in a transaction stops all
					if stopped != nil {
						_ = stopped.cmd.Process.Signal(unix.SIGCONT)
					}
					stopped = all[i]
					_ = stopped.cmd.Process.Signal(unix.SIGSTOP)
				}
			}
			for _, p := range all {
				_ = p.cmd.Process.Signal(unix.SIGCONT)
				_ = p.in.Close()
			}
			for _, p := range all {
				p.end(false)
			}
			close(said)
			for line := range said {
				starts[line]++
			}
			for tick, n := range starts {
				if n != 1 || !strings.HasSuffix(tick, " 1") {
					t.Errorf("%q: %d times", tick, n)
				}
			}
			t.Logf("%d ticks were run", len(starts))
		})
	}
}
