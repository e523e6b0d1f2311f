// Package backend is the contract between Holdfast's store and the systems
// that keep the data: memory, files, SQLite, PostgreSQL and, by the same
// interface, object stores, key-value stores and SQL servers elsewhere.
//
// Users of a store import package store; this package is for those who write a
// backend. A backend passes [storetest.Run].
//
// # Model
//
// A store maps keys to items. An item is a value, the version that the store
// gave to this one write, and the nonce that the writer chose for it. Every
// write is a single step on a single key and carries a [Condition]. The step
// has one of three outcomes:
//
//   - ok: the write took effect, once;
//   - conflict (*[ConflictError]): the condition did not hold and nothing was
//     written;
//   - unknown (*[UnknownOutcomeError]): the request may have taken effect, may
//     take effect later, or never. A lost answer is not a conflict: a caller
//     who takes it for one cleans up after a write that did happen.
//
// Any other error means that nothing was written. A read that failed is an
// error and never "empty": *[NotFoundError] is returned only when the store
// said that the key is absent.
//
// # Versions never repeat
//
// A version names one write. After A → B → A the second A has another version
// than the first, and so has a key that was deleted and created again. Where
// the native tag of a system is a hash of the content (S3), the backend stores
// an envelope (package envelope) that holds the nonce, so that equal values get
// different tags. Backends without a tag of their own use the nonce as the
// version.
//
// # The nonce settles lost answers
//
// The nonce is 128 random bits chosen before the write is sent, stored with the
// value and returned by Get. After a lost answer the writer reads the key: its
// own nonce there proves that the write took effect. Anything else proves
// nothing, because another writer may have replaced the value since.
//
// # How systems map to it
//
//   - SQL (PostgreSQL, MySQL, SQLite): the version is a column that holds the
//     nonce; each condition is in the WHERE of one statement, and the number of
//     changed rows is the answer.
//   - Object stores (S3, GCS, Azure Blob): the object is an envelope; the version
//     is the native tag (ETag, generation). If-None-Match and If-Match are the
//     conditions. Where a conditional delete is missing, a backend may write a
//     conditional tombstone, reads it as absent and lists past it; or it leaves
//     Delete.IfVersion undeclared. A status that says neither yes nor no (409,
//     429, 5xx, a cut connection) is unknown, or repeated inside the backend:
//     ConflictError.FoundNonce then tells the store that the conflict is with
//     its own first attempt.
//   - Key-value systems (etcd, NATS KV, Redis, DynamoDB, Azure Table): the version
//     is the revision, or the nonce in an attribute that the condition compares;
//     comparing values is not a condition, because values repeat.
//   - Listing: the iterator hides page tokens. A system that does not list in key
//     order is sorted by its backend; one that lists keys without versions leaves
//     ListVersions undeclared and looks them up for Detail Versions.
//
// # Limits of the contract
//
// Keys are valid UTF-8 of 1 to [MaxKeyBytes] bytes without control characters;
// any other character is allowed and the backend encodes what its system does
// not take. Keys are ordered by their bytes. A listing is not a snapshot: a key
// that exists during the whole listing is in it exactly once, one that is
// written or deleted meanwhile may or may not be.
package backend
