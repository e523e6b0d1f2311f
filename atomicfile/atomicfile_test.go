//go:build unix

package atomicfile_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/atomicfile"
)

// holdEnv makes the test binary a process that prepares a file in the named
// directory, says so, and waits to be killed.
const holdEnv = "HOLDFAST_ATOMICFILE_HOLD"

func TestMain(m *testing.M) {
	dir, ok := os.LookupEnv(holdEnv)
	if !ok {
		os.Exit(m.Run())
	}
	if _, err := atomicfile.Prepare(dir, []byte("half done"), atomicfile.Options{}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	select {}
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	if err := atomicfile.Write(path, []byte("one"), atomicfile.Options{Perm: 0o640}); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.json")
	if err := os.Symlink("a.json", link); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(link, []byte("two"), atomicfile.Options{}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	info, statErr := os.Stat(path)
	if err != nil || statErr != nil || string(data) != "two" || info.Mode().Perm() != 0o640 {
		t.Errorf("through the link: %q, %v, %v", data, info.Mode(), errors.Join(err, statErr))
	}
	if target, err := os.Readlink(link); err != nil || target != "a.json" {
		t.Errorf("the link became %q, %v", target, err)
	}
	if got := entries(t, dir); len(got) != 2 {
		t.Errorf("left in the directory: %q", got)
	}
	if err := atomicfile.Write(filepath.Join(dir, "none", "x"), nil, atomicfile.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("write into a missing directory: %v", err)
	}
}

func TestCreateHasOneWinner(t *testing.T) {
	dir := t.TempDir()
	for round := range 20 {
		path := filepath.Join(dir, strconv.Itoa(round))
		var wins atomic.Int64
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				err := atomicfile.Create(path, fmt.Append(nil, i), atomicfile.Options{})
				if err == nil {
					wins.Add(1)
				} else if !errors.Is(err, fs.ErrExist) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if wins.Load() != 1 {
			t.Fatalf("round %d: %d winners", round, wins.Load())
		}
	}
	if got := entries(t, dir); len(got) != 20 {
		t.Errorf("%d files are left, 20 were created: %q", len(got), got)
	}
}

// Readers during replacements of different lengths see whole contents only.
func TestNoTornRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	content := func(n int) []byte { return bytes.Repeat([]byte{byte('a' + n%26)}, 1+n%5*40000) }
	if err := atomicfile.Write(path, content(0), atomicfile.Options{}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				data, err := os.ReadFile(path)
				if err != nil || len(data) == 0 || len(bytes.Trim(data, string(data[:1]))) > 0 {
					t.Errorf("torn read of %d bytes: %v", len(data), err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for n := range 60 {
		if err := atomicfile.Write(path, content(n), atomicfile.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	wg.Wait()
}

func TestLockExcludes(t *testing.T) {
	dir := t.TempDir()
	path, number := filepath.Join(dir, "lock"), filepath.Join(dir, "number")
	if err := os.WriteFile(number, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				unlock, err := atomicfile.Lock(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				n, err := readNumber(number)
				if err == nil {
					err = atomicfile.Write(number, fmt.Append(nil, n+1), atomicfile.Options{})
				}
				unlock()
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n, err := readNumber(number); n != 200 || err != nil {
		t.Errorf("counted %d, want 200 (%v)", n, err)
	}
	unlock, err := atomicfile.Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := atomicfile.Lock(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a held lock: %v", err)
	}
}

func readNumber(path string) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(data))
}

// Holders that remove the lock file when they are done: a waiter may get the
// lock of a file that no longer has a name. It must notice and take the new
// one; without the check two holders meet.
func TestLockOfARemovedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var holders, most atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 300 {
				unlock, err := atomicfile.Lock(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				now := holders.Add(1)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				// Some time for another holder to show itself.
				for range 100 {
					runtime.Gosched()
				}
				holders.Add(-1)
				_ = os.Remove(path)
				unlock()
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 {
		t.Errorf("%d held the lock at once", most.Load())
	}
}

// The file of a stopped writer stays, that of a killed one goes.
func TestSweepTellsDeadFromStopped(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), holdEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill := func() {
		if !killed {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			killed = true
		}
	}
	defer kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("helper said %q, %v", line, err)
	}
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if n, err := atomicfile.Sweep(dir); err != nil || n != 0 {
		t.Errorf("swept %d files of a stopped writer, %v", n, err)
	}
	if got := entries(t, dir); len(got) != 1 || !atomicfile.IsTemp(got[0]) {
		t.Fatalf("the directory holds %q, want one temporary file", got)
	}
	kill()
	if n, err := atomicfile.Sweep(dir); err != nil || n != 1 {
		t.Errorf("swept %d files of a killed writer, %v", n, err)
	}
	if got := entries(t, dir); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

// Writers and sweepers at the same time: no writer loses its file to a
// sweeper that met it between creation and lock.
func TestSweepBesideWriters(t *testing.T) {
	dir := t.TempDir()
	done := make(chan struct{})
	var sweeper, writers sync.WaitGroup
	sweeper.Go(func() {
		for {
			if _, err := atomicfile.Sweep(dir); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for w := range 4 {
		writers.Go(func() {
			for i := range 50 {
				if err := atomicfile.Write(filepath.Join(dir, strconv.Itoa(w)), fmt.Append(nil, i), atomicfile.Options{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	close(done)
	sweeper.Wait()
	if got := entries(t, dir); len(got) != 4 {
		t.Errorf("left: %q", got)
	}
}

func ExampleWrite() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "settings.json")
	if err := atomicfile.Write(path, []byte(`{"theme":"dark"}`), atomicfile.Options{Perm: 0o644}); err != nil {
		fmt.Println(err)
		return
	}
	data, err := os.ReadFile(path)
	fmt.Println(string(data), err)
	// Output: {"theme":"dark"} <nil>
}

func ExampleCreate() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "claim")
	for _, who := range []string{"first", "second"} {
		err := atomicfile.Create(path, []byte(who), atomicfile.Options{})
		fmt.Println(who, "taken:", errors.Is(err, fs.ErrExist))
	}
	// Output:
	// first taken: false
	// second taken: true
}
