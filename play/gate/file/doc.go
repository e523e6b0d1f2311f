// Package file is the gate for applications and programs that keep their state
// in files: every operation on a file below the watched directories is a step.
//
// # Model
//
// A program is started through a shim ([Gate.Add], [ShimMain]) that installs a
// seccomp filter with user notification, hands its listener to the gate and then
// becomes the program. Threads and child processes inherit the filter, so they
// belong to the program. The kernel stops each trapped call before it has done
// anything; the gate decodes it, lets it pass at once when it is not about a
// watched file, and holds it otherwise. No ptrace, no FUSE, no root.
//
// A released call is made by the gate itself, on the caller's own open file
// description and under the caller's user, groups and umask, and its result is
// handed over with [Gate.Deliver]. So the gate knows exactly when the effect is
// there; a call that is merely let go on never tells. Three kinds of call can
// not be made for somebody else and go on in the kernel: POSIX record locks
// (they belong to the process), close and exit. For these the gate foresees the
// outcome, and then looks until the kernel shows it.
//
// A lock that would block is never left to the kernel: the gate tries without
// blocking, and a step that does not get its lock waits in the gate
// ([Gate.Waiting]) until another step frees it. A try-lock that failed and is
// repeated by the same thread while no lock has changed hands is a wait as well:
// it would fail for as long as the others stand still. [Gate.Expire] lets such a
// try fail after all.
//
// # Footprints
//
// A directory entry is a resource of its own (object "dir D", where name = N);
// listing a directory reads all its entries. File content (object "file N") goes
// with the inode, named by where it was first seen in the run, with byte ranges:
// after a rename the old content is still what an old descriptor reads. A lock
// is the object "lock N". fsync touches nothing: it commutes with what others
// do, and matters for power loss only, for which it is in [Gate.Log].
//
// Names are relative to the watched directory. Random names of temporary files
// get stable ones, made of the owner's letter and a count ("tmp-A1").
//
// # Promise and limits
//
// With the footprint that comes with Answered (Event.Step), the order of two
// steps matters only if their footprints conflict. Not seen: stores to shared
// mappings (a writable one of a watched file is reported, see
// [NotCoveredError]), calls of 32-bit programs (reported), descriptors sent over
// sockets keep the name of their inode, and times of last access. io_uring is
// answered with ENOSYS, so that programs fall back to ordinary calls. What a
// program does in another mount namespace or root directory is not covered.
package file
