package outbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// workerEnv holds a relay's task; its presence makes the test binary one.
const workerEnv = "HOLDFAST_OUTBOX_WORKER"

// task is what a relay process is told.
type task struct {
	Kind, Address string
	// Log is the file that it publishes to, a line for each message.
	Log   string
	Lease time.Duration
	// Once publishes one round: it says "inside" before the first message and
	// waits for a line, and says "end" with the statistics afterwards.
	// Otherwise it runs until it is killed.
	Once bool
}

// work publishes by appending a line to the file: one system call, which a kill
// does not divide.
func work(ctx context.Context, text string, in io.Reader, out io.Writer) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	r, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	log, err := os.OpenFile(t.Log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	waits := t.Once
	relay, err := r.relay(func(ctx context.Context, d Delivery) error {
		if waits {
			waits = false
			if _, err := fmt.Fprintln(out, "inside"); err != nil {
				return err
			}
			if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintf(log, "%s %s %d\n", d.Key, d.Payload, os.Getpid())
		return err
	}, RelayOptions{Lease: t.Lease, Poll: 5 * time.Millisecond, Keys: 4, Run: 8, Parallel: 2, Backoff: time.Millisecond, MaxTries: 100,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if !t.Once {
		return relay.Run(ctx)
	}
	stats, err := relay.Once(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "end %+v\n", stats)
	return err
}

func (t task) open(ctx context.Context) (*rig, error) {
	if t.Kind == "sqlite" {
		return openSQLite(t.Address)
	}
	return openPostgres(ctx, t.Address)
}

func start(task task) (*exec.Cmd, io.Writer, *bufio.Reader, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	env, err := json.Marshal(task)
	if err != nil {
		return nil, nil, nil, err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(env), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	return cmd, in, bufio.NewReader(out), cmd.Start()
}

// published is the file that relays publish to.
type published struct {
	mu   sync.Mutex
	path string
	// first is the order of first publications, by key.
	first map[string][]string
	seen  map[string]bool
	lines int
}

// read takes in what has been published since the last look.
func (p *published) read() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	lines := strings.Split(string(b), "\n")
	lines = lines[:len(lines)-1]
	for _, line := range lines[p.lines:] {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return fmt.Errorf("line %q", line)
		}
		if key, payload := fields[0], fields[1]; !p.seen[key+" "+payload] {
			p.seen[key+" "+payload] = true
			p.first[key] = append(p.first[key], payload)
		}
	}
	p.lines = len(lines)
	return nil
}

func newPublished(t *testing.T) *published {
	t.Helper()
	p := &published{path: filepath.Join(t.TempDir(), "published"), first: map[string][]string{}, seen: map[string]bool{}}
	if err := os.WriteFile(p.path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestKilledRelays kills relays with kill -9 all the time, while messages are
// added. Everything is published at least once, and each key in order.
func TestKilledRelays(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		const keys, each, relays = 8, 80, 3
		p := newPublished(t)
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		var kills, done int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range relays {
			wg.Go(func() {
				for ctx.Err() == nil {
					killed, err := killAfter(ctx, task{Kind: r.kind, Address: r.address, Log: p.path, Lease: 300 * time.Millisecond}, p, 20+rand.IntN(60))
					if err != nil {
						t.Error(err)
						stop()
					}
					mu.Lock()
					if killed {
						kills++
					}
					mu.Unlock()
				}
			})
		}
		for k := range keys {
			wg.Go(func() {
				for i := range each {
					r.add(t, text(fmt.Sprint("key", k), fmt.Sprint(i)))
				}
				mu.Lock()
				done++
				mu.Unlock()
			})
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				all := done == keys
				mu.Unlock()
				if all && r.backlog(t).Waiting == 0 {
					stop()
					return
				}
				pause(ctx, 10*time.Millisecond)
			}
		})
		wg.Wait()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Fatalf("not published in time: %+v", r.backlog(t))
		}
		if err := p.read(); err != nil {
			t.Fatal(err)
		}
		if b := r.backlog(t); b != (Backlog{}) {
			t.Errorf("backlog %+v", b)
		}
		for k := range keys {
			got := p.first[fmt.Sprint("key", k)]
			if len(got) != each {
				t.Errorf("key %d: %d of %d published", k, len(got), each)
			}
			for i, payload := range got {
				if payload != fmt.Sprint(i) {
					t.Errorf("key %d: message %s came as number %d", k, payload, i)
					break
				}
			}
		}
		t.Logf("%d messages, %d publications, %d relays killed", keys*each, p.lines, kills)
		if kills < 8 {
			t.Errorf("only %d relays were killed", kills)
		}
	})
}

// pause is for looking at what other processes do, which can not be waited for.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// killAfter runs a relay until so many further messages have been published, by
// whomever, and kills it.
func killAfter(ctx context.Context, job task, p *published, messages int) (killed bool, err error) {
	cmd, _, _, err := start(job)
	if err != nil {
		return false, err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	count := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.lines
	}
	begin := count()
	for ctx.Err() == nil {
		if err := p.read(); err != nil {
			return false, err
		}
		if count() >= begin+messages {
			return true, nil
		}
		pause(ctx, time.Millisecond)
	}
	return false, nil
}

// TestPausedRelay stops a relay (SIGSTOP) inside publish for longer than its
// lease. Its successor publishes everything; the paused one comes back, and can
// acknowledge nothing.
func TestPausedRelay(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		p := newPublished(t)
		r.add(t, text("a", "0"), text("a", "1"), text("a", "2"))
		job := task{Kind: r.kind, Address: r.address, Log: p.path, Lease: time.Hour, Once: true}
		cmd, in, out, err := start(job)
		if err != nil {
			t.Fatal(err)
		}
		ended := false
		defer func() {
			if !ended {
				_ = cmd.Process.Signal(syscall.SIGKILL)
				_ = cmd.Wait()
			}
		}()
		if line, err := out.ReadString('\n'); err != nil || !strings.HasPrefix(line, "inside") {
			t.Fatalf("got %q, %v", line, err)
		}
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		r.leasesEnd(t)
		var again []string
		successor := r.newRelay(t, RelayOptions{Parallel: 1}, func(_ context.Context, d Delivery) error {
			if string(d.Payload) == "0" {
				// The paused one goes on to its end while this one holds the key.
				if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
					return err
				}
				if _, err := fmt.Fprintln(in); err != nil {
					return err
				}
				rest, err := io.ReadAll(out)
				if err != nil {
					return err
				}
				ended = true
				if err := cmd.Wait(); err != nil {
					return err
				}
				if !strings.Contains(string(rest), "Published:0") || !strings.Contains(string(rest), "Lost:3") {
					t.Errorf("the paused relay says %s", rest)
				}
			}
			again = append(again, string(d.Payload))
			return nil
		})
		s := once(t, successor)
		if s != (Stats{Claimed: 3, Published: 3}) || strings.Join(again, " ") != "0 1 2" {
			t.Errorf("successor: %+v, published %v", s, again)
		}
		if err := p.read(); err != nil || strings.Join(p.first["a"], " ") != "0 1 2" {
			t.Errorf("published %v, %v", p.first, err)
		}
	})
}
