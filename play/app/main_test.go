package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// roleEnv makes the test binary play a program instead of running the tests.
const roleEnv = "HOLDFAST_APP_TEST_ROLE"

func TestMain(m *testing.M) {
	role, arg, _ := strings.Cut(os.Getenv(roleEnv), " ")
	switch role {
	case "":
		os.Exit(m.Run())
	case "serve":
		serve(arg)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		serve(arg)
	case "wrap": // as "npm start" does: a parent that only waits for its child
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), roleEnv+"=serve "+arg)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			fail(err)
		}
		fmt.Printf("child %d\n", cmd.Process.Pid)
		if err := cmd.Wait(); err != nil {
			fail(err)
		}
	case "leave": // starts a child in its group and ends before it
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), roleEnv+"=serve "+arg)
		if err := cmd.Start(); err != nil {
			fail(err)
		}
		fmt.Printf("child %d\n", cmd.Process.Pid)
	case "broken":
		for i := range 150 {
			fmt.Printf("line %d\n", i)
		}
		fmt.Fprint(os.Stderr, "no such database")
		os.Exit(3)
	case "owner": // a player that starts an application and waits to be killed
		p, err := Start(context.Background(), Options{Command: os.Args[:1], Env: []string{roleEnv + "=serve " + arg}, Addr: arg})
		if err != nil {
			fail(err)
		}
		if err := p.Ready(context.Background(), Probe{}); err != nil {
			fail(err)
		}
		fmt.Println(p.Pid())
		<-p.Exited()
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// serve is a small web application with the manners and bad manners that the
// tests need.
func serve(addr string) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	// /wait answers when /go is called: two requests that need each other.
	var mu sync.Mutex
	waiters := map[string]chan struct{}{}
	waiter := func(name string) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if waiters[name] == nil {
			waiters[name] = make(chan struct{})
		}
		return waiters[name]
	}
	mux.HandleFunc("GET /wait/{name}", func(_ http.ResponseWriter, r *http.Request) { <-waiter(r.PathValue("name")) })
	mux.HandleFunc("POST /go/{name}", func(_ http.ResponseWriter, r *http.Request) { close(waiter(r.PathValue("name"))) })
	mux.HandleFunc("POST /spin/{name}", func(w http.ResponseWriter, r *http.Request) {
		ch := waiter(r.PathValue("name"))
		go func() { // on purpose without a pause: a thread that never sleeps
			for turns := 0; ; turns++ {
				select {
				case <-ch:
					return
				default:
					turns %= 1 << 20
				}
			}
		}()
	})
	mux.HandleFunc("POST /fork", func(http.ResponseWriter, *http.Request) {
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			fail(err)
		}
	})
	mux.HandleFunc("POST /zombie", func(http.ResponseWriter, *http.Request) {
		if err := exec.Command("true").Start(); err != nil {
			fail(err)
		}
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Remote", r.RemoteAddr)
		w.Header().Set("ETag", `"7"`)
		fmt.Fprintf(w, "%s %s host=%s\n", r.Method, r.URL, r.Host)
		for _, h := range []string{"Accept-Encoding", "Content-Type", "Cookie", "X-Key"} {
			fmt.Fprintf(w, "%s: %s\n", h, r.Header.Get(h))
		}
		_, _ = io.Copy(w, r.Body)
	})
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "sid", Value: "s3cret", Secure: true, HttpOnly: true, Path: "/"})
		w.Header().Set("Authorization", "Bearer t")
		w.Header().Set("Location", "/accounts/7")
		w.WriteHeader(http.StatusFound)
		fmt.Fprint(w, `{"user":{"id":9007199254740993,"tags":["a","b"]},"ok":true}`)
	})
	mux.HandleFunc("GET /big", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 2<<20))
	})
	// /once ends its connection after the request has come, without an answer,
	// and counts how often it was asked.
	var asked int
	mux.HandleFunc("GET /once", func(w http.ResponseWriter, r *http.Request) {
		asked++
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			fail(err)
		}
		_ = conn.Close()
	})
	mux.HandleFunc("GET /asked", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, asked) })
	mux.HandleFunc("GET /early", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(w, "late")
	})
	fmt.Printf("serving on %s with %s\n", addr, os.Getenv("EXTRA"))
	srv := &http.Server{Addr: addr, Handler: mux, IdleTimeout: 5 * time.Minute}
	if os.Getenv("EXTRA") == "impatient" {
		srv.IdleTimeout = time.Millisecond
	}
	fail(srv.ListenAndServe())
}

// start runs a role of the test binary and stops it when the test ends.
func start(t testing.TB, role string, o Options) *Process {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	o.Addr = fmt.Sprintf("127.0.0.1:%d", port)
	o.Command = os.Args[:1]
	o.Env = append(o.Env, roleEnv+"="+role+" "+o.Addr)
	p, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func ready(t testing.TB, p *Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := p.Ready(ctx, Probe{Method: "GET", Path: "/healthz"}); err != nil {
		t.Fatal(err)
	}
}

// firstLine reads one line that a started program prints.
func firstLine(t *testing.T, r io.Reader) string {
	t.Helper()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}
