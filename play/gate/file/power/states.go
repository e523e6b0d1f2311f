package power

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/play/gate/file/tree"
)

// Model says what a file system promises.
type Model uint8

const (
	// Ordered keeps the order of directory operations, and that of the writes to
	// one file.
	Ordered Model = iota
	// Weak keeps no order but that of a sync.
	Weak
)

// Options of [States]. The zero value is the ordered model.
type Options struct {
	Model Model
	// Max bounds the number of states; 0 is 4096.
	Max int
}

const defaultMax = 4096

// State is what a loss of power may leave.
type State struct {
	Tree tree.State
	// After is how many operations of the log had been done, at the first point
	// at which this state can be left with these acknowledgements.
	After int
	// Acked are the actors that had been answered by then.
	Acked []string
	// Lost are the operations that had been done and did not reach the disk, or
	// only in part ("torn").
	Lost []string
}

// TooManyError says that the list of states is not complete.
type TooManyError struct{ Max int }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("power loss: more than %d states; shorten the scenario, use the ordered model or raise the bound", e.Max)
}

// CutLogError says that the log has not all the data that was written.
type CutLogError struct{}

func (CutLogError) Error() string {
	return "power loss: the run wrote more than its log may hold, so the states can not be told; write less or raise the log's bound"
}

// States lists the distinct states that a loss of power at any point of the log
// may leave, beginning from start. States are distinct if their content differs,
// or who had been answered. With a *[TooManyError] the states found so far are
// returned as well.
func States(start tree.State, log Log, o Options) ([]State, error) {
	if log.Cut {
		return nil, CutLogError{}
	}
	if o.Max == 0 {
		o.Max = defaultMax
	}
	b := builder{start: start, ops: log.Ops, o: o, seen: map[string]bool{}}
	var acked []string
	for k := 0; k <= len(log.Ops); k++ {
		if k > 0 {
			if op := log.Ops[k-1]; op.Kind == Ack {
				acked = append(acked, op.Actor)
			}
		}
		if !b.crash(k, slices.Clone(acked)) {
			return b.states, &TooManyError{Max: o.Max}
		}
	}
	return b.states, nil
}

type builder struct {
	start  tree.State
	ops    []Op
	o      Options
	seen   map[string]bool
	states []State
}

// crash adds the states that a loss of power after k operations may leave; false
// when there are too many.
func (b *builder) crash(k int, acked []string) bool {
	versions := b.versions(k)
	for _, kept := range b.directories(k) {
		space := b.namespace(kept)
		if !b.product(k, acked, kept, space, versions) {
			return false
		}
	}
	return true
}

// directories lists the sets of directory operations, of the first k operations,
// that can be on the disk together.
func (b *builder) directories(k int) [][]int {
	var all []int
	for i := range k {
		if b.ops[i].entry() {
			all = append(all, i)
		}
	}
	forced := make([]bool, len(all))
	last := 0
	for n, i := range all {
		for j := i + 1; j < k; j++ {
			if s := b.ops[j]; s.Kind == SyncDir && b.ops[i].touches(s.Path) {
				forced[n] = true
				last = n + 1
			}
		}
	}
	if b.o.Model == Ordered {
		var sets [][]int
		for m := last; m <= len(all); m++ {
			sets = append(sets, all[:m])
		}
		return sets
	}
	return subsets(all, forced)
}

// touches reports whether the operation changes an entry of the directory.
func (o Op) touches(dir string) bool {
	return parent(o.Path) == dir || (o.Kind == Rename || o.Kind == Exchange) && parent(o.To) == dir
}

func parent(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return ""
	}
	return path[:i]
}

// maxFree bounds the operations of which all subsets are taken. Of more, those
// sets are taken in which up to two are missing, and the prefixes.
const maxFree = 8

// subsets lists the sets with all forced ones and any of the others.
func subsets(all []int, forced []bool) [][]int {
	var free []int
	for n := range all {
		if !forced[n] {
			free = append(free, n)
		}
	}
	without := func(drop map[int]bool) []int {
		var kept []int
		for n, i := range all {
			if !drop[n] {
				kept = append(kept, i)
			}
		}
		return kept
	}
	var sets [][]int
	if len(free) <= maxFree {
		for mask := range 1 << len(free) {
			drop := map[int]bool{}
			for bit, n := range free {
				if mask>>bit&1 == 1 {
					drop[n] = true
				}
			}
			sets = append(sets, without(drop))
		}
		return sets
	}
	for i := range free {
		prefix := map[int]bool{}
		for _, n := range free[i:] {
			prefix[n] = true
		}
		sets = append(sets, without(prefix))
		for j := i; j < len(free); j++ {
			sets = append(sets, without(map[int]bool{free[i]: true, free[j]: true}))
		}
	}
	return append(sets, all)
}

// node is an entry of the name space: a file by its ID, or itself.
type node struct {
	file FileID
	mode fs.FileMode
	data []byte // a link's target
}

// namespace applies the directory operations to the start state.
func (b *builder) namespace(kept []int) map[string]node {
	space := map[string]node{}
	for p, n := range b.start {
		e := node{mode: n.Mode, data: n.Data}
		if n.Mode.IsRegular() {
			e = node{file: Existing(p), mode: n.Mode}
		}
		space[p] = e
	}
	for _, i := range kept {
		apply(space, b.ops[i])
	}
	// What lies in a directory that did not reach the disk is not there.
	for p := range space {
		for d := parent(p); d != ""; d = parent(d) {
			if n, ok := space[d]; !ok || !n.mode.IsDir() {
				delete(space, p)
				break
			}
		}
	}
	return space
}

func apply(space map[string]node, o Op) {
	perm := fs.FileMode(o.Mode & 0o777)
	switch o.Kind {
	case Create:
		space[o.Path] = node{file: o.File, mode: perm}
	case Link:
		space[o.Path] = node{file: o.File, mode: modeOf(space, o.File)}
	case Mkdir:
		space[o.Path] = node{mode: fs.ModeDir | perm}
	case Symlink:
		space[o.Path] = node{mode: fs.ModeSymlink | 0o777, data: []byte(o.To)}
	case Remove:
		move(space, o.Path, "")
	case Rename:
		n, ok := space[o.Path]
		if !ok && o.File != "" {
			// The source's own entry was never on the disk; the target's is.
			n = node{file: o.File, mode: 0o600}
		} else if !ok {
			return
		}
		move(space, o.Path, o.To)
		space[o.To] = n
	case Exchange:
		const between = "\x00exchange"
		move(space, o.Path, between)
		move(space, o.To, o.Path)
		move(space, between, o.To)
	case Chmod:
		for p, n := range space {
			if o.File != "" && n.file == o.File || o.File == "" && p == o.Path {
				n.mode = n.mode.Type() | perm
				space[p] = n
			}
		}
	}
}

func modeOf(space map[string]node, id FileID) fs.FileMode {
	for _, n := range space {
		if n.file == id {
			return n.mode
		}
	}
	return 0o600
}

// move takes an entry, with all below it, to another name; to "" removes it.
func move(space map[string]node, from, to string) {
	var moved []string
	for p := range space {
		if p == from || strings.HasPrefix(p, from+"/") {
			moved = append(moved, p)
		}
	}
	for _, p := range moved {
		n := space[p]
		delete(space, p)
		if to != "" {
			space[to+strings.TrimPrefix(p, from)] = n
		}
	}
}

// version is what may be on the disk of a file's content.
type version struct {
	data []byte
	lost []string
}

// product adds each combination of versions of the files that have a name.
func (b *builder) product(k int, acked []string, kept []int, space map[string]node, versions map[FileID][]version) bool {
	var files []FileID
	for _, n := range space {
		if n.file != "" && !slices.Contains(files, n.file) {
			files = append(files, n.file)
		}
	}
	slices.Sort(files)
	pick := make([]int, len(files))
	for {
		chosen := map[FileID]version{}
		for i, f := range files {
			if vs := versions[f]; len(vs) > 0 {
				chosen[f] = vs[pick[i]]
			}
		}
		if !b.add(k, acked, kept, space, chosen) {
			return false
		}
		i := 0
		for ; i < len(files); i++ {
			if pick[i]++; pick[i] < len(versions[files[i]]) {
				break
			}
			pick[i] = 0
		}
		if i == len(files) {
			return true
		}
	}
}

// add adds a state unless it is known.
func (b *builder) add(k int, acked []string, kept []int, space map[string]node, chosen map[FileID]version) bool {
	s := State{Tree: tree.State{}, After: k, Acked: acked}
	for p, n := range space {
		data := n.data
		if v, ok := chosen[n.file]; ok && n.file != "" {
			data = v.data
		} else if path, ok := strings.CutPrefix(string(n.file), "="); ok {
			data = b.start[path].Data
		}
		s.Tree[p] = tree.Node{Mode: n.mode, Data: data}
	}
	key := s.Tree.Digest() + fmt.Sprintf("%q", acked)
	if b.seen[key] {
		return true
	}
	if len(b.states) >= b.o.Max {
		return false
	}
	b.seen[key] = true
	for i := range k {
		if b.ops[i].entry() && !slices.Contains(kept, i) {
			s.Lost = append(s.Lost, b.ops[i].Step)
		}
	}
	var lost []string
	for _, v := range chosen {
		lost = append(lost, v.lost...)
	}
	slices.Sort(lost)
	s.Lost = append(s.Lost, lost...)
	b.states = append(b.states, s)
	return true
}
