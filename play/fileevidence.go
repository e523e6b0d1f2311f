package play

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/gate/file/power"
	"github.com/holdfast-dev/holdfast/play/gate/file/tree"
	"github.com/holdfast-dev/holdfast/play/oracle"
)

// tornRead is a read of a file that did not parse at that moment.
type tornRead struct {
	path           string
	reader, writer int
}

// tornFiles lists the files that do not parse although their names or the start
// state say what they are, and those that are empty as no serial run leaves them.
func (f *files) tornFiles(s tree.State) []string {
	torn := s.Torn()
	for p, n := range f.start {
		was := bytes.TrimSpace(n.Data)
		document := len(was) > 0 && (was[0] == '{' || was[0] == '[') && json.Valid(was)
		now, there := s[p]
		emptied := len(n.Data) > 0 && there && len(now.Data) == 0 && !f.emptied[p]
		if document && there && !json.Valid(now.Data) || emptied {
			torn = append(torn, p)
		}
	}
	for _, p := range f.start.Torn() {
		torn = slices.DeleteFunc(torn, func(t string) bool { return t == p }) // it was like that before
	}
	slices.Sort(torn)
	return slices.Compact(torn)
}

// tornNow lists them by their stable names, but for files that only this run
// has: a temporary file is half written until it is renamed.
func (f *files) tornNow() ([]string, error) {
	s, err := tree.Capture(f.dir, f.treeOptions())
	if err != nil {
		return nil, err
	}
	return f.tornKnown(s, f.gate.StableName), nil
}

// tornKnown lists the torn files of a state that serial runs have as well.
func (f *files) tornKnown(s tree.State, named func(string) string) []string {
	var names []string
	for _, p := range f.tornFiles(s) {
		if name := named(p); f.known[name] {
			names = append(names, name)
		}
	}
	return names
}

// Step implements explore.Execution. With watching, it notes who reads a file
// that does not parse.
func (x *filesRun) Step(ctx context.Context, actor int) (explore.Event, error) {
	e, err := x.run.Step(ctx, actor)
	x.marks = append(x.marks, mark{ops: x.files.gate.LogLength(), rows: len(x.rows)})
	if err != nil || !x.files.watching {
		return e, err
	}
	for _, a := range e.Footprint.Accesses {
		for path, writer := range x.broken {
			if a.Mode == explore.Read && a.Object == "file "+path && writer != actor {
				x.files.torn = append(x.files.torn, tornRead{path: path, reader: actor, writer: writer})
			}
		}
	}
	now, err := x.files.tornNow()
	if err != nil {
		return e, err
	}
	maps.DeleteFunc(x.broken, func(p string, _ int) bool { return !slices.Contains(now, p) })
	for _, p := range now {
		if _, ok := x.broken[p]; !ok {
			x.broken[p] = actor
		}
	}
	return e, nil
}

// refine names the kind of a finding by what the run did to the files.
func (p *player) refine(v oracle.Verdict, log power.Log) oracle.Verdict {
	f := p.files
	if path, a, b := collision(log, isLock); path != "" {
		v.Kind = oracle.TempCollision
		v.Sentence = fmt.Sprintf("%s and %s write to the same temporary file %s: %s", a, b, f.gate.StableName(path), v.Sentence)
		return v
	}
	if len(f.torn) > 0 {
		t := f.torn[0]
		v.Kind = oracle.TornFile
		v.Sentence = fmt.Sprintf("%s reads %s while %s has written a part of it: %s", f.name(t.reader), t.path, f.name(t.writer), v.Sentence)
	}
	return v
}

// collision finds a temporary file (one that the run makes and renames) that a
// second actor touches before the first one has renamed it.
func collision(log power.Log, isLock func(string) bool) (path, a, b string) {
	type temp struct {
		file  power.FileID
		owner string
	}
	renamed := map[string]bool{}
	for _, o := range log.Ops {
		if o.Kind == power.Rename {
			renamed[o.Path] = true
		}
	}
	open := map[string]temp{}
	for _, o := range log.Ops {
		switch o.Kind {
		case power.Create:
			if renamed[o.Path] && !isLock(o.Path) {
				open[o.Path] = temp{o.File, o.Actor}
			}
		case power.Write, power.Truncate:
			for path, t := range open {
				if t.file == o.File && t.owner != o.Actor {
					return path, t.owner, o.Actor
				}
			}
		case power.Rename, power.Remove:
			if t, ok := open[o.Path]; ok {
				if t.owner != o.Actor {
					return o.Path, t.owner, o.Actor
				}
				delete(open, o.Path)
			}
		}
	}
	return "", "", ""
}

// brokenLock finds a lock file that an actor has made and another has taken away
// or replaced.
func brokenLock(log power.Log, actor string) string {
	mine := map[string]bool{}
	for _, o := range log.Ops {
		switch {
		case (o.Kind == power.Create || o.Kind == power.Mkdir || o.Kind == power.Link) && o.Actor == actor:
			mine[o.Path] = true
		case o.Kind == power.Remove && o.Actor != actor && mine[o.Path]:
			return o.Path
		case o.Kind == power.Rename && o.Actor != actor && (mine[o.Path] || mine[o.To]):
			return o.Path
		case (o.Kind == power.Remove || o.Kind == power.Rename) && o.Actor == actor:
			delete(mine, o.Path)
		}
	}
	return ""
}
