// Package document keeps values that several writers change - people in a
// page, a scheduled job, a deployment - without dropping anybody's change.
//
// For most cases use [Collection.Update]: it reads the value fresh, applies a
// change, and saves it only if nobody else has saved in between; otherwise it
// reads again and repeats the change. Use [Collection.Load] and
// [Collection.Save] where a person looks at the value between the two: the
// [ETag] says what they looked at, and a lost race is a *store.ConflictError
// that the page can show, with [Merge] to bring the two edits together.
//
// # Where documents are kept
//
// [New] keeps them in a store, as compact JSON. [JSONFile] keeps each one as a
// plain JSON file that people and other tools edit too; there the ETag is a
// hash of the content, whatever its formatting, and fields that the program
// does not know survive its saves.
//
// # Promise
//
// A save takes effect only on the value that its ETag names. Update applies its
// change exactly once to a saved value, or not at all, or reports an unknown
// outcome. A failed read is never taken for an absent document.
//
// # Limits
//
// With hashes as ETags (JSONFile), A → B → A matches the first A: equal content
// is taken for unchanged. Editors and tools do not take the lock of JSONFile;
// what they save in the microseconds between the last comparison and the
// rename is overwritten. The change function may run several times and must
// have no other effects.
package document
