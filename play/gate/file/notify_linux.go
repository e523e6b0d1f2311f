//go:build amd64 || arm64

package file

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The structures and numbers of linux/seccomp.h that golang.org/x/sys has not.
const (
	ioctlIDValid  = 0x40082102
	ioctlAddFD    = 0x40182103
	ioctlSetFlags = 0x40082104
)

// notification is struct seccomp_notif.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

// addFD is struct seccomp_notif_addfd.
type addFD struct {
	id         uint64
	flags      uint32
	srcfd      uint32
	newfd      uint32
	newfdFlags uint32
}

// ioctl is for calls that do not wait, so the runtime need not be told.
func ioctl(fd int, req uintptr, arg unsafe.Pointer) (int, unix.Errno) {
	for {
		r, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), req, uintptr(arg))
		if errno != unix.EINTR {
			return int(r), errno
		}
	}
}

// listener is a filter's end for notifications.
type listener int

// receive takes the next notification, of which poll has told. ENOENT: its sender
// has been killed.
func (l listener) receive() (notification, unix.Errno) {
	var n notification
	_, errno := ioctl(int(l), unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
	return n, errno
}

// proceed lets the call go on in the kernel.
func (l listener) proceed(id uint64) unix.Errno {
	r := response{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	_, errno := ioctl(int(l), unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
	return errno
}

// answer gives the call its result; nothing is done in the kernel.
func (l listener) answer(id uint64, val int64, failure unix.Errno) unix.Errno {
	r := response{id: id, val: val, err: -int32(failure)}
	if failure != 0 {
		r.val = 0
	}
	_, errno := ioctl(int(l), unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
	return errno
}

// addFD gives the caller a copy of our descriptor and tells its number there.
//
// The answer is sent apart. SECCOMP_ADDFD_FLAG_SEND would do both at once, but a
// signal to this thread while the kernel waits for the caller, such as the one by
// which Go preempts, takes the descriptor back and leaves the call answered: the
// caller is told 0 then, and takes its standard input for the file.
func (l listener) addFD(id uint64, fd int, cloexec bool) (int, unix.Errno) {
	a := addFD{id: id, srcfd: uint32(fd)}
	if cloexec {
		a.newfdFlags = unix.O_CLOEXEC
	}
	return ioctl(int(l), ioctlAddFD, unsafe.Pointer(&a))
}

// valid reports whether the caller is still waiting. What was read from its
// memory before counts only if it is: else the number of the process may have
// been given to another one in between.
func (l listener) valid(id uint64) bool {
	_, errno := ioctl(int(l), ioctlIDValid, unsafe.Pointer(&id))
	return errno == 0
}

// wakeHere asks the kernel to wake the gate on the caller's processor, which
// halves the cost of a notification. Kernels before 6.6 do not know it.
func (l listener) wakeHere() {
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(l), ioctlSetFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
}

// offsets in struct seccomp_data; both machines are little endian.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

func load(off uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
}

func give(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k}
}

// filter is the program that decides in the kernel which calls are trapped: by
// number, and for fcntl and mmap by their arguments as well, since nearly all of
// these calls are about something else. Calls of another machine's interface are
// all trapped, so that the gate can report them.
func filter() []unix.SockFilter {
	const (
		allow  = unix.SECCOMP_RET_ALLOW
		notify = unix.SECCOMP_RET_USER_NOTIF
		nosys  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		atLeat = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		bits   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	)
	f := []unix.SockFilter{
		load(dataArch), {Code: equal, K: auditArch, Jt: 1}, give(notify),
		load(dataNr), {Code: atLeat, K: foreignFrom, Jf: 1}, give(notify),
	}
	when := func(nr int, body ...unix.SockFilter) {
		f = append(f, unix.SockFilter{Code: equal, K: uint32(nr), Jf: uint8(len(body))})
		f = append(f, body...)
	}
	for _, nr := range refused() {
		when(nr, give(nosys))
	}
	when(unix.SYS_FCNTL, load(dataArgs+8),
		unix.SockFilter{Code: equal, K: unix.F_SETLK, Jt: 4},
		unix.SockFilter{Code: equal, K: unix.F_SETLKW, Jt: 3},
		unix.SockFilter{Code: equal, K: unix.F_OFD_SETLK, Jt: 2},
		unix.SockFilter{Code: equal, K: unix.F_OFD_SETLKW, Jt: 1},
		give(allow), give(notify))
	when(unix.SYS_MMAP, load(dataArgs+16),
		unix.SockFilter{Code: bits, K: unix.PROT_WRITE, Jf: 4},
		load(dataArgs+24),
		unix.SockFilter{Code: bits, K: unix.MAP_SHARED, Jf: 2},
		unix.SockFilter{Code: bits, K: unix.MAP_ANONYMOUS, Jt: 1},
		give(notify), give(allow))
	trapped := calls()
	for _, nr := range slices.SortedFunc(maps.Keys(trapped), cmp.Compare) {
		if nr != unix.SYS_FCNTL && nr != unix.SYS_MMAP {
			when(nr, give(notify))
		}
	}
	return append(f, give(allow))
}

// install puts the filter before the calling thread and returns its listener.
func install() (listener, *UnsupportedError) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, &UnsupportedError{Reason: "no_new_privs can not be set", Err: err}
	}
	prog := filter()
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(prog)
	if errno != 0 {
		return -1, &UnsupportedError{Reason: installReason(errno), Err: errno}
	}
	return listener(fd), nil
}

func installReason(errno unix.Errno) string {
	switch errno {
	case unix.EINVAL:
		return "the kernel is older than 5.19, which held calls of Go programs need (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV); use a newer kernel"
	case unix.ENOSYS:
		return "the kernel has no seccomp filters (CONFIG_SECCOMP_FILTER), or a container answers for it; run outside of that container"
	case unix.EPERM, unix.EACCES:
		return "a container's own seccomp profile forbids it; start the container with a profile that allows the seccomp call"
	case unix.EBUSY:
		return "another supervisor already listens to this process (a container runtime with seccomp notification, or another gate); run outside of it"
	}
	return "the filter could not be installed"
}
