package cluster

import (
	"os/exec"
	"runtime"
)

// launch starts a program and a goroutine that waits for it.
//
// The kernel sends the parent-death signal when the *thread* that started the
// child ends, not the process. Go ends threads: a goroutine that returns while
// locked to its thread takes the thread along. Started from such a goroutine
// (any caller's may be one), the server would die in the middle of a play. So
// the child is started by a goroutine that stays on its own thread until the
// child has ended.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			// How it ended says nothing: an immediate shutdown has an exit code too.
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	p.signal = cmd.Process.Signal
	return p, nil
}
