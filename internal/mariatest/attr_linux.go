package mariatest

import "syscall"

// serverAttr ends the server with the test process, whatever ends that.
func serverAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
