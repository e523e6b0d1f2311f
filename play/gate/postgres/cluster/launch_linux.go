package cluster

import "syscall"

// sysProcAttr: the server runs as its user, in a process group of its own (an
// interrupt at the terminal is for Holdfast, which then stops the server), and
// ends when its parent does. SIGQUIT is an immediate shutdown; after SIGKILL
// the server's children and shared memory would stay for a while.
func sysProcAttr(as account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as.credential(), Setpgid: true, Pdeathsig: syscall.SIGQUIT}
}
