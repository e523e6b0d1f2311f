//go:build !linux

package mariatest

import "syscall"

func serverAttr() *syscall.SysProcAttr { return nil }
