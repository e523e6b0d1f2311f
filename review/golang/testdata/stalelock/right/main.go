// Package right lets the kernel keep the lock and never removes the file.
package right

import (
	"os"
	"syscall"
)

// Lock waits for the lock; the kernel frees it when the process ends.
func Lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir+"/acme.lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
