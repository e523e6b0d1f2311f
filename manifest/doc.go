// Package manifest keeps an ordered list in one object, for the cases where
// order and atomicity are the point: the pages of a book, the parts of an
// upload, a playlist. If neither is, use package marker: its writers do not
// queue at one key.
//
// # Model
//
// The list is one key, written by compare-and-set: create-only at first, then
// if-version. Items may refer to blobs that are kept elsewhere. A blob that no
// item refers to any more is displaced and has to be deleted, which is a second
// step, on another key, and the source of the trouble:
//
//   - Deleted before the save is known to have won, it may be in use: the save
//     loses, and the list still refers to it.
//   - Deleted from what the first attempt displaced, it may be in use: the
//     attempt lost, and the winner refers to it now.
//   - Not deleted because of a crash after the save, it stays for good.
//   - Deleted late, while another writer adds a reference to it again, it is
//     in use.
//
// So the same save that displaces a blob records it as doomed in the object.
// Blobs are deleted only after that save has won, and only those that the saved
// object calls doomed; an unknown outcome deletes nothing. A crash leaves them
// in the list of the doomed, from where [Manifest.Sweep] deletes them. A change
// that refers to a doomed blob is refused with *[DoomedError].
//
// # Promise
//
// Changes are applied one after another; none is lost. No blob that the
// current object refers to is deleted. A read that failed is returned and
// nothing is written.
//
// # Limits
//
// References must be used once: [NewRef] makes them so. A name that is used
// again after its blob was swept could be hit by a sweep that was paused in
// between. A blob that was uploaded and never referred to, because the
// uploader crashed, is not known to the manifest. The whole list is read and
// written at each change.
package manifest
