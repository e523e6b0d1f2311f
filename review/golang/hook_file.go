package golang

import (
	"go/constant"

	"github.com/holdfast-dev/holdfast/review/effect"
)

func (f *file) resource() *effect.Resource {
	if f.on != nil {
		return f.on
	}
	return fileAt(f.path)
}

// fileAt is the file at a path.
func fileAt(p effect.Value) *effect.Resource {
	return &effect.Resource{Kind: effect.FileKind, Name: "*", Key: []effect.Assign{{Col: "path", Val: p}}}
}

// fileOf is the open file behind a value, through writers that wrap it.
func fileOf(a *val) *file {
	for i := 0; a != nil && i < 4; i++ {
		if a.kind == fileVal {
			return a.file
		}
		if a.kind != writerVal {
			return nil
		}
		a = a.recv
	}
	return nil
}

// Flags of os.OpenFile; their values are part of the ABI and the same on every
// Unix for the ones that are asked about here (linux).
const (
	flagCreate = 0x40
	flagExcl   = 0x80
	flagTrunc  = 0x200
	flagAppend = 0x400
	flagWrite  = 0x3
)

func (c *apiCall) files() (*val, bool) {
	switch c.id {
	case "os.Open":
		return c.opened(&file{path: c.arg(0)}, "file"), true
	case "os.Create":
		f := &file{path: c.arg(0), written: true}
		bind := c.bind("file")
		f.bind = bind
		c.e.emit(effect.Step{Op: effect.Write, Mode: effect.Truncate, Pos: c.pos(), Bind: bind, On: f.resource(), OnErr: effect.OnBind, Note: c.e.source(c.at)})
		return c.result(bind, &val{kind: fileVal, file: f, v: f.path}), true
	case "os.OpenFile":
		return c.openFile(), true
	case "os.CreateTemp", "io/ioutil.TempFile", "github.com/google/renameio.TempFile", "github.com/google/renameio.NewPendingFile":
		return c.tempFile(), true
	case "syscall.Flock", "golang.org/x/sys/unix.Flock":
		return c.flock(), true
	case "os.Remove", "os.RemoveAll":
		if len(c.args) == 1 && lockName(c.arg(0)) {
			return c.lockfile(effect.Unlock, c.arg(0)), true
		}
		return nil, false
	case "os.Link", "os.Symlink":
		if len(c.args) == 2 && lockName(c.arg(1)) {
			return c.lockfile(effect.Lock, c.arg(1)), true
		}
		return nil, false
	case "os.Mkdir":
		if len(c.args) == 2 && lockName(c.arg(0)) {
			return c.lockfile(effect.Lock, c.arg(0)), true
		}
		return nil, false
	case "github.com/gofrs/flock.New":
		return plainVal(c.arg(0)), true
	case "io.Copy", "io.CopyN", "io.CopyBuffer", "io.WriteString", "fmt.Fprintf", "fmt.Fprint", "fmt.Fprintln":
		if len(c.args) > 1 {
			if f := fileOf(c.e.deref(c.args[0])); f != nil {
				return c.writeFile(f, effect.Apply("content", values(c.args[1:])...)), true
			}
			if c.id[:3] == "io." {
				if f := fileOf(c.e.deref(c.args[1])); f != nil {
					return c.readFile(f), true
				}
			}
		}
		return nil, false
	}
	if c.recv != nil && c.recv.kind == fileVal {
		return c.fileMethod()
	}
	return nil, false
}

// lockfile takes or removes a file that is a lock by existing.
func (c *apiCall) lockfile(op effect.Op, p effect.Value) *val {
	bind := c.bind("locked")
	on := &effect.Resource{Kind: effect.LockfileKind, Name: "*", Key: []effect.Assign{{Col: "path", Val: p}}}
	c.e.emit(effect.Step{Op: op, Try: op == effect.Lock, Pos: c.pos(), Bind: bind, On: on, OnErr: effect.OnBind, Note: c.e.source(c.at)})
	return c.result(bind)
}

// opened is a file that is open for reading only: the read comes later.
func (c *apiCall) opened(f *file, name string) *val {
	bind := c.bind(name)
	f.bind = bind
	c.e.emit(effect.Step{Op: effect.Check, Pos: c.pos(), Bind: bind, On: f.resource(), Missing: "error", OnErr: effect.OnBind, Note: c.e.source(c.at)})
	return c.result(bind, &val{kind: fileVal, file: f, v: f.path})
}

func (c *apiCall) openFile() *val {
	f := &file{path: c.arg(0), written: true}
	flags := -1
	if len(c.at.Args) > 1 {
		if tv := c.e.fr.info.Types[c.at.Args[1]]; tv.Value != nil {
			if n, ok := constant.Int64Val(tv.Value); ok {
				flags = int(n)
			}
		}
	}
	if flags < 0 {
		return c.opened(f, "file")
	}
	f.append = flags&flagAppend != 0
	f.written = flags&flagWrite != 0
	s := effect.Step{Op: effect.Write, Pos: c.pos(), Bind: c.bind("file"), On: f.resource(), OnErr: effect.OnBind, Note: c.e.source(c.at)}
	f.bind = s.Bind
	switch {
	case flags&flagExcl != 0 && flags&flagCreate != 0:
		s.Mode = effect.Create
		if lockName(f.path) {
			s.Op, s.Mode, s.Try = effect.Lock, "", true
			s.On = &effect.Resource{Kind: effect.LockfileKind, Name: "*", Key: s.On.Key}
		}
	case flags&flagTrunc != 0:
		s.Mode = effect.Truncate
	default:
		return c.opened(f, "file")
	}
	c.e.emit(s)
	return c.result(s.Bind, &val{kind: fileVal, file: f, v: f.path})
}

func (c *apiCall) tempFile() *val {
	bind := c.bind("tmp")
	c.e.emit(effect.Step{Op: effect.Write, Mode: effect.Temp, Pos: c.pos(), Bind: bind, On: fileAt(effect.Fresh()), OnErr: effect.OnBind, Note: c.e.source(c.at)})
	p := effect.Var(bind, "path")
	f := &file{path: p, written: true, temp: true, bind: bind}
	if c.id == "github.com/google/renameio.TempFile" {
		f.on = fileAt(p)
		return c.result(bind, &val{kind: fileVal, file: f, v: c.arg(1)})
	}
	if c.id == "github.com/google/renameio.NewPendingFile" {
		return c.result(bind, &val{kind: fileVal, file: f, v: c.arg(0)})
	}
	return c.result(bind, &val{kind: fileVal, file: f, v: p})
}

// flock is the system call on a file's descriptor.
func (c *apiCall) flock() *val {
	how := -1
	if len(c.at.Args) > 1 {
		if tv := c.e.fr.info.Types[c.at.Args[1]]; tv.Value != nil {
			if n, ok := constant.Int64Val(tv.Value); ok {
				how = int(n)
			}
		}
	}
	p := effect.Unknown()
	if len(c.args) > 0 {
		p = c.args[0].v
	}
	on := &effect.Resource{Kind: effect.FlockKind, Name: "*", Key: []effect.Assign{{Col: "path", Val: p}}}
	bind := c.bind("flock")
	s := effect.Step{Op: effect.Lock, Pos: c.pos(), Bind: bind, On: on, OnErr: effect.OnBind, Try: how&4 != 0, Shared: how&1 != 0}
	if how&8 != 0 {
		s.Op, s.Try, s.Shared = effect.Unlock, false, false
	}
	c.e.emit(s)
	return c.result(bind)
}

func (c *apiCall) writeFile(f *file, v effect.Value) *val {
	s := effect.Step{Op: effect.Write, Mode: effect.Fill, Pos: c.pos(), Bind: c.bind("written"), On: f.resource(), Set: []effect.Assign{{Col: "*", Val: v}}, OnErr: effect.OnBind}
	if f.append {
		s.Mode = effect.Append
	}
	f.written = true
	c.e.emit(s)
	return c.result(s.Bind)
}

func (c *apiCall) readFile(f *file) *val {
	bind := c.bind("content")
	c.e.emit(effect.Step{Op: effect.Read, Pos: c.pos(), Bind: bind, On: f.resource(), OnErr: effect.OnBind, Note: c.e.source(c.at)})
	return c.result(bind, plainVal(effect.Var(bind)))
}

func (c *apiCall) fileMethod() (*val, bool) {
	f := c.recv.file
	switch c.method() {
	case "Write", "WriteString", "WriteAt", "ReadFrom":
		return c.writeFile(f, c.arg(0)), true
	case "Truncate":
		bind := c.bind("truncated")
		c.e.emit(effect.Step{Op: effect.Write, Mode: effect.Truncate, Pos: c.pos(), Bind: bind, On: f.resource(), OnErr: effect.OnBind})
		return c.result(bind), true
	case "Read", "ReadAt", "WriteTo":
		return c.readFile(f), true
	case "Sync":
		bind := c.bind("synced")
		on := f.resource()
		if !f.written {
			on = &effect.Resource{Kind: effect.DirKind, Name: "*", Key: on.Key}
		}
		c.e.emit(effect.Step{Op: effect.Fsync, Pos: c.pos(), Bind: bind, On: on, OnErr: effect.OnBind})
		return c.result(bind), true
	case "Close":
		if !f.written {
			return unknown(), true
		}
		bind := c.bind("closed")
		c.e.emit(effect.Step{Op: effect.Close, Pos: c.pos(), Bind: bind, On: f.resource(), OnErr: effect.OnBind})
		return c.result(bind), true
	case "CloseAtomicallyReplace":
		bind := c.bind("renamed")
		c.e.emit(effect.Step{Op: effect.Fsync, Pos: c.pos(), On: f.resource()})
		c.e.emit(effect.Step{Op: effect.Rename, Pos: c.pos(), Bind: bind, On: f.resource(), To: fileAt(c.recv.v), OnErr: effect.OnBind})
		return c.result(bind), true
	case "Cleanup":
		return unknown(), true
	case "Name":
		return plainVal(f.path), true
	case "Fd":
		return plainVal(f.path), true
	case "Stat":
		return c.withNoError(unknown()), true
	case "Chmod", "Seek", "SetDeadline", "Chown":
		return c.withNoError(unknown()), true
	}
	return nil, false
}

// lockName says whether a path is meant as a lock, by the only sign there is.
func lockName(p effect.Value) bool {
	last := p
	if p.Kind == effect.ApplyValue && p.Name == "concat" && len(p.Args) > 0 {
		last = p.Args[len(p.Args)-1]
	}
	s, ok := constString(last)
	return ok && (hasSuffixAny(s, ".lock", ".lck", ".pid", "/LOCK", "/lock") || s == "LOCK" || s == "lock")
}

func hasSuffixAny(s string, suffixes ...string) bool {
	for _, x := range suffixes {
		if len(s) >= len(x) && s[len(s)-len(x):] == x {
			return true
		}
	}
	return false
}
