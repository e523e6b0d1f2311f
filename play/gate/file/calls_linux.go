//go:build amd64 || arm64

package file

import "golang.org/x/sys/unix"

// action is what a trapped call does, over all its variants.
type action uint8

const (
	actNone action = iota
	actOpen
	actRead
	actWrite
	actTruncate
	actAllocate
	actRename
	actLink
	actSymlink
	actUnlink
	actRmdir
	actMkdir
	actSync
	actFlock
	actFcntl
	actClose
	actCopy
	actMap
	actStat
	actAccess
	actReadlink
	actList
	actChmod
	actTimes
	actExit
)

// path says where a call has a path: the argument with the directory's
// descriptor (-1: none, relative to the working directory) and the one with the
// string.
type path struct{ dirfd, str int }

const none = -1

// sysCall describes a trapped call.
type sysCall struct {
	name  string
	act   action
	paths []path
	// fd is the argument with the descriptor, none without one.
	fd int
	// flags is the argument with AT_ flags, none without one.
	flags int
	// empty: an empty path with AT_EMPTY_PATH, or a null one, means the
	// descriptor itself.
	empty bool
	// nofollow: a symbolic link at the end of the path is not followed.
	nofollow bool
}

func at(name string, act action, dirfd, str, flags int) sysCall {
	return sysCall{name: name, act: act, paths: []path{{dirfd, str}}, fd: none, flags: flags}
}

func onFD(name string, act action) sysCall {
	return sysCall{name: name, act: act, fd: 0, flags: none}
}

// commonCalls are the trapped calls that both machines have.
func commonCalls() map[int]sysCall {
	noFollow := func(c sysCall) sysCall { c.nofollow = true; return c }
	mayBeEmpty := func(c sysCall) sysCall { c.empty = true; return c }
	return map[int]sysCall{
		unix.SYS_OPENAT:  at("openat", actOpen, 0, 1, none),
		unix.SYS_OPENAT2: at("openat2", actOpen, 0, 1, none),

		unix.SYS_READ:    onFD("read", actRead),
		unix.SYS_PREAD64: onFD("pread64", actRead),
		unix.SYS_READV:   onFD("readv", actRead),
		unix.SYS_PREADV:  onFD("preadv", actRead),
		unix.SYS_PREADV2: onFD("preadv2", actRead),

		unix.SYS_WRITE:    onFD("write", actWrite),
		unix.SYS_PWRITE64: onFD("pwrite64", actWrite),
		unix.SYS_WRITEV:   onFD("writev", actWrite),
		unix.SYS_PWRITEV:  onFD("pwritev", actWrite),
		unix.SYS_PWRITEV2: onFD("pwritev2", actWrite),

		unix.SYS_TRUNCATE:  at("truncate", actTruncate, none, 0, none),
		unix.SYS_FTRUNCATE: onFD("ftruncate", actTruncate),
		unix.SYS_FALLOCATE: onFD("fallocate", actAllocate),

		unix.SYS_RENAMEAT2: {name: "renameat2", act: actRename, paths: []path{{0, 1}, {2, 3}}, fd: none, flags: none, nofollow: true},
		unix.SYS_RENAMEAT:  {name: "renameat", act: actRename, paths: []path{{0, 1}, {2, 3}}, fd: none, flags: none, nofollow: true},
		unix.SYS_LINKAT:    {name: "linkat", act: actLink, paths: []path{{0, 1}, {2, 3}}, fd: none, flags: 4, nofollow: true, empty: true},
		unix.SYS_SYMLINKAT: noFollow(at("symlinkat", actSymlink, 1, 2, none)),
		unix.SYS_UNLINKAT:  noFollow(at("unlinkat", actUnlink, 0, 1, none)),
		unix.SYS_MKDIRAT:   noFollow(at("mkdirat", actMkdir, 0, 1, none)),

		unix.SYS_FSYNC:           onFD("fsync", actSync),
		unix.SYS_FDATASYNC:       onFD("fdatasync", actSync),
		unix.SYS_SYNC_FILE_RANGE: onFD("sync_file_range", actSync),

		unix.SYS_FLOCK: onFD("flock", actFlock),
		unix.SYS_FCNTL: onFD("fcntl", actFcntl),
		unix.SYS_CLOSE: onFD("close", actClose),

		unix.SYS_COPY_FILE_RANGE: onFD("copy_file_range", actCopy),
		unix.SYS_SENDFILE:        onFD("sendfile", actCopy),
		unix.SYS_MMAP:            {name: "mmap", act: actMap, fd: 4, flags: none},

		sysNewfstatat:       mayBeEmpty(at("newfstatat", actStat, 0, 1, 3)),
		unix.SYS_STATX:      mayBeEmpty(at("statx", actStat, 0, 1, 2)),
		unix.SYS_FSTAT:      onFD("fstat", actStat),
		unix.SYS_FACCESSAT:  at("faccessat", actAccess, 0, 1, none),
		unix.SYS_FACCESSAT2: mayBeEmpty(at("faccessat2", actAccess, 0, 1, 3)),
		unix.SYS_READLINKAT: noFollow(mayBeEmpty(at("readlinkat", actReadlink, 0, 1, none))),
		unix.SYS_GETDENTS64: onFD("getdents64", actList),

		unix.SYS_FCHMOD:    onFD("fchmod", actChmod),
		unix.SYS_FCHMODAT:  at("fchmodat", actChmod, 0, 1, none),
		unix.SYS_UTIMENSAT: mayBeEmpty(at("utimensat", actTimes, 0, 1, 3)),

		// The end of a thread is noted, so that its number can come again.
		unix.SYS_EXIT:       {name: "exit", act: actNone, fd: none, flags: none},
		unix.SYS_EXIT_GROUP: {name: "exit_group", act: actExit, fd: none, flags: none},
	}
}

// refused are answered with ENOSYS: their operations do not pass the filter.
func refused() []int {
	return []int{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}
}
