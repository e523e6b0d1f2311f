package cluster_test

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster/clustertest"
)

// TestCallersThreadEnds: the goroutine that calls Start is locked to its
// thread and returns, so the thread ends. The server must not take that for
// the end of its parent.
func TestCallersThreadEnds(t *testing.T) {
	var c *cluster.Cluster
	onOwnThread(func() { c = clustertest.Start(t, cluster.Options{}) })
	if c == nil {
		t.SkipNow() // Start has failed or skipped in the other goroutine
	}
	conn := connect(t, c.URL("postgres"))
	select {
	case <-c.Done():
		t.Fatal("the server ended with the thread that called Start")
	case <-time.After(300 * time.Millisecond): // the signal would be there at once
	}
	query(t, conn, "SELECT 'alive'")
}

// onOwnThread runs f on a thread that ends with it. The process's first thread
// never ends in Go, so a goroutine that finds itself there keeps that thread
// and leaves the work to another goroutine.
func onOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if syscall.Gettid() == os.Getpid() {
			onOwnThread(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}
