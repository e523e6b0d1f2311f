// Command running-now shows a list of running jobs, live, while several
// processes register jobs and one reader prunes the finished ones, all on one
// directory. At the end it says whether any job was ever missing from the list.
//
//	go run ./examples/running-now
//
// Each job is a marker of its own (package marker), so a registration is one
// write that reads nothing and cannot overwrite another. One producer is made
// to die in the middle of a job; its marker goes by its age.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/marker"
	"github.com/holdfast-dev/holdfast/store"
)

// producerEnv makes this program a producer on the store that it names.
const producerEnv = "HOLDFAST_RUNNING_NOW_PRODUCER"

func main() {
	ctx := context.Background()
	if arg, ok := os.LookupEnv(producerEnv); ok {
		if err := produce(ctx, arg, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "producer:", err)
			os.Exit(1)
		}
		return
	}
	var c config
	flag.StringVar(&c.dir, "dir", "", "directory of the store (default: a temporary one)")
	flag.IntVar(&c.producers, "producers", 4, "processes that run jobs")
	flag.IntVar(&c.jobs, "jobs", 8, "jobs of each process")
	flag.DurationVar(&c.work, "work", 400*time.Millisecond, "how long a job runs, on average")
	flag.DurationVar(&c.maxAge, "max-age", 3*time.Second, "age at which a marker is dead without asking")
	flag.Parse()
	lost, err := run(ctx, c, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "running-now:", err)
		os.Exit(2)
	}
	if lost > 0 {
		os.Exit(1)
	}
}

type config struct {
	dir             string
	producers, jobs int
	work, maxAge    time.Duration
}

func open(ctx context.Context, dir string, maxAge time.Duration) (*store.Store, *marker.Index, error) {
	s, err := store.Open(ctx, "file:"+dir)
	if err != nil {
		return nil, nil, err
	}
	ix, err := marker.New(s, marker.Options{Prefix: "running", Time: marker.UUIDv7, MaxAge: maxAge})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, ix, nil
}

// produce runs jobs one after the other. arg is "number jobs work dir".
func produce(ctx context.Context, arg string, out io.Writer) error {
	var number, jobs int
	var work time.Duration
	var workText, dir string
	if _, err := fmt.Sscanf(arg, "%d %d %s %q", &number, &jobs, &workText, &dir); err != nil {
		return err
	}
	work, err := time.ParseDuration(workText)
	if err != nil {
		return err
	}
	s, running, err := open(ctx, dir, 0)
	if err != nil {
		return err
	}
	defer s.Close()
	for n := range jobs {
		id := marker.NewID(time.Now())
		name := fmt.Sprintf("job %d of process %d", n+1, number)
		// First the job's own state, then its marker: a reader that sees the
		// marker can resolve it.
		if _, err := s.Put(ctx, "job/"+id, []byte("running"), store.CreateOnly()); err != nil {
			return err
		}
		if err := running.Register(ctx, id, []byte(name)); err != nil {
			return err
		}
		fmt.Fprintln(out, "registered", id)
		time.Sleep(work/2 + rand.N(work))
		if number == 0 && n == jobs/2 {
			fmt.Fprintln(out, "dying", id)
			os.Exit(0)
		}
		fmt.Fprintln(out, "ending", id)
		if _, err := s.Put(ctx, "job/"+id, []byte("done"), store.None()); err != nil {
			return err
		}
	}
	return nil
}

// ledger is what the producers have said, beside the store: the truth that the
// list is compared with.
type ledger struct {
	mu                         sync.Mutex
	running                    map[string]bool
	registered, finished, died int
}

func (l *ledger) note(line string) {
	what, id, _ := strings.Cut(line, " ")
	l.mu.Lock()
	defer l.mu.Unlock()
	switch what {
	case "registered":
		l.registered++
		l.running[id] = true
	case "ending":
		l.finished++
		delete(l.running, id)
	case "dying":
		l.died++
		delete(l.running, id)
	}
}

func (l *ledger) snapshot() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]bool, len(l.running))
	for id := range l.running {
		out[id] = true
	}
	return out
}

// run starts the producers and reads until they have ended and everything is
// pruned. It returns how often a running job was missing from the list.
func run(ctx context.Context, c config, out io.Writer) (lost int, err error) {
	if c.dir == "" {
		dir, err := os.MkdirTemp("", "running-now-")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(dir)
		c.dir = filepath.Join(dir, "store")
	}
	s, running, err := open(ctx, c.dir, c.maxAge)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	l := &ledger{running: map[string]bool{}}
	ended, err := startProducers(ctx, c, l)
	if err != nil {
		return 0, err
	}
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	pruned, over := 0, false
	for {
		missing, n, left, err := look(ctx, s, running, l, out)
		if err != nil {
			return 0, err
		}
		lost += missing
		pruned += n
		if over && left == 0 {
			break
		}
		select {
		case err := <-ended:
			if err != nil {
				return 0, err
			}
			over, ended = true, nil
		case <-tick.C:
		}
	}
	fmt.Fprintf(out, "%d jobs registered by %d processes: %d finished, %d died; %d markers pruned; %d lost\n",
		l.registered, c.producers, l.finished, l.died, pruned, lost)
	return lost, nil
}

func startProducers(ctx context.Context, c config, l *ledger) (<-chan error, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	var wg sync.WaitGroup
	errs := make([]error, c.producers)
	for n := range c.producers {
		cmd := exec.CommandContext(ctx, exe)
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %s %q", producerEnv, n, c.jobs, c.work, c.dir))
		cmd.Stderr = os.Stderr
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		wg.Go(func() {
			lines := bufio.NewScanner(pipe)
			for lines.Scan() {
				l.note(lines.Text())
			}
			errs[n] = errors.Join(lines.Err(), cmd.Wait())
		})
	}
	go func() {
		wg.Wait()
		ended <- errors.Join(errs...)
	}()
	return ended, nil
}

// look reads and shows the list and prunes it. A job is missing if it was
// registered before the look and is still running after it, and the look did
// not see it.
func look(ctx context.Context, s *store.Store, running *marker.Index, l *ledger, out io.Writer) (missing, pruned, left int, err error) {
	before := l.snapshot()
	list, err := running.List(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	seen := map[string]bool{}
	for _, m := range list {
		seen[m.ID] = true
	}
	for id := range l.snapshot() {
		if before[id] && !seen[id] {
			missing++
		}
	}
	view, err := marker.Active(ctx, running, func(ctx context.Context, m marker.Marker) (string, marker.Status, error) {
		job, err := s.Get(ctx, "job/"+m.ID)
		switch {
		case err != nil:
			return "", marker.Unknown, err
		case string(job.Value) == "done":
			return "", marker.Dead, nil
		}
		return string(m.Meta), marker.Live, nil
	})
	if err != nil {
		return 0, 0, 0, err
	}
	var names []string
	for _, item := range view.Items {
		names = append(names, item.Value)
	}
	fmt.Fprintf(out, "running now (%d): %s\n", len(names), strings.Join(names, ", "))
	return missing, view.Pruned, len(view.Items) + len(view.Doubts) + view.Hidden, view.PruneErr
}
