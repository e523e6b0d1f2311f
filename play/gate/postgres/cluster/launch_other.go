//go:build unix && !linux

package cluster

import "syscall"

// sysProcAttr: as on Linux, but without a signal when the parent dies, which
// these systems do not have.
func sysProcAttr(as account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as.credential(), Setpgid: true}
}
