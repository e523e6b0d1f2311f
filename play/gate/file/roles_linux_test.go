//go:build amd64 || arm64

package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// roles are the programs that the test binary can be.
var roles = map[string]func() error{
	"replace":  func() error { return replace("data.json", `{"n":1}`) },
	"rmw":      func() error { return increment("counter.json") },
	"locked":   func() error { return underLock("counter.lock", func() error { return increment("counter.json") }) },
	"inplace":  func() error { return os.WriteFile("data.json", []byte(`{"n":1}`), 0o644) },
	"preempt":  preempt,
	"threads":  threads,
	"children": children,
	"record": func() error {
		return underRecordLock("counter.json", func() error { return increment("counter.json") })
	},
	"variety": variety,
	"mapping": mapping,
	"bench":   bench,
}

// replace is the careful way: temporary file, fsync, rename, fsync the directory.
// The bare rename, since os.Rename looks at the target first, which is a step.
func replace(name, data string) error {
	f, err := os.CreateTemp(".", "data-*.tmp")
	if err != nil {
		return err
	}
	_, err = f.WriteString(data)
	if err = errors.Join(err, f.Sync(), f.Close(), unix.Rename(f.Name(), name)); err != nil {
		return err
	}
	d, err := os.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func increment(name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var v struct{ N int }
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	v.N++
	if b, err = json.Marshal(v); err != nil {
		return err
	}
	return replace(name, string(b))
}

func underLock(name string, f func() error) error {
	l, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(l.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	return errors.Join(f(), l.Close())
}

func underRecordLock(name string, f func() error) error {
	l, err := os.OpenFile(name+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	if err := unix.FcntlFlock(l.Fd(), unix.F_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		return err
	}
	// Closing any descriptor of the file frees the lock.
	return errors.Join(f(), l.Close())
}

// preempt writes while its thread gets the signal by which Go preempts, all the
// time.
func preempt() error {
	runtime.LockOSThread()
	pid, tid := unix.Getpid(), unix.Gettid()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		tick := time.NewTicker(50 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				// It ends with the process, so there is nobody to tell.
				_ = unix.Tgkill(pid, tid, unix.SIGURG)
			}
		}
	}()
	for range 5 {
		f, err := os.OpenFile("log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		if _, err := f.WriteString("line\n"); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

func threads() error {
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		wg.Go(func() {
			runtime.LockOSThread()
			errs[i] = os.WriteFile(filepath.Join("sub", string(rune('a'+i))), []byte("x"), 0o644)
		})
		wg.Wait()
	}
	return errors.Join(errs...)
}

func children() error {
	return exec.Command("/bin/sh", "-c", "echo one > first; mv first second").Run()
}

// variety makes one of each kind of call and checks its result as it sees it.
func variety() error {
	if err := os.Mkdir("d", 0o750); err != nil {
		return err
	}
	f, err := os.OpenFile("d/f", os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return err
	}
	if _, err := f.Write([]byte("hello world")); err != nil {
		return err
	}
	if err := f.Truncate(5); err != nil {
		return err
	}
	buf := make([]byte, 10)
	if n, _ := f.ReadAt(buf, 1); string(buf[:n]) != "ello" {
		return errors.New("pread: " + string(buf[:n]))
	}
	if n, err := unix.Pwritev(int(f.Fd()), [][]byte{[]byte("J"), []byte("E")}, 0); n != 2 || err != nil {
		return errors.Join(err, errors.New("pwritev"))
	}
	st, err := f.Stat()
	if err != nil || st.Size() != 5 || st.Mode().Perm() != 0o640 {
		return errors.Join(err, errors.New("fstat"))
	}
	if err := os.Symlink("d/f", "link"); err != nil {
		return err
	}
	if b, err := os.ReadFile("link"); err != nil || string(b) != "JEllo" {
		return errors.Join(err, errors.New("read by a link: "+string(b)))
	}
	if to, err := os.Readlink("link"); err != nil || to != "d/f" {
		return errors.Join(err, errors.New("readlink: "+to))
	}
	if err := os.Link("d/f", "d/g"); err != nil {
		return err
	}
	if err := os.Chmod("d/g", 0o600); err != nil {
		return err
	}
	when := time.Unix(1e9, 5)
	if err := os.Chtimes("d/g", when, when); err != nil {
		return err
	}
	if st, err := os.Stat("d/g"); err != nil || !st.ModTime().Equal(when) || st.Mode().Perm() != 0o600 {
		return errors.Join(err, errors.New("stat"))
	}
	names, err := os.ReadDir("d")
	if err != nil || len(names) != 2 || names[1].Name() != "g" {
		return errors.Join(err, errors.New("list"))
	}
	if _, err := os.OpenFile("d/f", os.O_CREATE|os.O_EXCL, 0o600); !errors.Is(err, os.ErrExist) {
		return errors.Join(err, errors.New("exclusive creation of what is there"))
	}
	if err := unix.Access("d/none", unix.R_OK); !errors.Is(err, os.ErrNotExist) {
		return errors.Join(err, errors.New("access"))
	}
	if err := copyRange(f); err != nil {
		return err
	}
	return errors.Join(os.Remove("d/f"), os.Remove("d/g"), os.Remove("d/copy"), os.Remove("link"), os.Remove("d"), f.Close())
}

func copyRange(f *os.File) error {
	g, err := os.Create("d/copy")
	if err != nil {
		return err
	}
	off := int64(1)
	n, err := unix.CopyFileRange(int(f.Fd()), &off, int(g.Fd()), nil, 3, 0)
	if err != nil || n != 3 || off != 4 {
		return errors.Join(err, errors.New("copy_file_range"))
	}
	if b, err := os.ReadFile("d/copy"); err != nil || string(b) != "Ell" {
		return errors.Join(err, errors.New("copied "+string(b)))
	}
	return g.Close()
}

func mapping() error {
	f, err := os.OpenFile("data.json", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	b[0] = '['
	return errors.Join(unix.Munmap(b), f.Close())
}

// benchCalls is how often the benchmark's program makes each call.
const benchCalls = 20000

// bench prints the nanoseconds of a call with a path and of one with a
// descriptor, on files that are not watched.
func bench() error {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return err
	}
	fd := int(f.Fd())
	buf := make([]byte, 16)
	began := time.Now()
	for range benchCalls {
		if err := unix.Access("/etc/passwd", unix.F_OK); err != nil {
			return err
		}
	}
	byPath := time.Since(began)
	began = time.Now()
	for range benchCalls {
		if _, err := unix.Pread(fd, buf, 0); err != nil {
			return err
		}
	}
	fmt.Println(byPath.Nanoseconds()/benchCalls, time.Since(began).Nanoseconds()/benchCalls)
	return f.Close()
}
