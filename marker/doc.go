// Package marker is an index of what exists right now - running jobs, live
// sessions, open uploads - that many writers and readers change at once
// without losing an entry.
//
// # Model
//
// Each item has a marker of its own: the key <prefix>/<item id>. To register is
// one blind write of one's own key; it reads nothing, so it conflicts with
// nobody and scales with the number of writers. The index is the listing of the
// prefix. To prune is to delete single keys whose items are confirmed dead.
//
// The alternative, one list that everybody reads, changes and writes back,
// fails by this schedule:
//
//	reader                     producer
//	reads [a]
//	                           reads [a], writes [a b]
//	sees that a is dead,
//	writes []                  b is lost
//
// With markers the reader deletes the key of a, and the key of b is not part of
// that. A list with compare-and-set is right as well, but all writers queue at
// one key (docs/choosing.md has the figures).
//
// # Promise
//
// Two registrations both exist, whatever the timing. A prune removes only
// markers that were confirmed dead, that are older than MaxAge by the time in
// their id, or that a newer marker of the same group supersedes. A resolver
// that cannot tell says [Unknown], and unknown never deletes. If an item
// registers again between the reader's look and its delete, the new marker
// stays, on stores that enforce conditional deletes.
//
// # Limits
//
// A listing is not a snapshot (see package store). A marker can outlive its
// item until a reader prunes it. The age in an id is the clock of whoever made
// the id: choose MaxAge well above the clock difference between machines. All
// markers of the index are held in memory during a read, except by [Index.All]
// and [Index.PruneAged].
package marker
