// Package httpcond carries the conditions of HTTP requests - If-Match,
// If-None-Match, If-Modified-Since, If-Unmodified-Since - down to conditional
// writes (RFC 9110, section 13).
//
// # Model
//
// An entity tag names one state of a resource; a store's Version does the same,
// so each is the other in another spelling ([FromVersion], [ETag.Version]). A
// client that edits something sends the tag of what it saw back in If-Match.
//
// A handler that compares that tag with the current one and then writes has
// only moved the race: between the two, somebody else can write. So
// [Preconditions.ForWrite] evaluates the request against what was read, and
// returns the condition that the write itself must carry.
//
//	p, err := httpcond.Parse(r)
//	current, err := httpcond.Of(s.Get(ctx, key))
//	cond, err := p.Require().ForWrite(current)
//	_, err = s.Put(ctx, key, body, cond)   // *store.ConflictError: the race was lost
//
// Package conflict turns the errors into 412 and 428 answers.
//
// # Promise
//
// Strong comparison for If-Match, weak for If-None-Match; lists over several
// lines; "*"; the order of evaluation of section 13.2.2. A malformed If-Match or
// If-None-Match is *[HeaderError] (400) and never taken for an absent one: the
// write would be blind.
//
// # Limits
//
// Evaluate conditions after everything else that can refuse the request
// (authorisation, an invalid body): section 13.2.1 wants them ignored where the
// answer without them would be an error. Dates have a resolution of one second,
// so two writes within it look like one; [Preconditions.Require] does not take a
// date for a condition. A proxy or middleware that compresses answers must make
// their tags weak or different; then they do not match here.
package httpcond
