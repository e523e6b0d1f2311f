package play_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/play"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

// testFiles makes the test binary a service that keeps orders in files, with as
// many traps as there are variants.
const testFiles = "HOLDFAST_TEST_FILES"

type orders struct {
	dir, variant string
	mu           sync.Mutex
	late         chan string
}

func serveOrders(variant string) error {
	o := &orders{dir: os.Getenv("DATA"), variant: variant, late: make(chan string, 8)}
	if variant == "write-later" {
		go func() {
			for item := range o.late {
				if err := o.append(item); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			}
		}()
	}
	if variant == "needs-json" {
		if _, err := o.read(); err != nil {
			return err
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		item, err := io.ReadAll(r.Body)
		if err == nil {
			err = o.order(string(item), r.Header.Get("Idempotency-Key"))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "ordered")
	})
	return http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), mux)
}

func (o *orders) path(name string) string { return filepath.Join(o.dir, name) }

func (o *orders) append(item string) error {
	f, err := os.OpenFile(o.path("orders"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(item + "\n")
	return errors.Join(err, f.Close())
}

func (o *orders) read() (int, error) {
	data, err := os.ReadFile(o.path("count.json"))
	if err != nil {
		return 0, err
	}
	var n int
	return n, json.Unmarshal(data, &n)
}

func (o *orders) order(item, key string) error {
	switch o.variant {
	case "nothing":
		return nil
	case "append":
		return o.append(item)
	case "once": // the record of the key is the order
		f, err := os.OpenFile(o.path("order-"+key), os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		return errors.Join(err, f.Close())
	case "write-later":
		o.late <- item
		return nil
	case "lock-file":
		return o.underLockFile(func() error { return o.append(item) })
	case "mutex":
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.count()
	case "count":
		return o.count()
	case "needs-json":
		return os.WriteFile(o.path("count.json"), []byte("1"), 0o644)
	case "mapping":
		return o.mapping()
	}
	return fmt.Errorf("variant %q", o.variant)
}

func (o *orders) count() error {
	n, err := o.read()
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(o.dir, "count-*")
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(temp, n+1)
	return errors.Join(err, temp.Close(), os.Rename(temp.Name(), o.path("count.json")))
}

func (o *orders) underLockFile(f func() error) error {
	lock := o.path("orders.lock")
	for {
		l, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err == nil {
			l.Close()
			break
		}
		time.Sleep(time.Millisecond) // between two tries of this program under test
	}
	return errors.Join(f(), os.Remove(lock))
}

func (o *orders) mapping() error {
	f, err := os.OpenFile(o.path("count.json"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	m[0]++
	return errors.Join(unix.Munmap(m), f.Close())
}

// ordering is a scenario with two orders.
func ordering(t *testing.T, variant, extra string) *scenario.Scenario {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`
application:
  command: [%q]
  env: {%s: %s, DATA: "${files.dir}", PORT: "${port}", GORACE: atexit_sleep_ms=0}
  ready: {request: GET /healthz, timeout: 5s}
files: {seed: {count.json: "0"}}
requests:
  - {request: POST /orders, body: tea, headers: {Idempotency-Key: a}, retry: true}
  - {request: POST /orders, body: milk, headers: {Idempotency-Key: b}}
%s`, exe, testFiles, variant, extra)
	text = strings.Replace(text, "\n  ready:", "\n  "+instancesOf(variant)+"\n  ready:", 1)
	sc, err := scenario.Parse(filepath.Join(t.TempDir(), variant+".yaml"), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

// instancesOf: a mutex is right where there is one instance.
func instancesOf(variant string) string {
	if variant == "mutex" {
		return "instances: 1"
	}
	return "instances: 2"
}

func TestFaults(t *testing.T) {
	for _, c := range []struct{ variant, schedules, want string }{
		{"nothing", "retry", ""}, // no step at which it could be killed
		{"append", "retry", "duplicate effect"},
		{"once", "[interleave, crash, retry]", ""},
		{"write-later", "crash", "lost acknowledged write"},
		{"lock-file", "[interleave, crash]", "left-over file"},
		{"mutex", "interleave", ""},
		{"count", "interleave", "lost update"},
		{"needs-json", "crash", "server error only under concurrency"},
	} {
		t.Run(c.variant, func(t *testing.T) {
			t.Parallel()
			r := run(t, ordering(t, c.variant, "schedules: "+c.schedules), play.Options{})
			if got := kinds(r); got != c.want {
				t.Errorf("findings: %s", got)
				for _, f := range r.Findings {
					t.Log(f.Sentence)
				}
			}
			for _, p := range r.Passes {
				if !p.Complete || p.Schedules == 0 {
					t.Errorf("pass %s: %d schedules, complete %v, %s, %v", p.Name, p.Schedules, p.Complete, p.LeftOut, p.Reasons)
				}
			}
		})
	}
}

// TestNotCovered: what can not be held must not pass for held.
func TestNotCovered(t *testing.T) {
	_, err := play.Run(t.Context(), ordering(t, "mapping", "schedules: interleave"), play.Options{})
	var serial *play.SerialError
	if !errors.As(err, &serial) || !strings.Contains(err.Error(), "shared mapping") {
		t.Errorf("error %v", err)
	}
}
