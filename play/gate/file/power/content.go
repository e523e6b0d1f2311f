package power

import (
	"slices"
	"strings"
)

// block is the unit in which the data of a file reaches the disk, in bytes.
const block = 4096

// versions lists what may be on the disk, after k operations, of the content of
// each file that has been written to.
func (b *builder) versions(k int) map[FileID][]version {
	writes := map[FileID][]Op{}
	synced := map[FileID]int{}
	for _, o := range b.ops[:k] {
		switch {
		case o.data():
			writes[o.File] = append(writes[o.File], o)
		case o.Kind == SyncFile:
			synced[o.File] = len(writes[o.File])
		}
	}
	all := map[FileID][]version{}
	for f, ops := range writes {
		var data []byte
		if path, ok := strings.CutPrefix(string(f), "="); ok {
			data = b.start[path].Data
		}
		for _, o := range ops[:synced[f]] {
			data = o.write(data, len(o.Data))
		}
		all[f] = distinct(b.unsynced(data, ops[synced[f]:]))
	}
	return all
}

// unsynced lists what may be there of writes after the last sync.
func (b *builder) unsynced(data []byte, ops []Op) []version {
	list := []version{{data: data, lost: names(ops)}}
	now := data
	for i, o := range ops {
		for _, n := range cuts(len(o.Data)) {
			list = append(list, version{data: o.write(now, n), lost: append([]string{o.Step + " (torn)"}, names(ops[i+1:])...)})
		}
		now = o.write(now, len(o.Data))
		list = append(list, version{data: now, lost: names(ops[i+1:])})
	}
	if b.o.Model == Weak {
		for i := range ops {
			// This one is missing, all others are there.
			without := data
			for j, o := range ops {
				if j != i {
					without = o.write(without, len(o.Data))
				}
			}
			list = append(list, version{data: without, lost: names(ops[i : i+1])})
		}
	}
	// The full content first, so that it is what a state is first seen with.
	slices.Reverse(list)
	return list
}

func names(ops []Op) []string {
	var list []string
	for _, o := range ops {
		list = append(list, o.Step)
	}
	return list
}

// cuts are the lengths at which a write of n bytes may be torn.
func cuts(n int) []int {
	if n < 2 {
		return nil
	}
	list := []int{n / 2}
	if n > block {
		list = append(list, block, (n-1)/block*block)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// write gives the content with the first n bytes of the write done. It does not
// change what it is given. A gap is filled with zeros, as the kernel does.
func (o Op) write(data []byte, n int) []byte {
	if o.Kind == Truncate {
		if int64(len(data)) >= o.Size {
			return slices.Clip(data[:o.Size])
		}
		return append(slices.Clone(data), make([]byte, o.Size-int64(len(data)))...)
	}
	end := int(o.Offset) + n
	out := make([]byte, max(len(data), end))
	copy(out, data)
	copy(out[o.Offset:], o.Data[:n])
	return out
}

func distinct(list []version) []version {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(v version) bool {
		known := seen[string(v.data)]
		seen[string(v.data)] = true
		return known
	})
}
