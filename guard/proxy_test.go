package guard_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between a driver and PostgreSQL, and can let a statement through
// and cut the connection instead of passing on the answer.
type proxy struct {
	address                  string
	cutAtCommit, cutAtUpdate atomic.Bool
}

func startProxy(t *testing.T, address string) *proxy {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	socket := ".s.PGSQL.5432"
	listener, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	real := filepath.Join(u.Query().Get("host"), socket)
	p := &proxy{address: strings.Replace(address, url.QueryEscape(u.Query().Get("host")), url.QueryEscape(dir), 1)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(t, client, real) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	return p
}

func (p *proxy) serve(t *testing.T, client net.Conn, real string) {
	defer client.Close()
	server, err := net.Dial("unix", real)
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	var cut atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			// With the answer here, the server has done it.
			if err != nil || cut.Load() {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			break
		}
		sent := bytes.ToUpper(buf[:n])
		// Drivers that prepare first name the statement in Parse; the update is
		// done when Bind and Execute follow.
		if bytes.Contains(sent, []byte("COMMIT")) && p.cutAtCommit.CompareAndSwap(true, false) ||
			p.cutAtUpdate.Load() && executes(buf[:n]) && p.cutAtUpdate.CompareAndSwap(true, false) {
			cut.Store(true)
		}
		if _, err := server.Write(buf[:n]); err != nil {
			break
		}
	}
	if w, ok := server.(*net.UnixConn); ok {
		_ = w.CloseWrite()
	}
	<-done
	_, _ = io.Copy(io.Discard, client)
}

// executes says whether what a client sent has a simple query with an UPDATE, or
// an Execute message.
func executes(sent []byte) bool {
	for len(sent) >= 5 {
		size := int(sent[1])<<24 | int(sent[2])<<16 | int(sent[3])<<8 | int(sent[4])
		if sent[0] == 'E' || sent[0] == 'Q' && bytes.Contains(sent, []byte("UPDATE")) {
			return true
		}
		if len(sent) < size+1 {
			return false
		}
		sent = sent[size+1:]
	}
	return false
}
