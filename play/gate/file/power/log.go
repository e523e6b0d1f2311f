// Package power rebuilds what a loss of power may leave of a directory, from a
// log of what was done to it.
//
// # Model
//
// A [Log] has the operations of a run in their one order, with the data that was
// written, the syncs, and marks for what had been acknowledged to a client. Power
// may fail after any of them. What had reached the disk by then is told by the
// documentation of fsync(2): the data of a file at its last fsync, and the
// entries of a directory at the last fsync of the directory. Everything after
// that may be there or not. [States] lists the directory states that can result,
// each once.
//
//   - [Ordered], the default: the operations on directories reach the disk in
//     their order (all of them up to some point), as journaling file systems do;
//     the writes to one file too, the last one perhaps in part. There is no order
//     between a file's data and the directories: a renamed file may be empty or
//     torn. That is ext4 with data=writeback or delayed allocation, and XFS.
//   - [Weak]: beside that, each single directory operation and each single write
//     may be missing while later ones are there, which POSIX allows.
//
// Sources: fsync(2) and rename(2) of the Linux manual; T. S. Pillai et al., "All
// File Systems Are Not Created Equal: On the Complexity of Crafting
// Crash-Consistent Applications", OSDI 2014 (which persistence properties file
// systems differ in); J. Mohan et al., "Finding Crash-Consistency Bugs with
// Bounded Black-Box Crash Testing", OSDI 2018 (crash points at persistence
// operations, and that states repeat).
//
// # Limits
//
// A torn write is cut at 0, at the half and, for long ones, at the first and last
// block border; not at every byte. Blocks of zeros, bad sectors and lying disks
// are not modelled. Modes reach the disk with the entry. Times are not kept.
package power

import "fmt"

// FileID names a file over its life, whatever its paths.
type FileID string

// Existing is the ID of a file that was there before the run, by its path then.
func Existing(path string) FileID { return FileID("=" + path) }

// New is the ID of the n-th file that the run made.
func New(n int) FileID { return FileID(fmt.Sprintf("+%d", n)) }

// Kind of an operation.
type Kind uint8

const (
	// Write puts Data at Offset of File.
	Write Kind = iota
	// Truncate sets the size of File to Size.
	Truncate
	// Create makes the regular file File at Path.
	Create
	// Mkdir makes a directory at Path.
	Mkdir
	// Symlink makes a link at Path that points to To.
	Symlink
	// Link gives File the further name Path.
	Link
	// Rename moves Path to To, replacing it.
	Rename
	// Exchange swaps Path and To.
	Exchange
	// Remove takes the entry Path away.
	Remove
	// Chmod sets the mode of File or of the directory Path.
	Chmod
	// SyncFile has put the data of File on the disk.
	SyncFile
	// SyncDir has put the entries of the directory Path on the disk.
	SyncDir
	// Ack marks that Actor was answered: what it did must survive from here on.
	Ack
)

var kindNames = [...]string{"write", "truncate", "create", "mkdir", "symlink", "link", "rename", "exchange", "remove", "chmod", "fsync", "fsync directory", "acknowledge"}

func (k Kind) String() string { return kindNames[k] }

// Op is one operation of a log. Paths are relative to the watched directory, ""
// is the directory itself.
type Op struct {
	Kind     Kind
	File     FileID
	Path, To string
	Offset   int64
	Data     []byte
	Size     int64
	Mode     uint32
	// Step is the label of the step that did it, for people.
	Step string
	// Actor is whose step it was, or who was answered.
	Actor string
}

// Log is what was done, in order.
type Log struct {
	Ops []Op
	// Cut: more was written than the log may hold, and is missing from it. No
	// states can be told then.
	Cut bool
}

// entry reports whether the operation changes a directory.
func (o Op) entry() bool { return o.Kind >= Create && o.Kind <= Chmod }

// data reports whether it changes the content of a file.
func (o Op) data() bool { return o.Kind == Write || o.Kind == Truncate }
