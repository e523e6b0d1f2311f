//go:build unix

package lease_test

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
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/store"
)

// workerEnv makes the test binary a holder of leases, in a process of its own:
// its value is what to hold, and where.
const workerEnv = "HOLDFAST_LEASE_WORKER"

func TestMain(m *testing.M) {
	if do, ok := os.LookupEnv(workerEnv); ok {
		if err := work(context.Background(), strings.Fields(do)); err != nil {
			fmt.Fprintln(os.Stderr, "lease worker:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(pgtest.Main(func(s *pgtest.Server) int {
		server = s
		return m.Run()
	}))
}

// workerTTL is short, because the rounds wait for it; one that is told when to
// save has its lease stolen instead, and must not be stopped in a renewal: on
// the file store that holds up the thief.
const workerTTL = 60 * time.Millisecond

func work(ctx context.Context, do []string) error {
	orders := bufio.NewScanner(os.Stdin)
	switch do[0] {
	case "file":
		f, err := lease.LockFile(ctx, do[1])
		if err != nil {
			return err
		}
		fmt.Println("hold", f.Token())
		orders.Scan()
		f.Release()
		return nil
	case "advisory":
		pool, err := pgxpool.New(ctx, do[1])
		if err != nil {
			return err
		}
		a, err := lease.Advisory(ctx, pool, "job", lease.AdvisoryOptions{})
		if err != nil {
			return err
		}
		fmt.Println("hold", a.Token())
		orders.Scan()
		return a.Release(ctx)
	case "save":
		return saver(ctx, do[1], do[2] == "told", orders)
	}
	return fmt.Errorf("what is %q?", do)
}

// saver takes the lease again and again and saves under it until it is
// refused: once, when it is told to, or all the time.
func saver(ctx context.Context, url string, told bool, orders *bufio.Scanner) error {
	s, err := store.Open(ctx, url)
	if err != nil {
		return err
	}
	defer s.Close()
	ttl := workerTTL
	if told {
		ttl = time.Hour
	}
	m, err := lease.New(s, lease.Options{TTL: ttl, Holder: "worker"})
	if err != nil {
		return err
	}
	g, err := lease.NewGuarded(s, "object")
	if err != nil {
		return err
	}
	for {
		l, err := m.Acquire(ctx, "job")
		if err != nil {
			return err
		}
		_, err = g.Load(ctx, l.Token())
		fmt.Println("hold", l.Token())
		if told && !orders.Scan() {
			return orders.Err()
		}
		var stale *lease.StaleError
		for n := 0; err == nil && (n == 0 || !told); n++ {
			_, err = g.Save(ctx, l.Token(), fmt.Appendf(nil, "worker %d %d", l.Token(), n))
		}
		switch {
		case err == nil:
			fmt.Println("accepted")
		case errors.As(err, &stale):
			fmt.Println("stale")
		default:
			return err
		}
		var lost *lease.LostError
		if err := l.Release(ctx); err != nil && !errors.As(err, &lost) {
			return err
		}
	}
}

// process is a worker.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	said *bufio.Scanner
}

func start(t *testing.T, do string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A worker that never comes to its end is killed, and fails the test.
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	p := &process{cmd: exec.CommandContext(ctx, exe)}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+do)
	p.cmd.Stderr = os.Stderr
	p.in, err = p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.said = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// It is over already, or ended here; either is right.
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// next is the next word of the worker.
func (p *process) next(t *testing.T) string {
	t.Helper()
	if !p.said.Scan() {
		t.Fatalf("the worker says no more: %v", p.said.Err())
	}
	word, _, _ := strings.Cut(p.said.Text(), " ")
	return word
}

func (p *process) tell(t *testing.T) {
	t.Helper()
	if _, err := fmt.Fprintln(p.in); err != nil {
		t.Fatal(err)
	}
}

// stop returns when the process stands still.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.signal(t, unix.SIGSTOP)
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(p.cmd.Process.Pid, &status, unix.WUNTRACED, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			t.Fatalf("stop the worker: %v, status %v", err, status)
		}
		return
	}
}

func (p *process) signal(t *testing.T, s unix.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// A holder in another process is stopped. On a file store that is between its
// load and its save, and its lease is stolen; on PostgreSQL anywhere in the
// middle of saving all the time, until its lease is over. It goes on after its successor has loaded the object, and never
// changes it.
func TestStoppedHolder(t *testing.T) {
	for _, c := range []struct {
		kind   string
		told   bool
		rounds int
	}{{"file", true, 20}, {"postgres", false, 20}} {
		t.Run(c.kind, func(t *testing.T) {
			ctx := t.Context()
			url := "file://" + filepath.Join(t.TempDir(), "store")
			how := "told"
			if !c.told {
				url = pgtest.Need(t, server).URL("postgres") + "&holdfast_table=stopped"
				how = "always"
			}
			s, err := store.Open(ctx, url)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			m, errM := lease.New(s, lease.Options{TTL: time.Minute, Poll: 5 * time.Millisecond, Holder: "test"})
			g, errG := lease.NewGuarded(s, "object")
			if err := errors.Join(errM, errG); err != nil {
				t.Fatal(err)
			}
			p := start(t, "save "+url+" "+how)
			for i := range c.rounds {
				stoppedRound(t, p, m, g, c.told, i)
			}
		})
	}
}

func stoppedRound(t *testing.T, p *process, m *lease.Manager, g *lease.Guarded, told bool, i int) {
	t.Helper()
	ctx := t.Context()
	if got := p.next(t); got != "hold" {
		t.Fatalf("round %d: the worker says %q", i, got)
	}
	// Some reads let the worker come to another place each time.
	for range rand.N(20) {
		if _, err := g.Read(ctx); err != nil {
			t.Fatal(err)
		}
	}
	p.stop(t)
	l, err := takeOver(ctx, m, told)
	if err != nil {
		t.Fatal(err)
	}
	before, err := g.Load(ctx, l.Token())
	if err == nil && i%2 == 0 {
		before, err = g.Save(ctx, l.Token(), fmt.Appendf(nil, "test %d", i))
	}
	if err != nil {
		t.Fatalf("round %d: %v", i, err)
	}
	p.signal(t, unix.SIGCONT)
	if told {
		p.tell(t)
	}
	if got := p.next(t); got != "stale" {
		t.Fatalf("round %d: the save of the past holder: %q, want it refused", i, got)
	}
	after, err := g.Read(ctx)
	if err != nil || after.Version != before.Version {
		t.Fatalf("round %d: %q became %q, %v", i, before.Value, after.Value, err)
	}
	release(t, l)
}

func takeOver(ctx context.Context, m *lease.Manager, steal bool) (*lease.Lease, error) {
	if !steal {
		return m.Acquire(ctx, "job")
	}
	seen, err := m.Inspect(ctx, "job")
	if err != nil {
		return nil, err
	}
	return m.Steal(ctx, seen)
}

// A lock on a file ends with its holder, killed in the middle; the token goes
// on, and a process that is only stopped keeps the lock.
func TestFileLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var last lease.Token
	for range 3 {
		p := start(t, "file "+path)
		if p.next(t) != "hold" {
			t.Fatal("the worker does not hold the lock")
		}
		p.stop(t)
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := lease.LockFile(short, path)
		cancel()
		held := wantError[*lease.HeldError](t, "lock of a stopped process", err)
		if held != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		p.signal(t, unix.SIGKILL)
		f, err := lease.LockFile(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		// The worker's token was between.
		if f.Token() != last+2 {
			t.Errorf("token %d after %d", f.Token(), last)
		}
		last = f.Token()
		// Somebody removes the lock file: the next one locks a new one.
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		f.Release()
		f.Release()
	}
	if err := os.WriteFile(path+".token", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := lease.LockFile(t.Context(), path)
	wantError[*store.CorruptError](t, "a damaged count", err)
}

// The server frees the lock of a killed process, and not that of a stopped one.
func TestAdvisoryOfKilledProcess(t *testing.T) {
	db := pool(t)
	if err := lease.CreateFences(t.Context(), guard.Pgx(db)); err != nil {
		t.Fatal(err)
	}
	p := start(t, "advisory "+server.URL("postgres"))
	if p.next(t) != "hold" {
		t.Fatal("the worker does not hold the lock")
	}
	p.stop(t)
	_, err := lease.Advisory(t.Context(), db, "job", lease.AdvisoryOptions{Wait: 20 * time.Millisecond})
	wantError[*lease.HeldError](t, "lock of a stopped process", err)
	p.signal(t, unix.SIGKILL)
	a, err := lease.Advisory(t.Context(), db, "job", lease.AdvisoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
