package file

import "golang.org/x/sys/unix"

const (
	auditArch     = unix.AUDIT_ARCH_AARCH64
	sysNewfstatat = unix.SYS_FSTATAT
	foreignFrom   = 0x40000000
)

// calls are the trapped calls by number. The machine has none of the old calls
// without a directory descriptor.
func calls() map[int]sysCall { return commonCalls() }
