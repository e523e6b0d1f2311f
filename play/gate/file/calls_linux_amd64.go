package file

import "golang.org/x/sys/unix"

const (
	auditArch     = unix.AUDIT_ARCH_X86_64
	sysNewfstatat = unix.SYS_NEWFSTATAT
	// foreignFrom: from here on the numbers belong to the x32 interface, which
	// has the same architecture word.
	foreignFrom = 0x40000000
)

// calls are the trapped calls by number.
func calls() map[int]sysCall {
	m := commonCalls()
	noFollow := func(c sysCall) sysCall { c.nofollow = true; return c }
	for nr, c := range map[int]sysCall{
		unix.SYS_OPEN:     at("open", actOpen, none, 0, none),
		unix.SYS_CREAT:    at("creat", actOpen, none, 0, none),
		unix.SYS_RENAME:   {name: "rename", act: actRename, paths: []path{{none, 0}, {none, 1}}, fd: none, flags: none, nofollow: true},
		unix.SYS_LINK:     {name: "link", act: actLink, paths: []path{{none, 0}, {none, 1}}, fd: none, flags: none, nofollow: true},
		unix.SYS_SYMLINK:  noFollow(at("symlink", actSymlink, none, 1, none)),
		unix.SYS_UNLINK:   noFollow(at("unlink", actUnlink, none, 0, none)),
		unix.SYS_RMDIR:    noFollow(at("rmdir", actRmdir, none, 0, none)),
		unix.SYS_MKDIR:    noFollow(at("mkdir", actMkdir, none, 0, none)),
		unix.SYS_STAT:     at("stat", actStat, none, 0, none),
		unix.SYS_LSTAT:    noFollow(at("lstat", actStat, none, 0, none)),
		unix.SYS_ACCESS:   at("access", actAccess, none, 0, none),
		unix.SYS_READLINK: noFollow(at("readlink", actReadlink, none, 0, none)),
		unix.SYS_GETDENTS: onFD("getdents", actList),
		unix.SYS_CHMOD:    at("chmod", actChmod, none, 0, none),
	} {
		m[nr] = c
	}
	return m
}
