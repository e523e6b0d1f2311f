// Package atomicfile replaces and creates small files so that a reader, a
// crash and a power loss see the old content or the new one and nothing in
// between, and so that a write that returned nil is still there afterwards.
//
// Use [Write] to replace a file, [Create] to make one that must not exist yet,
// and [Lock] around a read-modify-write:
//
//	unlock, err := atomicfile.Lock(ctx, path+".lock")
//	if err != nil { … }
//	defer unlock()
//	data, err := os.ReadFile(path)
//	…
//	err = atomicfile.Write(path, changed, atomicfile.Options{})
//
// # What each step is for
//
// A write goes to a new file with a random name in the same directory (a fixed
// name such as data.json.tmp is shared by two writers, and one renames what
// the other has half written), is synced (without this a power loss may leave
// the new name with empty content), is moved into place by rename or link, and
// the directory is synced (without this a power loss may take back the rename
// of a write that was acknowledged).
//
// The temporary file is locked by its writer while it exists. The system drops
// the lock when the writer dies, so [Sweep] can tell a dead file from one that
// a slow or stopped writer still needs, without guessing by age.
//
// # Limits
//
// Unix only; elsewhere every function returns [ErrUnsupported]. Without [Lock],
// two read-modify-write cycles still lose an update: Write makes a write atomic,
// not the reading before it. Lock is advisory: it binds those who use it. Ownership,
// ACLs and extended attributes of a replaced file are not carried over, its
// permission bits are. Network file systems are not tested.
package atomicfile
